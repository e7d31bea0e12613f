"""Derived names: what they stand for, where they may be read, and what is wrong with a definition."""

from __future__ import annotations

import pickle

import pytest

from pretuned.record.freshness import space_key
from pretuned.render import candidate, source_of
from pretuned.spec import space
from pretuned.spec.guards import guards
from pretuned.spec.let import MAX_LENGTH
from pretuned.spec.space import Configuration, Problem
from specs import SCALE_TEMPLATE, SEVERAL, faults, loaded

HEAD = "[dims]"
GRID = '["ceil_div(n, block * vec)"]'
GUARD = "n % vec == 0"
FLOAT32 = (("T", "float32"),)
CONFIGURATION = Configuration(implementation="main", values=(("block", 128), ("vec", 2)))


def let(lines):
    return HEAD, f"[let]\n{lines}\n{HEAD}"


AT = "T=float16, for the default (block=256, vec=1)"
ROOM = '[[scratch]]\nname = "room"\ndtype = "int32"\nshape = ["words"]'
PLAIN = ", and texts and floats alone in a comparison with a name"
TILE = let('tile = "block * vec"\ntiles = "ceil_div(n, tile)"')


def test_a_name_stands_for_its_definition(tmp_path):
    plain = loaded(tmp_path)
    spec = loaded(tmp_path, TILE, (GRID, '["tiles"]'))

    assert spec.launches == plain.launches
    assert spec.let["tiles"].python == "ceil_div(n, tile)"
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_a_definition_changes_no_key_of_what_is_the_same(tmp_path):
    plain = loaded(tmp_path)
    spec = loaded(tmp_path, TILE, (GRID, '["tiles"]'), (GUARD, "n % (tile // block) == 0"))

    assert candidate(spec, FLOAT32, CONFIGURATION).key == candidate(plain, FLOAT32, CONFIGURATION).key
    assert space_key(loaded(tmp_path, TILE)) == space_key(plain)
    assert space_key(spec) != space_key(plain)


def test_what_depends_on_dims_is_a_guard_and_the_rest_is_decided_by_the_configuration(tmp_path):
    spec = loaded(tmp_path, TILE, (GUARD, 'tile <= 256", "tiles % 2 == 0 or vec == 1'))

    assert guards(spec, FLOAT32, CONFIGURATION).where == ("ceil_div(n, 256) % 2 == 0",)
    wide = Configuration(implementation="main", values=(("block", 256), ("vec", 2)))
    problem = Problem(specialisation=FLOAT32, dims=(("n", 1024),))
    assert space.legal(spec, problem, CONFIGURATION)
    assert not space.legal(spec, problem, wide)


def test_templates_and_options_read_what_no_call_decides(tmp_path):
    template = SCALE_TEMPLATE.replace("{{ vec }}", "{{ tile }} / {{ block }}; constexpr bool wide = {{ wide }}")
    lines = 'tile = "block * vec"\nwide = "tile * sizeof(T) > 512"'
    options = ("[constraints]", "[compile]\noptions = ['-DTILE={{ tile }}']\n[constraints]")

    source = source_of(loaded(tmp_path, let(lines), options, template=template), FLOAT32, CONFIGURATION)

    assert "constexpr int vec = 256 / 128; constexpr bool wide = true;" in source.text
    assert source.options == ("-DTILE=256",)


def test_a_parameter_that_only_a_derived_name_reads_is_used(tmp_path):
    template = SCALE_TEMPLATE.replace("{{ vec }}", "{{ twice }} / 2")
    grid = (GRID, '["ceil_div(n, block)"]')

    assert not faults(tmp_path, let('twice = "2 * vec"'), grid, ("n % vec == 0", "n >= 0"), template=template)


def test_scalars_fills_scratch_and_addresses_read_derived_names(tmp_path):
    spec = loaded(
        tmp_path,
        let('last = "n - 1"\nwords = "4 * block"\nbytes = "4 * 4"'),
        ('dtype = "float32", value = 2.0', 'dtype = "int32", value = "last"'),
        (
            '{ name = "x", role = "in", dtype = "T"',
            '{ name = "x", role = "in", fill = { from = 0, to = "last" }, dtype = "T"',
        ),
        (
            'block    = ["block"]',
            f'block = ["block"]\narguments = ["y", "x", "a", "n", "room"]\n{ROOM}',
        ),
        ("where =", 'requires = ["aligned(x, bytes)", "last >= 0"]\nwhere ='),
    )

    assert str(spec.scalars[0].value) == "n - 1"
    assert str(spec.arguments[1].fill.to) == "n - 1"
    assert str(spec.scratch[0].shape[0]) == "4 * block"
    assert list(map(str, spec.constraints.requires)) == ["aligned(x, 4 * 4)", "n - 1 >= 0"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('d = "m // 2"', "let.d: unknown name 'm' in 'm // 2'"),
        (
            'd = "e + 1"\ne = "n"',
            "let.d: 'e + 1' reads 'e', which is defined below it; a definition reads those above it",
        ),
        ('d = "d + 1"', "let.d: 'd + 1' reads itself; a definition reads those above it"),
        ('n = "3"', "let.n: 'n' is already the name of one of the dims; rename one"),
        ('block = "3"', "let.block: 'block' is already the name of one of the parameters; rename one"),
        ('T = "3"', "let.T: 'T' is already the name of one of the specialisations; rename one"),
        ('x = "3"', "let.x: 'x' is already the name of one of the arrays; rename one"),
        ('min = "3"', "let.min: 'min' has a meaning of its own in expressions, templates or calls; use another name"),
        ('d = "T"', "let.d: 'T' is a type; only sizeof(T) has a value"),
        ('d = "n / 2"', "let.d: 'n / 2' divides with '/'; write '//' or ceil_div(a, b)"),
        ("d = 1.5", "let.d: expected an integer or an expression in quotes, found 1.5"),
        ('d = "x"', "let.d: unknown name 'x' in 'x'"),
        ('a = "2 ** 0.5"', f"let.a: '2 ** 0.5' has the literal 0.5; only integers and bools are allowed{PLAIN}"),
        ('d = "__import__"', "let.d: unknown name '__import__' in '__import__'"),
    ],
)
def test_a_definition_that_is_none_is_one_fault(tmp_path, lines, message):
    assert faults(tmp_path, let(lines)) == [f"scale.toml: {message}"]


def test_a_slip_in_a_definition_is_reported_there_alone(tmp_path):
    assert faults(tmp_path, let('d = "m // 2"\ne = "d * d"'), (GRID, '["e"]'), (GUARD, "d % vec == 0")) == [
        "scale.toml: let.d: unknown name 'm' in 'm // 2'"
    ]


def test_a_name_that_is_a_parameter_and_defined_is_reported_once(tmp_path):
    lines = let('block = "vec * 64"')
    found = faults(tmp_path, lines, (GRID, '["ceil_div(n, block)"]'), (GUARD, "n % block == 0"))
    assert found == ["scale.toml: let.block: 'block' is already the name of one of the parameters; rename one"]


def test_a_misspelt_derived_name_finds_the_right_one(tmp_path):
    assert faults(tmp_path, TILE, (GRID, '["tilles"]')) == [
        "scale.toml: launches[0].grid[0]: unknown name 'tilles' in 'tilles'; did you mean 'tiles'?"
    ]


@pytest.mark.parametrize(("place", "path"), [(GRID, "launches[0].grid[0]"), (GUARD, "constraints.where[1]")])
@pytest.mark.parametrize(("literal", "kind"), [("'x'", "a text"), ("2.0", "a float")])
def test_a_derived_name_is_a_number_where_it_is_compared(tmp_path, place, path, literal, kind):
    text = f"d == {literal}"
    text = f'["{text}"]' if place == GRID else text
    message = f"'d' is not {kind}, so it cannot be compared with {literal}"

    assert faults(tmp_path, let('d = "2 * n"'), (place, text)) == [f"scale.toml: {path}: {message}"]


def test_definitions_that_double_are_stopped(tmp_path):
    lines = 'a0 = "n + n"\n' + "".join(f'a{i + 1} = "a{i} * a{i}"\n' for i in range(12))

    said = f"is more than {MAX_LENGTH:,} characters long with all that it reads written out; define less by one name"
    assert faults(tmp_path, let(lines)) == [f"scale.toml: let.a8: {said}"]


def test_definitions_that_nest_are_stopped(tmp_path):
    lines = 'a0 = "n"\n' + "".join(f'a{i + 1} = "-(-(-(-(-(-(-(-(-a{i}))))))))"\n' for i in range(9))

    assert [fault.partition(":")[2].partition(":")[0] for fault in faults(tmp_path, let(lines))] == [" let.a7"]


@pytest.mark.parametrize(
    ("lines", "argument", "message"),
    [
        (
            'a = "n"',
            'dtype = "int32", value = 1',
            "arguments[2].value: 'a' takes its value from [let]; leave `value` out",
        ),
        (
            'a = "n"',
            'dtype = "T"',
            "arguments[2].dtype: 'a' is defined by [let], and is passed as one type: int32, int64, ...",
        ),
        (
            'a = "n * n"',
            'dtype = "int32"',
            f"arguments: 'a' is 4294967296, and int32 is an integer from -2147483648 to 2147483647 at n=65536, {AT}",
        ),
        (
            'a = "8 // (n - 1024)"',
            'dtype = "int32"',
            f"arguments: '8 // (n - 1024)' divides by zero at n=1024, {AT}",
        ),
        ('a = "n"', 'dtype = "bool"', f"arguments: 'a' is 1024, and bool is True or False at n=1024, {AT}"),
    ],
)
def test_an_argument_takes_a_derived_value(tmp_path, lines, argument, message):
    found = faults(tmp_path, let(lines), ('dtype = "float32", value = 2.0', argument))
    assert found == [f"scale.toml: {message}"]


def test_an_argument_by_a_parameter_that_an_implementation_lacks_is_named(tmp_path):
    found = faults(
        tmp_path,
        let('a = "n // vec"'),
        ('dtype = "float32", value = 2.0', 'dtype = "int32"'),
        toml=SEVERAL,
    )

    assert (
        "scale.toml: arguments[2].name: 'a' reads 'vec', and the implementation 'plain' has no such parameter" in found
    )
