"""How close the bundled kernels come to what the GPU can do: `python benchmarks/ceilings.py [LOCK]`.

For each row of the lock for this GPU: the default's and the winner's time, and what share the winner reaches of the
device-to-device copy's bandwidth (bytes read and written, each array once) or, for sgemm, of cuBLAS' speed at the same
problem. Copy and cuBLAS are timed here, in one run, by events around 50 calls, the median of 9; the rows' times are
those of the lock, with cold caches. Where arrays fit into L2, a share above 1 of the copy is no mistake.
"""

from __future__ import annotations

import math
import statistics
import sys
from pathlib import Path

import cupy

from pretuned.config import GPU
from pretuned.measure.launch import arrays
from pretuned.record import lock as lockfile
from pretuned.report.text import columns
from pretuned.spec.loader import load_folder
from pretuned.tune.request import find_device

ROOT = Path(__file__).parents[1]
CALLS = 50
REPEATS = 9


def time_us(call) -> float:
    """The time of one call of `call`, in microseconds. Under 10 us it is the host's."""
    call()
    taken = []
    for _ in range(REPEATS):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        for _ in range(CALLS):
            call()
        end.record()
        end.synchronize()
        taken.append(cupy.cuda.get_elapsed_time(start, end) * 1e3 / CALLS)
    return statistics.median(taken)


def copy_gbps() -> float:
    source = cupy.ones(1 << 28, cupy.float32)
    target = cupy.empty_like(source)
    nbytes = source.nbytes
    stream_copy = cupy.cuda.runtime.memcpyAsync
    kind = cupy.cuda.runtime.memcpyDeviceToDevice
    us = time_us(
        lambda: stream_copy(target.data.ptr, source.data.ptr, nbytes, kind, cupy.cuda.get_current_stream().ptr)
    )
    return 2 * nbytes / us / 1e3


def cublas_us(m: int, n: int, k: int) -> float:
    a, b = cupy.random.standard_normal((m, k), cupy.float32), cupy.random.standard_normal((k, n), cupy.float32)
    out = cupy.empty((m, n), cupy.float32)
    return time_us(lambda: cupy.matmul(a, b, out=out))


def main() -> None:
    lock = lockfile.read(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "pretuned.lock.json")
    target = find_device(GPU, lock.devices)
    specs = load_folder(ROOT / "templates")
    peak = copy_gbps()
    print(f"{target.name}, driver {target.driver}: copy of 1 GiB at {peak:.0f} GB/s")
    table = [("kernel", "problem", "default us", "winner us", "faster", "winner reaches", "of")]
    for row in lock.rows:
        if row.device != target.name or row.kernel not in specs:
            continue
        spec, dims = specs[row.kernel], dict(row.problem.dims)
        default, winner = row.default.time_us, row.winner.time_us
        if row.kernel == "sgemm":
            theirs = cublas_us(dims["m"], dims["n"], dims["k"])
            flops = 2 * math.prod(dims.values())
            reached = f"{flops / winner / 1e6:.1f} TFLOP/s", f"{theirs / winner:.2f} of cuBLAS ({theirs:.1f} us)"
        else:
            nbytes = sum(buffer.nbytes for buffer in arrays(spec, row.problem))
            rate = nbytes / winner / 1e3
            reached = f"{rate:.0f} GB/s", f"{rate / peak:.2f} of the copy"
        times = f"{default:.2f}", f"{winner:.2f}", f"{default / winner:.2f}x"
        table.append((row.kernel, str(row.problem), *times, *reached))
    print("\n".join(columns(table, frozenset({2, 3, 4, 5}))))


if __name__ == "__main__":
    main()
