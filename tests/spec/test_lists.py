"""Lists of arrays in a spec: what they say of a problem, and what a list cannot be, in whole messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from pretuned.errors import SpecError
from pretuned.measure.launch import arrays, scalars
from pretuned.render import candidate, source_of
from pretuned.spec import space
from pretuned.spec.lists import divided
from pretuned.spec.loader import load

KERNELS = Path(__file__).parents[1] / "data" / "lists"
A = '{ name = "a", role = "in", dtype = "T", shape = ["m[]", "k"], count = "groups", most = 8 }'
C = '{ name = "c", role = "out", dtype = "T", shape = ["m[]", "n"], count = "groups", most = 8 }'
ROWS = '{ name = "rows", dtype = "int32", each = "m", most = 8 }'
ONLY_OUTPUTS = (
    "arguments[0].shape[0]: only outputs have 'm[]', and a call need not bring these; give it to a list that is an "
    'input, or write `role = "inout"`'
)
NO_EXTENTS = """arguments[3].each: no list has an extent 'm[]'; write `"m[]"` in the shape of one that is an input"""
ALLOWED = "allowed are + - * // % **, comparisons, and/or/not, x if c else y, ceil_div(a, b), min, max and sizeof(T)"
GROUPS = "groups = { sizes = [4] }"
M = "m = { sizes = [64] }"


def edited(folder, *edits):
    """Load the kernel `grouped` with parts of its text replaced."""
    text = (KERNELS / "grouped.toml").read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    (folder / "grouped.toml").write_text(text)
    for name in ("grouped.cu.jinja", "reference.py"):
        (folder / name).write_text((KERNELS / name).read_text())
    return load(folder / "grouped.toml")


def faults(folder, *edits):
    with pytest.raises(SpecError) as raised:
        edited(folder, *edits)
    return [line.strip() for line in str(raised.value).splitlines()[1:]]


def problem_of(spec, **dims):
    specialisation = next(iter(space.specialisations(spec)))
    return space.Problem(specialisation=specialisation, dims=space.pairs(dims))


def test_a_problem_has_the_arrays_of_its_count_with_extents_that_add_up():
    spec = load(KERNELS / "grouped.toml")
    problem = problem_of(spec, groups=4, m=65, n=3, k=2)
    shapes = {buffer.name: buffer.shape for buffer in arrays(spec, problem)}
    assert list(shapes) == [f"{name}[{place}]" for name in "cab" for place in range(4)]
    rows = [shapes[f"a[{place}]"][0] for place in range(4)]
    assert sum(rows) == 65
    assert len(set(rows)) == 4
    assert 0 in rows
    assert [shapes[f"c[{place}]"] for place in range(4)] == [(m, 3) for m in rows]
    assert shapes["b[3]"] == (2, 3)
    held = {scalar.name: scalar for scalar in scalars(spec, problem)}
    assert held["rows"].value["of"][:4] == tuple(rows)
    at = {name: 512 * (1 + place) for place, name in enumerate(shapes)}
    assert held["a"].pointing(at) == b"".join(at[f"a[{i}]"].to_bytes(8, "little") for i in range(4)) + bytes(32)


@pytest.mark.parametrize("count", range(1, 34))
def test_extents_add_up_and_the_first_array_has_some(count):
    for total in (0, 1, 2, 100, 4097):
        extents = divided(total, count)
        assert (len(extents), sum(extents), min(extents) >= 0) == (count, total, True)


def test_only_numbers_of_arrays_that_a_kernel_has_room_for_are_problems():
    spec = load(KERNELS / "grouped.toml")
    admitted = [count for count in range(12) if space.admitted(spec, problem_of(spec, groups=count, m=8, n=8, k=8))]
    assert admitted == list(range(1, 9))


def test_a_template_declares_the_list_that_calls_pass():
    spec = load(KERNELS / "grouped.toml")
    text = source_of(spec, next(iter(space.specialisations(spec))), space.default(spec)).text
    assert text.splitlines()[1].startswith("template <typename T, int most> struct List { T of[most]; ")


def test_what_is_measured_depends_on_the_form_of_a_list(tmp_path):
    spec = load(KERNELS / "grouped.toml")
    key = [candidate(one, next(iter(space.specialisations(one))), space.default(one)).key for one in (spec, spec)]
    other = edited(tmp_path, ('shape = ["k", "n"], count = "groups", most = 8', 'shape = ["k", "n"], count = "groups"'))
    assert key[0] == key[1] != candidate(other, next(iter(space.specialisations(other))), space.default(other)).key


BAD = {
    "no such dim": (
        [('"T", shape = ["m[]", "k"], count = "groups"', '"T", shape = ["m[]", "k"], count = "group"')],
        ["arguments[1].count: 'group' is not a dim; did you mean 'groups'?"],
    ),
    "count that is no name": (
        [(A, A.replace('count = "groups"', "count = 3"))],
        ["arguments[1].count: expected a string, found 3"],
    ),
    "most without count": (
        [(A, A.replace('"m[]"', '"m"').replace('count = "groups", ', "")), (ROWS + ",", "")],
        [
            ONLY_OUTPUTS,
            'arguments[1].most: only a list has one; write `count = "groups"` beside it for a list of arrays',
        ],
    ),
    "too many": (
        [(A, A.replace("most = 8", "most = 257"))],
        ["arguments[1].most: is 257; a list has at most 256 arrays, whose addresses are passed by value"],
    ),
    "none": ([(A, A.replace("most = 8", "most = 0"))], ["arguments[1].most: is 0; a size is at least 1"]),
    "a most that is no integer": (
        [(A, A.replace("most = 8", 'most = "8"'))],
        ['arguments[1].most: expected an integer, found "8"'],
    ),
    "sizes beyond": (
        [(GROUPS, "groups = { sizes = [4, 9] }")],
        [
            "dims.groups.sizes[1]: is 9, and 'c' has at most 8 arrays; give it a greater `most`, or measure fewer",
        ],
    ),
    "a keyword": (
        [(GROUPS, "groups = { sizes = [4], keyword = true }")],
        ["dims.groups.keyword: the number of arrays in 'c' gives 'groups'; leave it out"],
    ),
    "a constant sum": (
        [(M, "m = { values = [64], constant = true }")],
        ["dims.m.constant: 'm' is the sum of what each array of 'c' has; leave it out"],
    ),
    "not a name": (
        [('shape = ["m[]", "k"]', 'shape = ["2 * m[]", "k"]')],
        [
            (
                "arguments[1].shape[0]: '2 * m[]' does not name an extent of each array; write `rows[]`, where the dim "
                "`rows` is their sum"
            )
        ],
    ),
    "an index": (
        [('shape = ["m[]", "k"]', 'shape = ["m[0]", "k"]')],
        [f"arguments[1].shape[0]: 'm[0]' uses Subscript; {ALLOWED}"],
    ),
    "optional": (
        [(A, A.replace("most = 8", "optional = true, most = 8"))],
        ["arguments[1].optional: a list has at least one array; leave it out"],
    ),
    "strides": (
        [(A, A.replace("most = 8", 'strides = ["s", 1], most = 8'))],
        ["arguments[1].strides: the arrays of a list are contiguous; leave it out"],
    ),
    "leading dims": (
        [(A, A.replace('"m[]", "k"', '"m...", "k"'))],
        [
            ONLY_OUTPUTS,
            "arguments[1].shape[0]: the arrays of a list have as many dims as their shape; write the dims of one",
            NO_EXTENTS,
        ],
    ),
    "extents of a dim that has none": (
        [(ROWS, ROWS.replace('"m"', '"k"'))],
        ["arguments[3].each: no list has an extent 'k[]'; write `\"k[]\"` in the shape of one that is an input"],
    ),
    "extents as floats": (
        [(ROWS, ROWS.replace("int32", "float32"))],
        ["arguments[3].dtype: extents are passed as int32, int64, uint32 or uint64, not 'float32'"],
    ),
    "extents with a value": (
        [(ROWS, ROWS.replace("most = 8", "most = 8, value = 3"))],
        ["arguments[3].value: 'rows' takes its values from the arrays; leave `value` out"],
    ),
    "extents of another number": (
        [(ROWS, ROWS.replace(", most = 8", ""))],
        ["arguments[3].most: has room for 32 extents, and 'a' has at most 8 arrays; write `most = 8`"],
    ),
    "count on a scalar": (
        [('{ name = "n", dtype = "int32" }', '{ name = "n", dtype = "int32", count = "groups" }')],
        ['arguments[4]: has `count` but no role; write `role = "in"`, "out" or "inout" for an array'],
    ),
    "most on a scalar": (
        [('{ name = "n", dtype = "int32" }', '{ name = "n", dtype = "int32", most = 4 }')],
        ["arguments[4].most: only a list has one, and what has `each`; leave it out"],
    ),
    "outputs alone": (
        [
            ('["m[]", "k"], count = "groups", most = 8', '["m", "k"]'),
            ('["k", "n"], count = "groups", most = 8', '["k", "n"]'),
        ],
        [
            (
                "arguments[0].count: only outputs are lists of 'groups' arrays, and a call need not bring these; give "
                'an input that `count`, or write `role = "inout"`'
            ),
            ONLY_OUTPUTS,
            NO_EXTENTS,
        ],
    ),
}


@pytest.mark.parametrize(("edits", "lines"), BAD.values(), ids=BAD)
def test_what_a_list_cannot_be(tmp_path, edits, lines):
    assert faults(tmp_path, *edits) == [f"grouped.toml: {line}" for line in lines]


@pytest.mark.parametrize("name", ["my dim", "import", "1", "a < b", "groups)", "__import__"])
def test_a_count_that_cannot_be_a_name_is_reported(tmp_path, name):
    other = (GROUPS, f'"{name}" = {{ sizes = [4] }}'), ('count = "groups"', f'count = "{name}"')
    found = faults(tmp_path, *other)
    assert any(line.startswith(f"grouped.toml: dims.{name}") or f"'{name}' cannot be a name" in line for line in found)


def test_a_list_of_arrays_has_no_name_of_another_thing(tmp_path):
    found = faults(tmp_path, (GROUPS, f"{GROUPS}\nList = {{ sizes = [3], keyword = true }}"))
    assert found[0] == (
        "grouped.toml: arguments[0].count: 'List' is what C++ calls a list of arrays, and the name of something else; "
        "rename that"
    )


def test_a_template_that_does_not_declare_the_list(tmp_path):
    (tmp_path / "k").mkdir()
    folder = tmp_path / "k"
    spec = edited(folder)
    template = folder / spec.all_implementations["main"].template
    template.write_text(template.read_text().replace("{{ List }}", ""))
    with pytest.raises(SpecError) as raised:
        load(folder / "grouped.toml")
    assert "grouped.toml: template: does not declare 'List': write `{{ List }}` on a line of its own" in str(
        raised.value
    )


def test_lists_that_take_more_than_a_launch_passes(tmp_path):
    assert faults(tmp_path, ("most = 8", "most = 256")) == [
        "grouped.toml: arguments: take 7192 bytes together, and CUDA passes 4096; give 'c' a lesser `most`"
    ]
