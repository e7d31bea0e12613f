"""Tensor maps of candidates: what is bound at a problem, and on which devices."""

from __future__ import annotations

import pytest

import mapped
from pretuned.measure.launch import launches
from pretuned.outcome import LaunchFailed
from pretuned.spec import space
from pretuned.spec.loader import load
from pretuned.spec.space import Configuration, DeviceFacts, Problem

H100 = DeviceFacts(sm_count=132, compute_capability=90, shared_bytes=232448, l2_bytes=50 << 20)
A100 = DeviceFacts(sm_count=108, compute_capability=80, shared_bytes=166912, l2_bytes=40 << 20)
HOST = DeviceFacts(sm_count=2, compute_capability=90, shared_bytes=232448, l2_bytes=50 << 20, one_by_one=True)


def bound(folder, device, tile=16, cols=1024):
    problem = Problem(specialisation=(("T", "float16"),), dims=(("cols", cols), ("rows", 128)))
    configuration = Configuration(implementation="tiles", values=(("tile", tile),))
    return launches(mapped.spec(folder, ', swizzle = "32B"'), problem, configuration, device)


def test_maps_are_bound_at_a_problem(tmp_path):
    (launch,) = bound(tmp_path, H100)
    assert launch.arguments == ("out_map", "rows", "x_map", "factor", "x")
    assert launch.made_of == ("out", "rows", "x", "factor")
    found = {one.name: (one.array, one.dtype, one.shape, one.box, one.swizzle) for one in launch.tensor_maps}
    assert found == {
        "x_map": ("x", "float16", (128, 1024), (16, 8), "32B"),
        "out_map": ("out", "float16", (1024, 128), (8, 16), "none"),
    }


@pytest.mark.parametrize(
    ("role", "row", "cols", "reason"),
    [
        ("in", 100, 96, None),
        ("in", 98, 96, "whose rows lie 392 bytes apart, which is not a multiple of 16"),
        ("in", 100, 94, None),
        ("inout", 100, 96, None),
        ("inout", 100, 94, "that is written, with rows of 376 bytes, and TMA writes whole units of 16"),
    ],
)
def test_rows_may_lie_apart_by_what_tma_takes(tmp_path, role, row, cols, reason):
    mapped.spec(tmp_path)
    text = (tmp_path / "turned.toml").read_text()
    x = 'name = "x", role = "in", dtype = "T", shape = ["rows", "cols"]'
    text = text.replace(x, f'{x.replace("in", role, 1)}, strides = ["row", 1]')
    text = text.replace('shape = ["cols", "rows"]', 'shape = ["8 * cols", "rows"]')
    rows = '  { name = "rows", dtype = "int32" },'
    (tmp_path / "turned.toml").write_text(text.replace(rows, f'{rows}\n  {{ name = "row", dtype = "int64" }},'))
    for name in ("plain", "tiles"):
        file = tmp_path / f"{name}.cu.jinja"
        taken = file.read_text().replace("int rows, float", "int rows, long long row, float")
        file.write_text(taken.replace("const {{ T }}* x", "{{ T }}* x"))
    spec = load(tmp_path / "turned.toml")
    problem = Problem(specialisation=(("T", "float32"),), dims=(("cols", cols), ("rows", 8)), strides=(("row", row),))
    configuration = Configuration(implementation="tiles", values=(("tile", 8),))
    made = launches(spec, problem, configuration, H100)
    if reason is not None:
        assert made == LaunchFailed(message=f"the tensor map 'x_map' has an array {reason}")
    else:
        assert [one.strides for one in made[0].tensor_maps] == [(row,), ()]
    assert space.legal(spec, problem, configuration, H100) == (reason is None)


@pytest.mark.parametrize(
    ("device", "options", "message"),
    [
        (A100, {}, "tensor maps need compute capability 9.0; this device has 8.0"),
        (HOST, {}, "for GPUs only: tensor maps"),
        (
            H100,
            {"cols": 1020},
            "the tensor map 'x_map' has an array whose rows lie 2040 bytes apart, which is not a multiple of 16",
        ),
        (
            H100,
            {"tile": 12},
            "the tensor map 'out_map' has a box whose rows are 24 bytes, which is not a multiple of 16",
        ),
        (
            H100,
            {"tile": 264},
            "the tensor map 'x_map' has a box of 264 x 8 elements, and 1 to 256 along a dim are possible",
        ),
        (
            H100,
            {"cols": 2**33},
            "the tensor map 'x_map' has an array of 8589934592 elements along a dim, and 2**32 are possible",
        ),
    ],
)
def test_where_there_is_no_map_the_launch_is_an_outcome(tmp_path, device, options, message):
    assert bound(tmp_path, device, **options) == LaunchFailed(message=message)
