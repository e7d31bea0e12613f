"""What references cost on a GPU: `python benchmarks/references.py [--out FILE]`, about a minute.

NumPy's on the host, with the copy to the GPU, beside those that CuPy computes there for a `gpu-reference`: `first` with
what is done once a process, which is loading libraries, compiling CuPy's kernels (kept in ~/.cupy) and comparing both
at a small problem, and `then`, at the same problem once more. In seconds; `inputs` is the making of the inputs, which
both need. Where CuPy's could not be used, the last column says why: its matrix products need cuBLAS.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

from pretuned.measure import data
from pretuned.measure.pristine import Pools
from pretuned.measure.references import DeviceReferences, kept
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.report.text import columns
from pretuned.spec import space
from pretuned.spec.loader import load
from pretuned.spec.space import Configuration, Problem

ROOT = Path(__file__).parents[1]
NOBODY = CompiledCandidate.of_call(Configuration(implementation="", values=()))
HEAD = ("kernel", "problem", "inputs", "NumPy", "first", "then", "")
SOFTMAX = """

def softmax_by_xp(x, xp, **_):
    shifted = xp.exp(x - x.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)
"""
# folder, kernel, dtype, the function that CuPy's arrays are given, sizes
CASES = (
    ("templates", "sgemm", "float32", "sgemm", {"m": 4096, "n": 4096, "k": 4096}),
    ("templates", "hgemm", "float16", "sgemm", {"m": 8192, "n": 8192, "k": 8192}),
    ("templates", "reduce_sum", "float32", "reduce_sum", {"n": 1 << 28}),
    ("templates", "row_softmax", "float32", "softmax_by_xp", {"rows": 4096, "cols": 8192}),
    (
        "examples/gallery/kernels",
        "silu_and_mul_backward",
        "float32",
        "silu_and_mul_backward",
        {"rows": 4096, "d": 11008},
    ),
)


def spec_with(kernels: Path, name: str, function: str):
    """Load a kernel of a folder with a `gpu-reference`."""
    file = kernels / f"{name}.toml"
    text = file.read_text(encoding="utf-8").replace(
        "[verify]\n", f'[verify]\ngpu-reference = "reference.py:{function}"\n'
    )
    file.write_text(text, encoding="utf-8")
    return load(file)


def seconds(call):
    """Return what a call returns, and the seconds that it took."""
    started = time.perf_counter()
    found = call()
    return found, time.perf_counter() - started


def line(machine, spec, problem: Problem) -> tuple[str, ...]:
    """The cells of one problem."""
    pools = Pools(machine)
    stored, inputs_s = seconds(lambda: data.inputs(spec, problem, 0))
    pristine = pools.lay_out(stored)

    def by_numpy():
        return {name: kept(machine, one) for name, one in data.reference(spec, problem, stored).items()}

    _, numpy_s = seconds(by_numpy)
    references = DeviceReferences(machine, pools)
    request = PrepareRequest(spec=spec, problem=problem, default=NOBODY)

    def by_machine():
        found = references.find(request, pristine.inputs)
        machine.ask([one.check for one in pristine.inputs.values()])  # waits for the device
        return found

    found, first_s = seconds(by_machine)
    taken = f"{inputs_s:.2f}", f"{numpy_s:.2f}"
    if found is None:
        return spec.name, str(problem), *taken, "-", "-", references.notes[0]
    del found
    _, then_s = seconds(by_machine)
    return spec.name, str(problem), *taken, f"{first_s:.2f}", f"{then_s:.3f}", ""


def lines(machine):
    """Yield the cells of every case."""
    for folder, name, dtype, function, sizes in CASES:
        with tempfile.TemporaryDirectory() as made:
            kernels = Path(made) / "kernels"
            shutil.copytree(ROOT / folder, kernels)
            with (kernels / "reference.py").open("a", encoding="utf-8") as file:
                file.write(SOFTMAX)
            spec = spec_with(kernels, name, function)
            specialisation = next(one for one in space.specialisations(spec) if dict(one).get("T", dtype) == dtype)
            yield line(machine, spec, Problem(specialisation=specialisation, dims=tuple(sorted(sizes.items()))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    os.environ["CUDA_MODULE_LOADING"] = "EAGER"  # as in the process that measures
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - behind the variable

    machine, table = CudaMachine(0), [HEAD]
    for cells in lines(machine):
        table.append(cells)
        print(*columns([HEAD, cells], frozenset(range(2, 6))), sep="\n", flush=True)
    if options.out:
        text = "\n".join([f"{os.cpu_count()} processors", *columns(table, frozenset(range(2, 6)))]) + "\n"
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
