"""What a call costs from PyTorch: eager without and with `torch.py`, by the operator, and under torch.compile.

`python benchmarks/torch_ops.py` on a GPU. It bakes axpby with its default, and prints microseconds a call on the host,
the least of several rounds: calls of a tiny problem are enqueued one after another and waited for at the end. Beside it
stand PyTorch's own operation that writes into an output, and torch.library.custom_op around the same function.
"""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from baking import baked, texts

CALLS, ROUNDS = 1000, 15
TEMPLATES = Path(__file__).parents[1] / "templates"


def microseconds(call: Callable[[], object]) -> float:
    """Return what a call costs, in microseconds."""
    for _ in range(100):
        call()
    torch.cuda.synchronize()
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        best = min(best, (time.perf_counter_ns() - begin) / CALLS / 1000)
        torch.cuda.synchronize()
    return best


def compiled(function: Callable[..., Any], *arguments: Any) -> Callable[[], object]:
    """Return a call of a function that torch.compile has compiled, with open sizes."""
    made = torch.compile(function, fullgraph=True, dynamic=True)
    made(*arguments)
    return lambda: made(*arguments)


def lines(tuned: Any) -> Iterator[tuple[str, float]]:
    """Yield what was measured, with the microseconds of a call."""
    x, y, out = (torch.randn(1024, device="cuda") for _ in range(3))
    yield "torch.add(out=)", microseconds(lambda: torch.add(x, y, alpha=2.0, out=out))
    yield "torch.add, which allocates", microseconds(lambda: torch.add(x, y, alpha=2.0))
    eager = {
        "eager, output given": lambda: tuned.axpby(x, y, 2.0, 3.0, out=out),
        "eager, which allocates": lambda: tuned.axpby(x, y, 2.0, 3.0),
    }
    for name, call in eager.items():
        yield f"{name}, without torch.py", microseconds(call)
    importlib.import_module(f"{tuned.__name__}.torch")
    for name, call in eager.items():
        yield f"{name}, with torch.py", microseconds(call)
    operator = torch.ops.bench_ops.axpby
    yield "operator, output given", microseconds(lambda: operator.out(x, y, 2.0, 3.0, out=out))
    yield "operator, which allocates", microseconds(lambda: operator.default(x, y, 2.0, 3.0))

    @torch.library.custom_op("bench_peer::axpby", mutates_args=())
    def peer(x: torch.Tensor, y: torch.Tensor, a: float, b: float) -> torch.Tensor:
        return tuned.axpby(x, y, a, b)

    peer.register_fake(lambda x, y, a, b: torch.empty_like(x))
    yield "custom_op, which allocates", microseconds(lambda: peer(x, y, 2.0, 3.0))
    torch._dynamo.config.cache_size_limit = 64
    yield "compiled: torch.sin alone", microseconds(compiled(torch.sin, x))
    yield "compiled: the kernel alone", microseconds(compiled(lambda x, y: tuned.axpby(x, y, 2.0, 3.0), x, y))
    yield "compiled: custom_op alone", microseconds(compiled(lambda x, y: peer(x, y, 2.0, 3.0), x, y))
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(10):
            tuned.axpby(x, y, 2.0, 3.0, out=out)
    yield "CUDA graph of ten calls, a call", microseconds(captured.replay) / 10


def main() -> None:
    """Print the table."""
    major, minor = torch.cuda.get_device_capability()
    with tempfile.TemporaryDirectory() as folder:
        names = ["axpby"]
        kernels = texts(TEMPLATES, names)
        kernels |= {name: (TEMPLATES / name).read_text() for name in ("elementwise.cuh.jinja", "vector.cuh.jinja")}
        tuned = baked(Path(folder), "bench_ops", kernels, f"{major}{minor}", torch="bench_ops")
        print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
        for name, found in lines(tuned):
            print(f"{name:45}{found:8.2f} us", flush=True)


if __name__ == "__main__":
    main()
