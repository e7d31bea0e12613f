"""A kernel with the kernel of its gradient as specs on disk, for tests that load them as they are or with edits.

The forward kernel divides rows by their root mean square and multiplies by a weight; its second output is what it
divided by. The templates compute nothing, since loading and baking only render them.
"""

from __future__ import annotations

from pathlib import Path

from pretuned.errors import SpecError
from pretuned.spec.loader import load_folder
from pretuned.spec.model import KernelSpec
from specs import edited

NORM = """\
format = 1
arguments = [
  { name = "y", role = "out", dtype = "T", shape = ["rows...", "cols"] },
  { name = "rstd", role = "out", dtype = "float32", shape = ["rows..."] },
  { name = "x", role = "in", dtype = "T", shape = ["rows...", "cols"] },
  { name = "weight", role = "in", dtype = "T", shape = ["cols"] },
  { name = "eps", dtype = "float32", value = 1e-5 },
  { name = "rows", dtype = "int32" },
  { name = "cols", dtype = "int32" },
]

[dims]
rows = { sizes = [64] }
cols = { sizes = [64] }

[specialisations]
T = { dtypes = ["float32", "float16"] }
centred = { values = [false, true] }

[[launches]]
function = "norm"
grid = ["rows"]
block = [128]

[backward]
kernel = "norm_backward"
"""

NORM_BACKWARD = """\
format = 1
arguments = [
  { name = "dx", role = "out", dtype = "T", shape = ["rows...", "cols"] },
  { name = "grad_weight", role = "out", dtype = "T", shape = ["cols"], init = 0 },
  { name = "grad_y", role = "in", dtype = "T", shape = ["rows...", "cols"] },
  { name = "x", role = "in", dtype = "T", shape = ["rows...", "cols"] },
  { name = "weight", role = "in", dtype = "T", shape = ["cols"] },
  { name = "rstd", role = "in", dtype = "float32", shape = ["rows..."] },
  { name = "rows", dtype = "int32" },
  { name = "cols", dtype = "int32" },
]

[dims]
rows = { sizes = [64] }
cols = { sizes = [64] }

[specialisations]
T = { dtypes = ["float32", "float16"] }

[[launches]]
function = "norm_backward"
grid = ["rows"]
block = [128]
"""
NAMES = '"norm_backward"\nnames = { dx = "grad_x" }'

_NORM_TEMPLATE = """\
// {{ centred }}
extern "C" __global__ void norm({{ T }}* y, float* rstd, const {{ T }}* x, const {{ T }}* weight, float eps, int rows,
                                int cols) {}
"""
_BACKWARD_TEMPLATE = """\
extern "C" __global__ void norm_backward({{ T }}* dx, {{ T }}* grad_weight, const {{ T }}* grad_y, const {{ T }}* x,
                                         const {{ T }}* weight, const float* rstd, int rows, int cols) {}
"""

Edits = tuple[tuple[str, str], ...]


def write_pair(folder: Path, forward: Edits = (), backward: Edits = ()) -> None:
    """Write the pair into a folder, each spec with edits; the first says by `names` what `dx` is."""
    (folder / "norm.toml").write_text(edited(NORM, ('"norm_backward"', NAMES), *forward))
    (folder / "norm_backward.toml").write_text(edited(NORM_BACKWARD, *backward))
    (folder / "norm.cu.jinja").write_text(_NORM_TEMPLATE)
    (folder / "norm_backward.cu.jinja").write_text(_BACKWARD_TEMPLATE)


def pair(folder: Path, forward: Edits = (), backward: Edits = ()) -> dict[str, KernelSpec]:
    """Return the loaded pair."""
    write_pair(folder, forward, backward)
    return load_folder(folder)


def pair_faults(folder: Path, forward: Edits = (), backward: Edits = ()) -> list[str]:
    """Return the lines about each fault of the pair, an empty list where it loads."""
    try:
        pair(folder, forward, backward)
    except SpecError as error:
        return [str(fault) for fault in error.faults]
    return []
