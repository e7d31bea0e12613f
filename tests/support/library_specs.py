"""Kernels that a library's function computes too, on disk, for tests that load one as it is or with an edit."""

from __future__ import annotations

from pretuned.errors import SpecError
from pretuned.spec.loader import load
from specs import edited

PRODUCT = """\
format = 1
summary = "y = a * b."
arguments = [
  { name = "y", role = "out", dtype = "T", shape = ["n"] },
  { name = "a", role = "in", dtype = "T", shape = ["n"] },
  { name = "b", role = "in", dtype = "T", shape = ["n"] },
  { name = "n", dtype = "int32" },
]

[dims]
n = { sizes = [1024, 65536] }

[specialisations]
T = { dtypes = ["float32", "float64"] }

[default]
implementation = "plain"

[implementations.plain]
template = "product.cu.jinja"
space    = { block = [128, 256] }
default  = { block = 128 }
launches = [{ function = "product", grid = ["ceil_div(n, block)"], block = ["block"] }]

[implementations.library]
call = "cupy:multiply"

[verify]
reference = "reference.py:product"
"""

PRODUCT_TEMPLATE = """\
extern "C" __global__ void product({{ T }}* y, const {{ T }}* a, const {{ T }}* b, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a[i] * b[i];
}
"""

MATMUL = """\
format = 1
summary = "c = a @ b."
arguments = [
  { name = "c", role = "out", dtype = "T", shape = ["m", "n"] },
  { name = "a", role = "in", dtype = "T", shape = ["m", "k"] },
  { name = "b", role = "in", dtype = "T", shape = ["k", "n"] },
  { name = "m", dtype = "int32" },
  { name = "n", dtype = "int32" },
  { name = "k", dtype = "int32" },
]

[dims]
m = { sizes = [512] }
n = { sizes = [512] }
k = { sizes = [512] }

[specialisations]
T = { dtypes = ["float32"] }

[default]
implementation = "plain"

[implementations.plain]
template = "matmul.cu.jinja"
space    = { block = [128, 256] }
default  = { block = 128 }
launches = [{ function = "matmul", grid = ["ceil_div(n, block)", "m"], block = ["block"] }]

[implementations.library]
call = "cupy:matmul"

[verify]
reference = "reference.py:matmul"
rtol = 1e-4
"""

MATMUL_TEMPLATE = """\
extern "C" __global__ void matmul({{ T }}* c, const {{ T }}* a, const {{ T }}* b, int m, int n, int k) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column >= n || row >= m) return;
    {{ T }} sum = 0;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}
"""

REFERENCE = """\
def product(a, b, **_):
    return a * b


def matmul(a, b, **_):
    return a @ b
"""


def loaded(folder, *edits, toml=PRODUCT):
    """Load the product, or another of these, with `edits`."""
    name = "product" if toml is PRODUCT else "matmul"
    (folder / f"{name}.toml").write_text(edited(toml, *edits), encoding="utf-8")
    (folder / "product.cu.jinja").write_text(PRODUCT_TEMPLATE, encoding="utf-8")
    (folder / "matmul.cu.jinja").write_text(MATMUL_TEMPLATE, encoding="utf-8")
    (folder / "reference.py").write_text(REFERENCE, encoding="utf-8")
    return load(folder / f"{name}.toml")


def faults(folder, *edits):
    """Return the lines about each fault of the product with `edits`."""
    try:
        loaded(folder, *edits)
    except SpecError as error:
        return [str(fault) for fault in error.faults]
    return []
