"""Tensor maps in a spec: what is refused and how it is said, what prunes a space, and what a call must fulfil."""

from __future__ import annotations

import pytest

import mapped
from pretuned.errors import SpecError
from pretuned.render import candidate
from pretuned.spec import space
from pretuned.spec.guards import guards as guards_of
from pretuned.spec.loader import load
from pretuned.spec.space import Configuration, DeviceFacts, Problem
from pretuned.tune.space.points import Points

X_MAP = '{ name = "x_map", array = "x", box = ["tile", 8] }'
HALF = (("T", "float16"),)


def configuration(tile):
    return Configuration(implementation="tiles", values=(("tile", tile),))


def faults(folder, *edits, of_x="", templates=()):
    mapped.spec(folder, of_x)
    text = (folder / "turned.toml").read_text()
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / "turned.toml").write_text(text)
    for old, new in templates:
        written = (folder / "tiles.cu.jinja").read_text()
        assert old in written
        (folder / "tiles.cu.jinja").write_text(written.replace(old, new))
    with pytest.raises(SpecError) as caught:
        load(folder / "turned.toml")
    head = "turned.toml: implementations.tiles."
    return [str(fault).removeprefix(head) for fault in caught.value.faults]


BAD = {
    "no such array": (
        [(X_MAP, X_MAP.replace('array = "x"', 'array = "y"'))],
        ["tensor-maps[0].array: 'y' is not an array"],
    ),
    "of a scalar": (
        [(X_MAP, X_MAP.replace('array = "x"', 'array = "rows"'))],
        ["tensor-maps[0].array: 'rows' is not an array"],
    ),
    "another rank": (
        [(X_MAP, X_MAP.replace('["tile", 8]', '["tile"]'))],
        ["tensor-maps[0].box: has 1 entry, and 'x' has 2 dims: write one for each"],
    ),
    "an empty box": (
        [(X_MAP, X_MAP.replace('["tile", 8]', "[]"))],
        ["tensor-maps[0].box: is empty; write at least one entry"],
    ),
    "a box of six": (
        [(X_MAP, X_MAP.replace('["tile", 8]', "[1, 1, 1, 1, 1, 8]"))],
        ["tensor-maps[0].box: has 6 entries; at most 5 are allowed"],
    ),
    "a box that is too large": (
        [(X_MAP, X_MAP.replace('["tile", 8]', "[512, 0]")), ('"rows", "x_map"', '"rows", "x_map"')],
        [
            "tensor-maps[0].box[0]: is 512; a box has 1 to 256 elements along a dim",
            "tensor-maps[0].box[1]: is 0; a box has 1 to 256 elements along a dim",
        ],
    ),
    "rows of a box that end anywhere": (
        [(X_MAP, X_MAP.replace('["tile", 8]', '["tile", 6]'))],
        [
            "tensor-maps[0].box[1]: makes a box whose rows are 12 bytes, which is not a multiple of 16, for float16",
        ],
    ),
    "rows that a swizzle does not hold": (
        [(X_MAP, X_MAP.replace('["tile", 8] }', '["tile", 32], swizzle = "64B" }'))],
        ["tensor-maps[0].box[1]: makes a box whose rows are 128 bytes, and a swizzle of 64B holds 64, for float32"],
    ),
    "an unknown name": (
        [(X_MAP, X_MAP.replace('"tile", 8', '"tiel", 8'))],
        ["tensor-maps[0].box[0]: unknown name 'tiel' in 'tiel'; did you mean 'tile'?"],
    ),
    "the device": (
        [(X_MAP, X_MAP.replace('"tile", 8', '"device.sm_count", 8'))],
        [
            (
                "tensor-maps[0].box[0]: 'device.sm_count' has no value here; only grid, block, shared, scratch shapes "
                "and `where` may read it"
            )
        ],
    ),
    "a name that is taken": (
        [(X_MAP, X_MAP.replace("x_map", "x")), ('"rows", "x_map"', '"rows"')],
        ["tensor-maps[0].name: 'x' is already the name of something else; rename the map"],
    ),
    "a name that is none": (
        [(X_MAP, X_MAP.replace("x_map", "x; }")), ('"rows", "x_map"', '"rows", "x; }"')],
        [
            (
                "tensor-maps[0].name: 'x; }' cannot be a name: use a letter, then letters, digits and '_', and no "
                "Python keyword"
            )
        ],
    ),
    "passed to no launch": (
        [('"rows", "x_map"', '"rows"')],
        ["tensor-maps[0]: 'x_map' is passed to no launch; name it in the `arguments` of one"],
    ),
    "an unknown swizzle": (
        [(X_MAP, X_MAP.replace("8] }", '8], swizzle = "256B" }'))],
        ["tensor-maps[0].swizzle: is \"256B\"; expected 'none', '32B', '64B' or '128B'"],
    ),
    "an unknown key": (
        [(X_MAP, X_MAP.replace("8] }", '8], interleave = "16B" }'))],
        ["tensor-maps[0].interleave: unknown key 'interleave'; known are array, box, fill, l2, name, swizzle"],
    ),
}


@pytest.mark.parametrize(("edits", "lines"), BAD.values(), ids=BAD)
def test_a_slip_is_named_with_its_path_and_remedy(tmp_path, edits, lines):
    assert faults(tmp_path, *edits) == lines


def test_nan_is_no_integer(tmp_path):
    found = faults(tmp_path, ('["float16", "float32"]', '["int32"]'), of_x=', fill = "nan"')
    floats = "bfloat16, float16, float32, float64"
    assert found == [f"tensor-maps[0].fill: 'x' may be int32, and TMA fills {floats} with NaN"]


def test_an_element_that_tma_does_not_know(tmp_path):
    found = faults(tmp_path, ('["float16", "float32"]', '["complex128"]'))
    assert found == [
        "tensor-maps[0].array: 'x' may be complex128, of which there are no tensor maps",
        "tensor-maps[1].array: 'out' may be complex128, of which there are no tensor maps",
    ]


def test_a_list_of_arrays_has_no_map(tmp_path):
    x = '{ name = "x", role = "in", dtype = "T", shape = ["rows", "cols"] }'
    sizes = "cols = { sizes = [128, 1024] }"
    edits = (x, x.replace(" }", ', count = "arrays", most = 4 }')), (sizes, f"{sizes}\narrays = {{ sizes = [4] }}")
    message = "tensor-maps[0].array: 'x' is a list of arrays, which has no maps; pass the list itself"
    assert message in faults(tmp_path, *edits)


def test_a_kernel_that_copies_its_map_is_refused(tmp_path):
    (found,) = faults(tmp_path, templates=[("__grid_constant__ ", "")])
    assert found == (
        "template: tiles.cu.jinja has no '__grid_constant__'; take a tensor map as `const __grid_constant__ "
        "CUtensorMap x_map`, since TMA reads it where it was passed"
    )


def test_a_map_among_the_arguments_is_answered_by_where_it_stands(tmp_path):
    edit = '{ name = "rows", dtype = "int32" }', '{ name = "rows", dtype = "int32", map = "x" }'
    (found,) = faults(tmp_path, edit)
    assert found == (
        "turned.toml: arguments[2].map: 'map': list tensor maps beside the launches, and name them in their "
        '`arguments`: `tensor-maps = [{ name = "x_map", array = "x", box = [64, 64] }]`'
    )


def test_a_default_with_maps_has_to_serve_every_call(tmp_path):
    found = faults(tmp_path, ('implementation = "plain"', 'implementation = "tiles"'))
    rest = "the default must be legal for every problem: choose another, or demand it in `requires`"
    assert found == [
        f"default: '{dim} * sizeof(T) % 16 == 0', which its tensor maps need, excludes the default (tile=32) at {at}, "
        f"T=float16; {rest}"
        for dim, at in (("cols", "cols=1, rows=1"), ("rows", "cols=0, rows=1"))
    ]
    demands = 'requires = ["rows * sizeof(T) % 16 == 0", "cols * sizeof(T) % 16 == 0"]\n\n[dims]'
    edits = ('implementation = "plain"', 'implementation = "tiles"'), ("[dims]", f"[constraints]\n{demands}")
    (address,) = faults(tmp_path, *edits)
    assert address == (
        "default: aligns 'out' to 16 bytes (tile=32) for T=float16; an array is only aligned to its elements, and the "
        'default must be legal for every call: choose another, or write `requires = ["aligned(out, 16)"]`'
    )


def test_boxes_that_no_map_has_are_no_configurations(tmp_path):
    mapped.spec(tmp_path)
    text = (tmp_path / "turned.toml").read_text().replace("[8, 16, 32, 64]", "[4, 8, 16, 32, 256, 512]")
    text = text.replace("tile = 32 }", "tile = 8 }").replace('[8, "tile"] }', '[8, "tile"], swizzle = "64B" }')
    (tmp_path / "turned.toml").write_text(text)
    spec = load(tmp_path / "turned.toml")
    problem = Problem(specialisation=HALF, dims=(("cols", 1024), ("rows", 1024)))
    listed = space.combinations("tiles", spec.all_implementations["tiles"])
    assert [dict(one.values)["tile"] for one in listed if space.legal(spec, problem, one)] == [8, 16, 32]


def test_what_a_map_asks_of_a_call_is_a_guard(tmp_path):
    spec = mapped.spec(tmp_path)
    guards = guards_of(spec, HALF, configuration(16))
    assert guards.where == ("cols * 2 % 16 == 0", "rows * 2 % 16 == 0")
    assert guards.align == (("out", 16), ("x", 16))
    assert not guards_of(spec, HALF, Configuration(implementation="plain", values=()))


@pytest.mark.parametrize("of_x", [', swizzle = "32B"', ', l2 = "64B"', ', fill = "nan"'])
def test_a_candidate_changes_with_its_maps(tmp_path, of_x):
    keys = {candidate(mapped.spec(tmp_path, text), HALF, configuration(16)).key for text in ("", of_x)}
    assert len(keys) == 2


def test_a_device_without_them_has_only_configurations_that_need_none(tmp_path):
    spec = mapped.spec(tmp_path)
    problem = Problem(specialisation=HALF, dims=(("cols", 1024), ("rows", 1024)))
    for capability, names in ((90, ["plain"] + ["tiles"] * 4), (80, ["plain"])):
        facts = DeviceFacts(sm_count=100, compute_capability=capability, shared_bytes=160_000, l2_bytes=1 << 25)
        assert [one.implementation for one in space.configurations(spec, problem, facts)] == names
        points = Points.of(spec, HALF, [problem], facts)
        assert [one.implementation for one in points] == names
