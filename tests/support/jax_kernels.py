"""Kernels that say what JAX has to get right: one that changes an array, and an RMS norm with its gradient's."""

from __future__ import annotations

from pathlib import Path

_NORM = Path(__file__).parents[2] / "examples" / "rms-norm" / "kernels"
_ADD_TO = """\
format = 1
summary = "total[i] += scale * x[i]; count[0] is how many were added."
arguments = [
  { name = "total", role = "inout", dtype = "float32", shape = ["n"] },
  { name = "count", role = "out", dtype = "int32", shape = [1], init = 0 },
  { name = "x", role = "in", dtype = "float32", shape = ["n"] },
  { name = "scale", dtype = "float32", value = 0.5 },
  { name = "n", dtype = "int32" },
]

[dims]
n = { sizes = [4096] }

[space]
block = [128, 256]

[default]
block = 128

[[launches]]
function = "add_to"
grid = ["ceil_div(n, block)"]
block = ["block"]

[verify]
reference = "reference.py:add_to"
"""
_ADD_TO_TEMPLATE = """\
extern "C" __global__ void add_to(float* total, int* count, const float* x, float scale, int n) {
    int i = blockIdx.x * {{ block }} + threadIdx.x;
    if (i >= n) return;
    total[i] += scale * x[i];
    atomicAdd(count, 1);
}
"""
_REFERENCE = """

def add_to(total, x, scale):
    return {"total": total + scale * x, "count": numpy.array([len(x)], "int32")}
"""


def kernels() -> dict[str, str]:
    """Return the texts of the kernels by the names of their files."""
    files = {file.name: file.read_text(encoding="utf-8") for file in _NORM.iterdir() if file.is_file()}
    files["reference.py"] += f"\n\nimport numpy\n{_REFERENCE}"
    return files | {"add_to.toml": _ADD_TO, "add_to.cu.jinja": _ADD_TO_TEMPLATE}
