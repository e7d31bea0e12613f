"""A package whose kernel takes tensor maps of two arrays, over made-up binaries."""

from __future__ import annotations

import sample
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.record.rows import Row
from pretuned.spec.loader import load

SPEC = """\
format = 1
arguments = [
  {{ name = "out", role = "out", dtype = "T", shape = ["cols", "rows"] }},
  {{ name = "x", role = "in", dtype = "T", shape = ["rows", "cols"] }},
  {{ name = "rows", dtype = "int32" }},
  {{ name = "factor", dtype = "float32", value = 2.0 }},
]

[default]
implementation = "plain"

[dims]
rows = {{ sizes = [128, 1024] }}
cols = {{ sizes = [128, 1024] }}

[specialisations]
T = {{ dtypes = ["float16", "float32"] }}

[implementations.plain]
template = "plain.cu.jinja"
default = {{}}

[[implementations.plain.launches]]
function = "plain"
grid = ["rows"]
block = [256]

[implementations.tiles]
template = "tiles.cu.jinja"
space = {{ tile = [8, 16, 32, 64] }}
default = {{ tile = 32 }}
tensor-maps = [
  {{ name = "x_map", array = "x", box = ["tile", 8]{of_x} }},
  {{ name = "out_map", array = "out", box = [8, "tile"] }},
]

[[implementations.tiles.launches]]
function = "tiles"
grid = ["ceil_div(cols, 8)", "ceil_div(rows, tile)"]
block = [256]
arguments = ["out_map", "rows", "x_map", "factor", "x"]
{launch}
"""
PLAIN = """\
#include <cuda_fp16.h>
extern "C" __global__ void plain({{ T }}* out, const {{ T }}* x, int rows, float factor) {}
"""
TILES = """\
#include <cuda_fp16.h>
#include <pretuned/tma.h>
extern "C" __global__ void tiles(
    const __grid_constant__ CUtensorMap out_map, int rows, const __grid_constant__ CUtensorMap x_map, float factor,
    const {{ T }}* x) {
    // {{ tile }}
}
extern "C" __global__ void plain({{ T }}* out, const {{ T }}* x, int rows, float factor) {}
"""
SIGNATURES = {"plain": "QQif", "tiles": ("128s", "i", "128s", "f", "Q")}


def spec(folder, of_x="", launch=""):
    """Write the spec `turned` with its templates, and load it.

    `of_x` are further keys of the map of `x`, `launch` those of the launch, or further launches.
    """
    (folder / "plain.cu.jinja").write_text(PLAIN)
    (folder / "tiles.cu.jinja").write_text(TILES)
    (folder / "turned.toml").write_text(SPEC.format(of_x=of_x, launch=launch))
    return load(folder / "turned.toml")


def package(folder, tile=32, of_x="", launch="", where=sample.H100):
    """Write `pkg.tuned` with the kernel `turned`, for which tiles won wherever it was measured."""
    folder.mkdir(exist_ok=True)
    rows: list[Row] = [
        sample.row(
            "turned",
            where,
            {"T": dtype},
            {"rows": rows, "cols": cols},
            sample.choice(2.0, implementation="tiles", tile=tile),
            sample.choice(30.0, implementation="plain"),
        )
        for dtype in ("float16", "float32")
        for rows in (128, 1024)
        for cols in (128, 1024)
    ]
    planned = plan({"turned": spec(folder, of_x, launch)}, rows, {where.name: where})
    sample.write({"__init__.py": b""}, folder / "pkg")
    sample.write(files(planned, sample.binaries(planned), version="0.0.0"), folder / "pkg" / "tuned")
    return folder
