"""What tensor maps cost the host: `python benchmarks/tensor_map_calls.py`, on a GPU of compute capability 9.0 or newer.

y = a + b by three tensor maps beside the same by three pointers, in turns: with arrays that were seen before, and with
arrays of which none was. Kernels are small and the queue never fills, so what is timed is the host. Prints microseconds
a call: the median of the rounds, a tenth below it, a tenth above.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cupy

from baking import baked, texts

KERNELS = Path(__file__).parents[1] / "tests" / "gpu" / "tensor_maps"
ROUNDS = 31
CALLS = 300
SIDE = 64
NEW = 8 * CALLS  # more arrays of each argument than are remembered, so that all of them are new again
NAMES = ("summed", "summed_by_pointers")


def us_a_call(call: Callable[..., object], arguments: Sequence[tuple[Any, ...]]) -> float:
    """Return the time of calls in turn, the device waited for before and not behind."""
    cupy.cuda.Device().synchronize()
    begin = time.perf_counter()
    for a, b, y in arguments:
        call(a, b, y=y)
    return (time.perf_counter() - begin) / len(arguments) * 1e6


def timed(package: Any) -> None:
    """Time the routes in turn and print the table."""
    pools = [cupy.zeros((NEW, SIDE, SIDE), cupy.float32) for _ in range(3)]
    new = list(zip(*([pool[i] for i in range(NEW)] for pool in pools), strict=True))
    one = [tuple(cupy.zeros((SIDE, SIDE), cupy.float32) for _ in range(3))] * CALLS
    routes = {"three pointers": package.summed_by_pointers, "three tensor maps": package.summed}
    bound = {name: call.bind(*one[0][:2], y=one[0][2]) for name, call in routes.items()}
    taken: dict[tuple[str, str], list[float]] = {}
    for turn in range(ROUNDS + 1):  # the first warms up
        begin = turn * CALLS % NEW
        for name, call in routes.items():
            for kind, arguments in (("seen", one), ("never seen", new[begin : begin + CALLS])):
                taken.setdefault((name, kind), []).append(us_a_call(call, arguments))
            taken.setdefault((name, "bound"), []).append(us_a_call(lambda *_, made=bound[name], **__: made(), one))
    for (name, kind), found in sorted(taken.items()):
        low, *_, high = statistics.quantiles(found[1:], n=10)
        print(f"{name:20} {kind:12} {statistics.median(found[1:]):6.2f} us ({low:.2f}, {high:.2f})")


def main() -> None:
    """Bake the kernels and time them."""
    os.environ["PRETUNED_WARN"] = "0"  # that there are no rows
    with tempfile.TemporaryDirectory() as folder:
        timed(baked(Path(folder), "mapped", texts(KERNELS, NAMES), cupy.cuda.Device().compute_capability))


if __name__ == "__main__":
    main()
