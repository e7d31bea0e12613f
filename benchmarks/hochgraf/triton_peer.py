"""What `triton.autotune` spends on the study's experiment: `python triton_peer.py --limit-s 280 > triton.json`.

The first configurations that the seed draws are compiled with an empty cache, each timed, as `triton.autotune` would
compile them at its first call (`JITFunction.warmup`, which launches nothing): in turn as it does, or `--workers` at a
time, which it cannot. All inputs share one compilation, for all sizes are multiples of 16. Then the autotuner, as it
comes, measures them on the inputs drawn: nothing is left to compile, so its first call at an input is what measuring
costs.

Some compile for minutes. One that takes longer than `--limit-each-s` is cut off; it counts with the seconds it had, in
Triton's favour, and is not measured. Compiling ends at 60% of `--limit-s`, measuring at the limit (the input in hand is
finished). Seconds are reported as measured, and scaled to `--of` configurations and all 64 inputs, per configuration
and per (configuration, input) apart. Configurations that need more shared memory than there is are compiled, and not
measured, by the autotuner.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass

from problems import INPUTS, SEED, drawn_configurations, drawn_inputs, label

COMPILING = 0.6  # of the limit
PROCESSES = 16  # over which compiles are spread in the report
START_S = 60.0  # a worker imports torch
GROUP = 8  # the study's
COMPILED_FOR = (512, 512, 512)  # any of the inputs
UNLAUNCHABLE = float("inf")  # what the autotuner calls the time of what cannot be launched


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """How long a configuration compiled; `state` is compiled, cut off, or what went wrong."""

    configuration: dict[str, int]
    seconds: float
    state: str


def arguments(m: int, n: int, k: int) -> list[object]:
    torch = importlib.import_module("torch")
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(k, n, device="cuda", dtype=torch.float16)
    c = torch.empty(m, n, device="cuda", dtype=torch.float16)
    return [a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride()]


def config_of(drawn: dict[str, int]):
    triton = importlib.import_module("triton")
    tiles = {name: drawn[name] for name in ("bm", "bn", "bk")} | {"group": GROUP}
    return triton.Config(tiles, num_stages=drawn["num_stages"], num_warps=drawn["num_warps"])


def serve(pipe) -> None:
    """Compile what comes through the pipe, and answer with seconds and what went wrong."""
    kernel = importlib.import_module("triton_matmul").matmul
    call = arguments(*COMPILED_FOR)
    pipe.send("ready")
    while True:
        config = config_of(pipe.recv())
        begun = time.perf_counter()
        try:
            kernel.warmup(*call, grid=(1,), **config.all_kwargs())
            state = "compiled"
        except Exception as error:  # noqa: BLE001 - whatever stops the compiler is reported
            state = f"{type(error).__name__}: {error}"[:200]
        pipe.send((time.perf_counter() - begun, state))


class Worker:
    """A process that compiles."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        if not self.pipe.poll(START_S) or self.pipe.recv() != "ready":
            raise RuntimeError("a compile worker does not start")

    def compile(self, drawn: dict[str, int], limit_s: float) -> Compiled | None:
        """Return what came of it, or None where it was cut off; the worker is of no use then."""
        self.pipe.send(drawn)
        if not self.pipe.poll(limit_s):
            self.process.kill()
            return None
        seconds, state = self.pipe.recv()
        return Compiled(configuration=drawn, seconds=seconds, state=state)


def compile_all(drawn, workers: int, each_s: float, budget_s: float) -> list[Compiled]:
    """Compile the first of `drawn`, as many as `budget_s` allows once the workers have started, in the order drawn."""
    found: dict[int, Compiled] = {}
    waiting = iter(list(enumerate(drawn)))
    ready = threading.Barrier(workers)
    lock = threading.Lock()

    def work() -> None:
        worker = Worker()
        ready.wait(START_S)
        end = time.perf_counter() + budget_s
        while (left := end - time.perf_counter()) > 0:
            with lock:
                index, one = next(waiting, (None, None))
            if index is None:
                break
            limit_s = min(each_s, left)
            result = worker.compile(one, limit_s)
            if result is None:
                result = Compiled(configuration=one, seconds=limit_s, state="cut off")
                worker = Worker() if left > each_s else worker
            found[index] = result
        worker.process.kill()

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[index] for index in sorted(found)]


def measure(results, inputs, until: float):
    """Let the autotuner loose at each input until `until`; yield what it took and found."""
    torch, triton = importlib.import_module("torch"), importlib.import_module("triton")
    kernel = importlib.import_module("triton_matmul").matmul
    configs = [config_of(result.configuration) for result in results if result.state == "compiled"]
    call = arguments(*COMPILED_FOR)
    for config in configs:
        kernel.warmup(*call, grid=(1,), **config.all_kwargs())  # from the cache on disk
    tuned = triton.autotune(configs=configs, key=["m", "n", "k"])(kernel)
    for m, n, k in inputs:
        if time.perf_counter() > until:
            return
        call = arguments(m, n, k)
        torch.cuda.synchronize()
        begun = time.perf_counter()
        tuned[lambda meta, m=m, n=n: (triton.cdiv(m, meta["bm"]) * triton.cdiv(n, meta["bn"]),)](*call)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - begun
        medians = [taken[0] if isinstance(taken, (list, tuple)) else taken for taken in tuned.configs_timings.values()]
        valid = [median for median in medians if median != UNLAUNCHABLE]
        yield {
            "input": label(m, n, k),
            "seconds": seconds,
            "measured": len(valid),
            "best_us": min(valid) * 1e3,
            "best": str(tuned.best_config),
            "right": torch.allclose(call[2].float(), (call[0] @ call[1]).float(), rtol=1e-2, atol=1e-2 * k**0.5),
        }


def spread_s(seconds: list[float], workers: int) -> float:
    """Seconds until the last of `workers` is done, each taking the next job when it is free."""
    ends = [0.0] * workers
    for one in seconds:
        ends[ends.index(min(ends))] += one
    return max(ends)


def report(results: list[Compiled], rows, of: int) -> dict[str, object]:
    """The figures that are printed."""
    seconds = [result.seconds for result in results]
    share = max((row["measured"] for row in rows), default=0) / len(results)
    pair_s = sum(row["seconds"] for row in rows) / max(1, sum(row["measured"] for row in rows))
    compile_s, measure_s = statistics.fmean(seconds) * of, pair_s * share * of * len(INPUTS)
    # As many as there are figures for, drawn again in turn until there are `of`.
    spread = spread_s([seconds[index % len(seconds)] for index in range(of)], PROCESSES)
    return {
        "seed": SEED,
        "compiled": sum(result.state == "compiled" for result in results),
        "cut_off": sum(result.state == "cut off" for result in results),
        "compile_s_each": statistics.fmean(seconds),
        "measured_share": share,
        "measure_s_a_pair": pair_s,
        "scaled": {
            "configurations": of,
            "inputs": len(INPUTS),
            "pairs_measured": round(share * of) * len(INPUTS),
            "compile_in_turn_s": compile_s,
            f"compile_over_{PROCESSES}_s": spread,
            "measure_s": measure_s,
            "total_s": compile_s + measure_s,
            f"total_over_{PROCESSES}_s": spread + measure_s,
        },
        "inputs": rows,
        "configurations": [asdict(result) for result in results],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configurations", type=int, default=100, help="how many to draw")
    parser.add_argument("--inputs", type=int, default=16, help="how many to draw")
    parser.add_argument("--of", type=int, default=100, help="configurations to scale to")
    parser.add_argument("--limit-s", type=float, default=280.0, help="seconds for all")
    parser.add_argument("--limit-each-s", type=float, default=60.0, help="seconds for one to compile")
    parser.add_argument("--workers", type=int, default=1, help="how many compile at a time")
    given = parser.parse_args()
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        drawn = drawn_configurations(given.configurations)
        results = compile_all(drawn, given.workers, given.limit_each_s, COMPILING * given.limit_s)
        rows = list(measure(results, drawn_inputs(given.inputs), begun + given.limit_s))
        document = {
            "triton": importlib.import_module("triton").__version__,
            "device": importlib.import_module("torch").cuda.get_device_name(),
            "workers": given.workers,
            "wall_s": time.perf_counter() - begun,
            **report(results, rows, given.of),
        }
    json.dump(document, sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
