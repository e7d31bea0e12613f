"""The kernels whose calls are timed: of 1 to 8 arrays, of two launches, of a list; baked from specs, imported."""

from __future__ import annotations

import compileall
import importlib
import sys
from pathlib import Path

from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.build.place import place
from pretuned.compile.pool import compile_all
from pretuned.record.rows import Choice, Row
from pretuned.spec import space
from pretuned.spec.loader import load_folder

COUNTS = (1, 3, 8)  # arrays of the table
MADE = (1, 2, 3, 8)
SIZE = 4096
SPEC = """\
format = 1
summary = "A kernel of {count} arrays that does nothing to speak of."
arguments = [
{arguments}
  {{ name = "n", dtype = "int32" }},
]

[dims]
n = {{ sizes = [{size}] }}

[specialisations]
T = {{ dtypes = ["float32"] }}

[space]
block = [256]

[default]
block = 256

[[launches]]
function = "{name}"
grid     = ["ceil_div(n, block)"]
block    = ["block"]

[verify]
rtol = {{ float32 = 1e-5 }}
"""

HEAD = """\
format = 1
summary = "{summary}"
arguments = [
  {{ name = "out", role = "out", dtype = "T", shape = ["{extent}"] }},
  {array},
  {{ name = "n", dtype = "int32" }},
{more}]

[specialisations]
T = {{ dtypes = ["float32"] }}

[space]
block = [256]

[default]
block = 256

[verify]
rtol = {{ float32 = 1e-5 }}

"""
TOTAL = (
    HEAD.format(
        summary="A sum by two launches, the first into scratch.",
        extent="1",
        array='{ name = "x", role = "in", dtype = "T", shape = ["n"] }',
        more="",
    )
    + """\
[dims]
n = { sizes = [4096] }

[[scratch]]
name  = "partials"
dtype = "T"
shape = ["ceil_div(n, block)"]

[[launches]]
function  = "total_partials"
grid      = ["ceil_div(n, block)"]
block     = ["block"]
arguments = ["partials", "x", "n"]

[[launches]]
function  = "total_total"
grid      = [1]
block     = [1]
arguments = ["out", "partials", "n"]
"""
)
TOTAL_CUDA = """\
extern "C" __global__ void total_partials(float* partials, const float* x, int n) {
    __shared__ float sums[{{ block }}];
    const int i = blockIdx.x * {{ block }} + threadIdx.x;
    sums[threadIdx.x] = i < n ? x[i] : 0.0f;
    for (int half = {{ block }} / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) partials[blockIdx.x] = sums[0];
}

extern "C" __global__ void total_total(float* out, const float* partials, int n) {
    float sum = 0.0f;
    for (int i = 0; i * {{ block }} < n; ++i) sum += partials[i];
    out[0] = sum;
}
"""
GATHER = (
    HEAD.format(
        summary="The sum of the arrays of a list.",
        extent="n",
        array='{ name = "x", role = "in", dtype = "T", shape = ["n"], count = "arrays" }',
        more='  { name = "arrays", dtype = "int32" },\n',
    )
    + """\
[dims]
n = { sizes = [4096] }
arrays = { sizes = [8] }

[[launches]]
function = "gather"
grid     = ["ceil_div(n, block)"]
block    = ["block"]
"""
)
GATHER_CUDA = """\
{{ List }}

extern "C" __global__ void gather(float* out, const __grid_constant__ List<const float*, 8> x, int n, int arrays) {
    const int i = blockIdx.x * {{ block }} + threadIdx.x;
    float sum = 0.0f;
    for (int place = 0; i < n && place < arrays; ++place) sum += x[place][i];
    if (i < n) out[i] = sum;
}
"""


def source(name: str, count: int) -> str:
    """The kernel's CUDA: it adds its inputs, scaled by `s`, into the first array."""
    inputs = "".join(f", const float* a{i}" for i in range(1, count))
    scalar = ", float s" if count > 1 else ""
    body = " + ".join(["s * a1[i]", *(f"a{i}[i]" for i in range(2, count))]) if count > 1 else "a0[i] + 1.0f"
    return (
        f'extern "C" __global__ void {name}(float* a0{inputs}{scalar}, int n) {{\n'
        "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"    if (i < n) a0[i] = {body};\n"
        "}\n"
    )


def write(folder: Path) -> None:
    """Write specs and templates into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, spec, cuda in (("total", TOTAL, TOTAL_CUDA), ("gather", GATHER, GATHER_CUDA)):
        (folder / f"{name}.toml").write_text(spec, encoding="utf-8")
        (folder / f"{name}.cu.jinja").write_text(cuda, encoding="utf-8")
    for count in MADE:
        name = f"touch{count}"
        role = "out" if count > 1 else "inout"
        lines = [f'  {{ name = "a0", role = "{role}", dtype = "T", shape = ["n"] }},']
        lines += [f'  {{ name = "a{i}", role = "in", dtype = "T", shape = ["n"] }},' for i in range(1, count)]
        lines += ['  { name = "s", dtype = "float32", value = 2.0 },'] if count > 1 else []
        text = SPEC.format(count=count, arguments="\n".join(lines), size=SIZE, name=name)
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
        (folder / f"{name}.cu.jinja").write_text("// block is {{ block }}\n" + source(name, count), encoding="utf-8")


def bake(target, folder: Path) -> None:
    """Bake them as the package `baked.tuned` into `folder`, with rows of this device that name the default."""
    write(folder / "kernels")
    specs = load_folder(folder / "kernels")
    rows = []
    for spec in specs.values():
        specialisation = next(iter(space.specialisations(spec)))
        problem = next(iter(space.problems(spec, specialisation)))
        default = Choice(configuration=space.default(spec), candidate="", cubin="", time_us=1.0, ratio=(1.0, 1.0))
        rows.append(
            Row(
                kernel=spec.name,
                device=target.name,
                problem=problem,
                choices=(default,),
                space="",
                verification="",
                compiler="13.0.88",
                driver=target.driver,
                date="2026-01-01",
            )
        )
    planned = plan(specs, rows, {target.name: target.record})
    binaries = {}
    for module, architecture in planned.jobs:
        binaries[module.key, architecture] = compile_all([module], architecture, workers=1)[module.key]
    place({"__init__.py": b""}, folder / "baked")
    place(files(planned, binaries), folder / "baked" / "tuned")
    compileall.compile_dir(str(folder / "baked"), quiet=1)  # as an installer does


def imported(folder: Path):
    """Import the package that `bake` wrote."""
    sys.path.insert(0, str(folder))
    return importlib.import_module("baked.tuned")
