"""The bundled hgemm beside cuBLAS: `python benchmarks/hgemm_vs_cublas.py --out FOLDER [--lock FILE]`, under a minute.

At 4096 and 8192, and at the 64 inputs of Hochgraf's study. What runs is what a real call of the baked package runs,
by rows and selection of `--lock`; without it the kernel is tuned first, from nothing. *untuned* is its default, which
runs where there are no rows. Beside them, on the same tensors of random values: `torch.mm(out=)`, and every libcublas
that PyTorch and CuPy have loaded, called as C does. All are captured into graphs; a sample is one replay, behind a
sweep through L2. Rounds go through all of them in turn, and the median counts. *cold*: the launches of a graph rotate
through three times L2; *warm*: all have the same tensors.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

from hochgraf.problems import INPUTS
from pretuned.config import GPU
from pretuned.record import lock as lockfile
from pretuned.report.effort import stages
from pretuned.spec.loader import load
from pretuned.spec.space import all_problems
from pretuned.tune.events import Failed
from pretuned.tune.request import TuningRequest, find_device
from pretuned.tune.session import tune
from sizes import packages
from sizes.measuring import provenance

ROOT = Path(__file__).parents[1]
LARGE = ((4096, 4096, 4096), (8192, 8192, 8192))
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
ROUNDS = 7
SAMPLE_US = 300.0
MOST = 50  # launches in a graph
L2_FACTOR = 3
SWEEP_FACTOR = 2
OURS, UNTUNED, TORCH = "ours", "untuned", "torch.mm"
OWN = (OURS, UNTUNED)
WORKSPACE_BYTES = 32 << 20  # what cuBLAS asks for on Hopper
# https://docs.nvidia.com/cuda/cublas: cublasGemmEx, cudaDataType_t, cublasComputeType_t
HALVES = {torch.float16: 2, torch.bfloat16: 14}
COMPUTE_32F, DEFAULT_ALGORITHM = 68, -1


class Cublas:
    """A loaded libcublas: `c = a @ b` on PyTorch's current stream, with a workspace of its own, as graphs need it."""

    def __init__(self, path):
        self._library, self._handle = ctypes.CDLL(path), ctypes.c_void_p()
        self._check(self._library.cublasCreate_v2(ctypes.byref(self._handle)))
        self._workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")
        self._one, self._zero = ctypes.c_float(1), ctypes.c_float(0)
        version = ctypes.c_int()
        self._check(self._library.cublasGetVersion_v2(self._handle, ctypes.byref(version)))
        self.name = f"cuBLAS {version.value // 10000}.{version.value // 100 % 100}.{version.value % 100}"

    def __call__(self, a, b, c):
        """Launch; column-major as it is, it computes the transposed product of the transposed."""
        (m, k), n, kind = a.shape, b.shape[1], HALVES[a.dtype]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        workspace = ctypes.c_void_p(self._workspace.data_ptr())
        self._check(self._library.cublasSetStream_v2(self._handle, stream))
        self._check(self._library.cublasSetWorkspace_v2(self._handle, workspace, ctypes.c_size_t(WORKSPACE_BYTES)))
        of_b, of_a, of_c = (ctypes.c_void_p(one.data_ptr()) for one in (b, a, c))
        self._check(
            self._library.cublasGemmEx(
                self._handle, 0, 0, n, m, k, ctypes.byref(self._one), of_b, kind, n, of_a, kind, k,
                ctypes.byref(self._zero), of_c, kind, n, COMPUTE_32F, DEFAULT_ALGORITHM,
            )
        )  # fmt: skip

    @staticmethod
    def _check(status):
        if status:
            message = f"cuBLAS ended with status {status}"
            raise RuntimeError(message)


def loaded_cublas():
    """Return the libraries that PyTorch and CuPy have loaded, one of each version."""
    import cupy  # noqa: PLC0415 - its cuBLAS is one of the peers

    cupy.ones((8, 8), cupy.float16) @ cupy.ones((8, 8), cupy.float16)
    paths = sorted(set(re.findall(r"\S*/libcublas\.so\S*", Path("/proc/self/maps").read_text(encoding="utf-8"))))
    return list({one.name: one for one in map(Cublas, paths)}.values())


def baked(spec, options):
    """Return the package's function and its `explain`, from the lock or tuned now."""
    if options.lock:
        lock = lockfile.read(options.lock)
    else:
        began, events = time.perf_counter(), []
        with tempfile.TemporaryDirectory() as cache:
            request = TuningRequest(spec=spec, problems=tuple(all_problems(spec)))
            tuned = tune([request], find_device(GPU, {}), cache_folder=Path(cache), listen=events.append)
        lock, failed = packages.lock_of(tuned), [event for event in events if isinstance(event, Failed)]
        print(
            f"tuned from nothing in {time.perf_counter() - began:.1f} s: {len(lock.rows)} rows, {tuned.left} left, "
            f"{len(failed)} failures of candidates",
            *stages(tuned.spending),
            *failed[:10],
            sep="\n",
        )
        lockfile.write(options.out / "hgemm.lock.json", lock)
    return packages.baked({spec.name: spec}, lock, options.out / "baked", cubins=True)


def capture(work, tensors, launches):
    """Return a graph of so many launches in turn over the sets of tensors; the first of each stays outside."""
    work(*tensors[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for index in range(launches):
            work(*tensors[index % len(tensors)])
    graph.replay()
    torch.cuda.synchronize()
    return graph


def elapsed_us(graph):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3


def race(works, tensors, swept):
    """Return the median time of each of `works`, in microseconds, over rounds of them in turn."""
    estimate = elapsed_us(capture(works[TORCH], tensors, 2)) / 2
    launches = max(2, min(MOST, math.ceil(SAMPLE_US / estimate)))
    graphs = {name: capture(work, tensors, launches) for name, work in works.items()}
    taken = {name: [] for name in works}
    for turn in range(ROUNDS):
        names = list(graphs)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            swept.sum()
            taken[name].append(elapsed_us(graphs[name]) / launches)
    return {name: statistics.median(times) for name, times in taken.items()}


def tensors_of(m, n, k, dtype, l2_bytes):
    """Return the sets (a, b, c) that the launches of a graph rotate through, as many as fill L2 three times."""
    count = max(2, min(MOST, math.ceil(L2_FACTOR * l2_bytes / (2 * (m * k + k * n + m * n)))))
    shapes = ((m, k), (k, n), (m, n))
    return [tuple(torch.randn(shape, device="cuda", dtype=dtype) for shape in shapes) for _ in range(count)]


def is_wrong(ours, a, b):
    """Whether a result is farther from one in float32 than both roundings allow."""
    exact = a.float() @ b.float()
    relative, absolute = (2**-7, 2e-2) if a.dtype == torch.bfloat16 else (2**-10, 3e-3)
    return bool(((ours.float() - exact).abs() > relative * exact.abs() + absolute * exact.square().mean().sqrt()).any())


def measure(package, peers, options):
    """Yield dtype, input, times by peer, cold and warm, the configuration that ran, and whether it was wrong."""
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    swept = torch.ones(SWEEP_FACTOR * l2_bytes // 4, device="cuda")

    def untuned(a, b, c):
        with package.using(defaults=True):
            package.hgemm(a, b, c=c)

    works = {OURS: lambda a, b, c: package.hgemm(a, b, c=c), UNTUNED: untuned}
    works |= {TORCH: lambda a, b, c: torch.mm(a, b, out=c), **{one.name: one for one in peers}}
    end = time.perf_counter() + options.seconds
    for name, dtype in DTYPES.items():
        for m, n, k in dict.fromkeys((*LARGE, *INPUTS)):
            if time.perf_counter() > end:
                print("out of time", file=sys.stderr)
                return
            tensors = tensors_of(m, n, k, dtype, l2_bytes)
            a, b, c = tensors[0]
            package.hgemm(a, b, c=c)
            found = package.explain("hgemm", m=m, n=n, k=k, T=name)
            ran = " ".join([found.implementation, *(str(int(value)) for value in found.configuration.values())])
            yield name, (m, n, k), race(works, tensors, swept), race(works, tensors[:1], swept), ran, is_wrong(c, a, b)


def geomean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def lead(times, name=OURS):
    """How much faster than the best peer: its time by ours."""
    return min(us for peer, us in times.items() if peer not in OWN) / times[name]


def lines_of(found, names):
    """Yield the table of one dtype, then what it comes to."""
    widths = "  ".join(f"{name:>13}" for name in names)
    yield f"{'m, n, k':>16}  {'TFLOP/s':>7}  {widths}  {'cold':>5}  {'warm':>5}  by"
    for size, cold, warm, ran, wrong in found:
        rate = 2 * math.prod(size) / cold[OURS] * 1e-6
        times = "  ".join(f"{cold[name]:>10.2f} us" for name in names)
        mark = "  WRONG" if wrong else ""
        ratios = f"{lead(cold):5.3f}  {lead(warm):5.3f}"
        yield f"{', '.join(map(str, size)):>16}  {rate:7.1f}  {times}  {ratios}  {ran}{mark}"
    for title, place in (("cold", 1), ("warm", 2)):
        ratios = {one[0]: lead(one[place]) for one in found if one[0] in INPUTS}
        if not ratios:
            continue
        worst = min(ratios, key=ratios.__getitem__)
        untuned = geomean(lead(one[place], UNTUNED) for one in found if one[0] in INPUTS)
        yield (
            f"{title}, {len(ratios)} inputs: geomean {geomean(ratios.values()):.3f} of the best peer, "
            f"worst {ratios[worst]:.3f} at {worst}, faster at {sum(one > 1 for one in ratios.values())}; "
            + ", ".join(
                f"{geomean(one[place][name] / one[place][OURS] for one in found if one[0] in INPUTS):.3f} of {name}"
                for name in names
                if name not in OWN
            )
            + f"; untuned {untuned:.3f} of the best peer"
        )


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--lock", type=Path)
    parser.add_argument("--templates", type=Path, default=ROOT / "templates")
    parser.add_argument("--seconds", type=float, default=50.0, help="for the measurements")
    return parser.parse_args()


def main():
    options = read_options()
    options.out.mkdir(parents=True, exist_ok=True)
    package = baked(load(options.templates / "hgemm.toml"), options)
    peers = loaded_cublas()
    names = [*OWN, TORCH, *(one.name for one in peers)]
    lines = [json.dumps({**provenance(find_device(GPU, {})), "torch": torch.__version__})]
    found = {}
    for dtype, *rest in measure(package, peers, options):
        found.setdefault(dtype, []).append(rest)
    for dtype, of_dtype in found.items():
        lines += ["", f"{dtype}: times with a cold L2; then the best peer's time by ours", *lines_of(of_dtype, names)]
    print(*lines, sep="\n")
    (options.out / "hgemm_vs_cublas.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
