"""A small sound kernel spec on disk, for tests that load one as it is or with an edit."""

from __future__ import annotations

from pathlib import Path

from pretuned.errors import SpecError
from pretuned.spec.loader import load
from pretuned.spec.model import KernelSpec

SCALE = """\
format  = 1
summary = "y = a * x."
arguments = [
  { name = "y", role = "out", dtype = "T", shape = ["n"], align = "vec * sizeof(T)" },
  { name = "x", role = "in", dtype = "T", shape = ["n"], align = "vec * sizeof(T)" },
  { name = "a", dtype = "float32", value = 2.0 },
  { name = "n", dtype = "int32" },
]

[dims]
n = { sizes = [1024, 65536] }

[specialisations]
T = { dtypes = ["float32", "float16"] }

[space]
block = [128, 256]
vec   = [1, 2, 4]

[default]
block = 256
vec   = 1

[[launches]]
function = "scale"
grid     = ["ceil_div(n, block * vec)"]
block    = ["block"]

[constraints]
where = ["vec * sizeof(T) <= 16", "n % vec == 0"]

[verify]
reference = "reference.py:scale"
rtol = { float32 = 1e-5, float16 = 2e-3 }
"""

SCALE_TEMPLATE = """\
// y = a * x, `vec` neighbouring elements a thread.
constexpr int vec = {{ vec }};

extern "C" __global__ void scale({{ T }}* y, const {{ T }}* x, float a, int n) {
    const int begin = (blockIdx.x * blockDim.x + threadIdx.x) * vec;
    for (int i = begin; i < min(begin + vec, n); ++i) {
        y[i] = static_cast<{{ T }}>(a * static_cast<float>(x[i]));
    }
}
"""

REFERENCE = """\
def scale(x, a, **_):
    return a * x
"""

# The same kernel with two implementations that use different parameters.
SEVERAL = """\
format = 1
arguments = [
  { name = "y", role = "out", dtype = "T", shape = ["n"], align = "vec * sizeof(T)" },
  { name = "x", role = "in", dtype = "T", shape = ["n"] },
  { name = "a", dtype = "float32", value = 2.0 },
  { name = "n", dtype = "int32" },
]

[dims]
n = { sizes = [1024, 65536] }

[specialisations]
T = { dtypes = ["float32", "float16"] }

[default]
implementation = "vectors"

[implementations.vectors]
template = "scale.cu.jinja"
space    = { vec = [1, 2, 4] }
default  = { vec = 1 }
launches = [{ function = "scale", grid = ["ceil_div(n, 256 * vec)"], block = [256] }]

[implementations.plain]
template = "plain.cu.jinja"
space    = { block = [128, 256] }
default  = { block = 128 }
launches = [{ function = "scale", grid = ["ceil_div(n, block)"], block = ["block"] }]

[verify]
reference = "reference.py:scale"
"""

PLAIN_TEMPLATE = """\
extern "C" __global__ void scale({{ T }}* y, const {{ T }}* x, float a, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = static_cast<{{ T }}>(a * static_cast<float>(x[i]));
    }
}
"""


def write(folder: Path, toml: str = SCALE, *, name: str = "scale", template: str = SCALE_TEMPLATE) -> Path:
    """Write a spec with its templates and reference into `folder` and return the spec's path."""
    file = folder / f"{name}.toml"
    file.write_text(toml, encoding="utf-8")
    (folder / "scale.cu.jinja").write_text(template, encoding="utf-8")
    (folder / "plain.cu.jinja").write_text(PLAIN_TEMPLATE, encoding="utf-8")
    (folder / "reference.py").write_text(REFERENCE, encoding="utf-8")
    return file


def edited(text: str, *edits: tuple[str, str]) -> str:
    """Return `text` with each first string replaced by the second; every one must occur."""
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


def loaded(folder: Path, *edits: tuple[str, str], toml: str = SCALE, template: str = SCALE_TEMPLATE) -> KernelSpec:
    """Load the spec with `edits`."""
    return load(write(folder, edited(toml, *edits), template=template))


def faults(folder: Path, *edits: tuple[str, str], toml: str = SCALE, template: str = SCALE_TEMPLATE) -> list[str]:
    """Return the lines about each fault of the spec with `edits`, an empty list where it loads."""
    try:
        loaded(folder, *edits, toml=toml, template=template)
    except SpecError as error:
        return [str(fault) for fault in error.faults]
    return []
