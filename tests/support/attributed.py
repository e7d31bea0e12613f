"""A package whose launches have attributes, over made-up binaries, and how its kernel is called."""

from __future__ import annotations

import sample
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.record.rows import Row
from pretuned.spec.loader import load

SPEC = """\
format = 1
arguments = [
  {{ name = "out", role = "out", dtype = "float32", shape = ["n"] }},
  {{ name = "x", role = "in", dtype = "float32", shape = ["n"] }},
  {{ name = "n", dtype = "int32" }},
]
space = {{ size = [1, 2, 4, 16] }}
default = {{ size = 1 }}

[dims]
n = {{ sizes = [1024, 65536] }}

[[launches]]
function = "affine"
grid = ["{grid}"]
block = [256]
{launch}
"""
TEMPLATE = """\
extern "C" __global__ void affine(float* out, const float* x, int n) {
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) out[i] = x[i] + {{ size }};
}
"""


def spec(folder, launch: str, grid: str = "ceil_div(n, 256 * size) * size", scratch: str = ""):
    (folder / "wide.cu.jinja").write_text(TEMPLATE)
    (folder / "wide.toml").write_text(SPEC.format(launch=launch, grid=grid).replace("[dims]", f"{scratch}\n\n[dims]"))
    return load(folder / "wide.toml")


def package(folder, launch: str, *won: int, where=sample.H100, **others: str):
    """Write `pkg.tuned` with the kernel `wide`, for which configurations of these sizes won, in `folder`."""
    folder.mkdir(exist_ok=True)
    wide = spec(folder, launch, **others)
    choices = [sample.choice(2.0 + size, size=size) for size in won]
    rows: list[Row] = [
        sample.row("wide", where, {}, {"n": n}, *choices, sample.choice(30.0, size=1)) for n in (1024, 65536)
    ]
    planned = plan({"wide": wide}, rows, {where.name: where})
    sample.write({"__init__.py": b""}, folder / "pkg")
    sample.write(files(planned, sample.binaries(planned), version="0.0.0"), folder / "pkg" / "tuned")
    return folder
