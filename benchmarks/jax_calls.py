"""What a call costs from JAX: outside of jit, in a jit alone, and one of many in a jit, in command buffers and out.

`python benchmarks/jax_calls.py` on a GPU with JAX. It bakes axpby with its default and prints microseconds a call, the
least of several rounds, of a tiny problem: calls are dispatched one after another and waited for at the end of a round.
Beside it stands `jax.numpy.add`. XLA reads its flags once, so that each kind of program has a process of its own.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from baking import baked, texts

CALLS, ROUNDS, CHAIN = 500, 10, 100
TEMPLATES = Path(__file__).parents[1] / "templates"
FLAGS = {
    "launched": "--xla_gpu_enable_command_buffer=",
    "in command buffers": "--xla_gpu_enable_command_buffer=FUSION,CUSTOM_CALL --xla_gpu_graph_min_graph_size=1",
    "by XLA's own choice": "",
}


def microseconds(call: Callable[[], Any], calls: int) -> float:
    """Return what a call costs, in microseconds, everything that it enqueued included."""
    jax = importlib.import_module("jax")
    for _ in range(10):
        jax.block_until_ready(call())
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        for _ in range(calls):
            result = call()
        jax.block_until_ready(result)
        best = min(best, (time.perf_counter_ns() - begin) / calls / 1000)
    return best


def lines(tuned: Any) -> Iterator[tuple[str, float]]:
    """Yield what was measured, with the microseconds of a call."""
    jax = importlib.import_module("jax")
    x, y = (jax.random.normal(jax.random.key(seed), (1024,)) for seed in (0, 1))

    def ours(x: Any) -> Any:
        return tuned.axpby(x, y, 0.5, 0.25)

    def theirs(x: Any) -> Any:
        return jax.lax.optimization_barrier(x + y)

    for name, one in (("axpby", ours), ("jax.numpy.add", theirs)):

        def chain(x: Any, one: Callable[[Any], Any] = one) -> Any:
            for _ in range(CHAIN):
                x = one(x)
            return x

        def loop(x: Any, one: Callable[[Any], Any] = one) -> Any:
            return jax.lax.fori_loop(0, CHAIN, lambda _, x: one(x), x)

        alone, several, looped = jax.jit(one), jax.jit(chain), jax.jit(loop)
        outside = (lambda: tuned.axpby(x, y, 0.5, 0.25)) if one is ours else (lambda: jax.numpy.add(x, y))
        yield f"{name}, outside of jit", microseconds(outside, CALLS)
        yield f"{name}, alone in a jit", microseconds(lambda: alone(x), CALLS)  # noqa: B023 - called at once
        yield f"{name}, one of {CHAIN} in a jit", microseconds(lambda: several(x), 20) / CHAIN  # noqa: B023 - as above
        yield f"{name}, one of {CHAIN} of a loop", microseconds(lambda: looped(x), 20) / CHAIN  # noqa: B023 - as above


def measure(folder: str) -> None:
    """Print what calls cost in a process with its own flags."""
    sys.path.insert(0, folder)
    tuned = importlib.import_module("bench_jax.jax")
    for name, found in lines(tuned):
        print(f"  {name:40}{found:8.2f} us", flush=True)


def main() -> None:
    """Print the table."""
    cupy, jax = importlib.import_module("cupy"), importlib.import_module("jax")
    with tempfile.TemporaryDirectory() as folder:
        kernels = texts(TEMPLATES, ["axpby"])
        kernels |= {name: (TEMPLATES / name).read_text() for name in ("elementwise.cuh.jinja", "vector.cuh.jinja")}
        baked(Path(folder), "bench_jax", kernels, cupy.cuda.Device().compute_capability, jax=True)
        print(f"{cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}, JAX {jax.__version__}")
        for name, flags in FLAGS.items():
            print(f"{name}:", flush=True)
            environment = os.environ | {
                "XLA_FLAGS": flags,
                "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
                "PRETUNED_WARN": "0",
            }
            subprocess.run([sys.executable, __file__, folder], env=environment, check=False)


if __name__ == "__main__":
    measure(sys.argv[1]) if len(sys.argv) > 1 else main()
