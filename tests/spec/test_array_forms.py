"""What a spec says of arrays beside dtype and shape, and what it cannot say, in whole messages."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from pretuned.measure.launch import arrays, scalars
from pretuned.spec import space
from pretuned.spec.guards import guards
from specs import SCALE_TEMPLATE, SEVERAL, faults, loaded

X = 'name = "x", role = "in"'
Y = 'name = "y", role = "out"'
A = 'dtype = "float32", value = 2.0'
IN_PLACE = (Y, f"{Y}, in-place = true")
NO_INPUT = """no `in` argument has `dtype = "T"` and `shape = ["n"]`, so 'y' cannot be one; leave it out"""
WRITE = "write `aligned(x, 8)`, an array and bytes, as an entry of its own"
ALLOWED = "allowed are + - * // % **, comparisons, and/or/not, x if c else y, ceil_div(a, b), min, max and sizeof(T)"
ONLY_OUTPUTS = 'only an output (`role = "out"`) can be one of the inputs; leave it out'


def test_an_output_may_be_each_input_of_its_dtype_and_shape(tmp_path):
    spec = loaded(
        tmp_path,
        IN_PLACE,
        (f"{{ {X}", f'{{ name = "w", role = "in", dtype = "T", shape = ["n"] }},\n  {{ {X}'),
        ('  { name = "n"', '  { name = "v", role = "in", dtype = "T", shape = ["n + 0"] },\n  { name = "n"'),
    )
    assert [array.name for array in spec.in_place_of(spec.arrays[0])] == ["w", "x"]
    assert spec.in_place_of(spec.arrays[1]) == ()


@pytest.mark.parametrize(
    ("edits", "lines"),
    [
        ([(X, f"{X}, in-place = true")], [f"arguments[1].in-place: {ONLY_OUTPUTS}"]),
        ([(Y, 'name = "y", role = "inout", in-place = true')], [f"arguments[0].in-place: {ONLY_OUTPUTS}"]),
        ([(A, f"{A}, in-place = true")], [f"arguments[2].in-place: {ONLY_OUTPUTS}"]),
        ([(Y, f"{Y}, in-place = 1")], ["arguments[0].in-place: expected true or false, found 1"]),
        ([(Y, f'{Y}, in-place = "x"')], ['arguments[0].in-place: expected true or false, found "x"']),
        (
            [IN_PLACE, (X + ', dtype = "T", shape = ["n"]', X + ', dtype = "T", shape = ["n", 1]')],
            [
                "arguments[0].in-place: " + NO_INPUT,
            ],
        ),
        (
            [(Y, f"{Y}, in-place = true, init = 0")],
            ["arguments[0].in-place: `init` zeroes 'y', and so an input that it is; leave one of them out"],
        ),
    ],
)
def test_an_output_that_cannot_be_an_input(tmp_path, edits, lines):
    assert faults(tmp_path, *edits) == [f"scale.toml: {line}" for line in lines]


def test_an_output_that_one_implementation_zeroes_cannot_be_an_input(tmp_path):
    edit = ("[implementations.plain]\n", '[implementations.plain]\ninit = ["y"]\n')
    (fault,) = faults(tmp_path, IN_PLACE, edit, toml=SEVERAL)
    assert fault == (
        "scale.toml: arguments[0].in-place: `init` zeroes 'y', and so an input that it is; leave one of them out"
    )


def requires(text):
    return ('where = ["vec', f'requires = [{text}]\nwhere = ["vec')


def test_a_demand_on_an_address_makes_a_default_that_aligns_so_legal(tmp_path):
    edits = [("\nvec   = 1\n", "\nvec   = 2\n"), (', "n % vec == 0"', "")]
    spec = loaded(tmp_path, *edits, requires('"aligned(y, 2 * sizeof(T))", "aligned(x, 8)"'))
    demands = [str(one) for one in spec.constraints.requires]
    assert demands == ["aligned(y, 2 * sizeof(T))", "aligned(x, 8)"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"aligned(z, 8)"', "'z' in 'aligned(z, 8)' is not an array"),
        ('"aligned(a, 8)"', "'a' in 'aligned(a, 8)' is not an array"),
        (
            '"aligned(x, vec)"',
            "'vec' is a parameter; what a configuration asks of an address is the argument's `align`",
        ),
        (
            '"aligned(x, n)"',
            "'n' in 'aligned(x, n)' has no one value: a call may have any size of it; write a number",
        ),
        ('"aligned(x, m)"', "unknown name 'm' in 'm'"),
        ('"aligned(x, 12)"', "asks for 12 bytes; an alignment is a power of two, at most 256"),
        ('"aligned(x, 512)"', "asks for 512 bytes; an alignment is a power of two, at most 256"),
        (
            '"aligned(x, 128 * sizeof(T))"',
            "asks for 512 bytes for T=float32; an alignment is a power of two, at most 256",
        ),
        ('"aligned(x, 0)"', "asks for 0 bytes; an alignment is a power of two, at most 256"),
        ('"aligned(x, -8)"', "asks for -8 bytes; an alignment is a power of two, at most 256"),
        *[
            (
                f'"{text}"',
                f"'{text}' is not a demand on an address; {WRITE}",
            )
            for text in ("aligned(x, 8) and n > 1", "not aligned(x, 8)", "aligned(x)", "aligned(8, x)", "aligned(x, 8")
        ],
        (
            '"aligned(x, ' + "-" * 400 + '1)"',
            f"'{'-' * 400}1' is nested more than 20 deep; split it into several constraints",
        ),
        ('"aligned(x, ' + "(" * 10_000 + '1)"', "is 10013 characters long; at most 500 are allowed"),
        ('"aligned(x, 8 / 2)"', "'8 / 2' divides with '/'; write '//' or ceil_div(a, b)"),
    ],
)
def test_what_is_not_a_demand_on_an_address(tmp_path, text, message):
    (fault,) = faults(tmp_path, requires(text))
    assert fault == f"scale.toml: constraints.requires[0]: {message}"


def test_a_demand_on_an_address_is_not_for_where(tmp_path):
    (fault,) = faults(tmp_path, ("n % vec == 0", "aligned(x, 8)"))
    assert fault == (
        "scale.toml: constraints.where[1]: 'aligned(x, 8)' calls 'aligned'; it stands in `requires`, and what a "
        "configuration asks of an address is the argument's `align`"
    )


BIAS = '{ name = "b", role = "in", dtype = "T", shape = ["n"], optional = true }'


def biased(text=BIAS):
    return ('  { name = "a"', f'  {text},\n  {{ name = "a"')


def test_an_optional_input_is_a_specialisation_of_its_own(tmp_path):
    spec = loaded(tmp_path, biased(), ("n % vec == 0", "n % vec == 0 or has_b"))
    assert [dict(one)["has_b"] for one in space.specialisations(spec)] == [False, True] * 2
    problem = space.all_problems(spec)[0]
    assert [buffer.name for buffer in arrays(spec, problem)] == ["y", "x"]
    assert pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.parametrize(
    ("edits", "lines"),
    [
        (
            [(Y, f"{Y}, optional = true")],
            ['arguments[0].optional: an output is always written; `role = "in"` and "inout" can be left out by a call'],
        ),
        (
            [(Y, f"{Y.replace('out', 'inout')}, optional = true")],
            [
                (
                    "arguments[0].optional: a call that leaves it out writes nothing; give the kernel an output that "
                    "is always there"
                )
            ],
        ),
        (
            [(A, f"{A}, optional = true")],
            ["arguments[2].optional: 'a' is a number; one that a call may leave out has a `default`"],
        ),
        (
            [(X, f"{X}, optional = true")],
            [
                (
                    "specialisations.T: a call may leave out 'x', and no other input has dtype 'T', so it cannot be "
                    "read off a call; "
                    'give an `in` argument `dtype = "T"`, or let it follow from a keyword with texts, '
                    '`from = "KEYWORD"`'
                ),
            ],
        ),
        (
            [biased(BIAS.replace('["n"]', '["m"]')), ("[dims]\n", "[dims]\nm = { sizes = [4] }\n")],
            [
                (
                    "dims.m: a call may leave out 'b', and no other array's shape gives 'm', so it cannot be read off "
                    "a call; name it in the shape of an `in` argument, alone or as in `2 * m`"
                ),
            ],
        ),
        *[
            (
                [biased(), edit],
                [f"arguments[2].optional: 'has_b' says whether 'b' is there, and is the name of something else; {end}"],
            )
            for edit, end in (
                (("[specialisations]\n", "[specialisations]\nhas_b = { values = [false, true] }\n"), "rename that"),
                (("vec   = [1, 2, 4]", "vec   = [1, 2, 4]\nhas_b = [1]"), "rename that"),
            )
        ],
        ([biased(BIAS.replace("true", '"yes"'))], ['arguments[2].optional: expected true or false, found "yes"']),
    ],
)
def test_what_cannot_be_optional(tmp_path, edits, lines):
    assert [line for line in lines if f"scale.toml: {line}" not in faults(tmp_path, *edits)] == []


def test_a_library_is_not_passed_an_optional_array(tmp_path):
    call = '[implementations.library]\ncall = "cupy:add"\n\n[implementations.plain]\n'
    edits = [biased(), ('  { name = "a", dtype = "float32", value = 2.0 },\n', ""), ("[implementations.plain]\n", call)]
    assert [line for line in faults(tmp_path, *edits, toml=SEVERAL) if "arguments[2].optional" in line] == [
        (
            "scale.toml: arguments[2].optional: cupy.add is not passed None; leave 'b' out of its `arguments`, and "
            'write `constraints = { where = ["not has_b"] }` beside them'
        )
    ]


SHAPE = 'dtype = "T", shape = ["n"]'
LEADING = (f"{X}, {SHAPE}", f'{X}, dtype = "T", shape = ["m...", "n"]')
LEADING_Y = (f"{Y}, {SHAPE}", f'{Y}, dtype = "T", shape = ["m...", "n"]')
M = ("[dims]\n", "[dims]\nm = { sizes = [4] }\n")


def test_leading_dims_are_one_dim(tmp_path):
    spec = loaded(tmp_path, LEADING, LEADING_Y, M)
    assert [str(extent) for extent in spec.arrays[0].shape] == ["m...", "n"]
    assert [buffer.shape for buffer in arrays(spec, space.all_problems(spec)[0])] == [(4, 1024)] * 2
    assert pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.parametrize(
    ("edits", "lines"),
    [
        (
            [(f"{X}, {SHAPE}", f'{X}, dtype = "T", shape = ["n", "m..."]'), M],
            ["arguments[1].shape[1]: 'm...' stands for the leading dims; write it first"],
        ),
        (
            [LEADING, LEADING_Y, ("[dims]\n", "[dims]\nm = { values = [4], constant = true }\n")],
            [
                f"arguments[{index}].shape[0]: 'm' is matched exactly, and a product of dims is not; leave the dots or "
                "`constant` out"
                for index in (0, 1)
            ],
        ),
        (
            [LEADING, (f"{Y}, {SHAPE}", f'{Y}, dtype = "T", shape = ["n..."]'), M],
            ["arguments[1].shape[0]: 'm...' beside 'n...': the leading dims of a kernel's arrays have one name"],
        ),
        ([LEADING], ["arguments[1].shape[0]: shape names 'm', which is not a dim"]),
        *[
            (
                [(f"{X}, {SHAPE}", f'{X}, dtype = "T", shape = ["{text}", "n"]')],
                [
                    (
                        f"arguments[1].shape[0]: '{text}' does not name leading dims; write `rows...`, where the dim "
                        "`rows` is their product"
                    )
                ],
            )
            for text in ("...", "2 * m...", "...m", "m....")
        ],
        (
            [('grid     = ["ceil_div(n, block * vec)"]', 'grid = ["n..."]')],
            [f"launches[0].grid[0]: 'n...' is not an expression; {ALLOWED}"],
        ),
    ],
)
def test_what_leading_dims_cannot_be(tmp_path, edits, lines):
    found = faults(tmp_path, *edits)
    assert [line for line in lines if f"scale.toml: {line}" not in found] == [], found


def test_a_library_is_not_passed_leading_dims(tmp_path):
    call = '[implementations.library]\ncall = "cupy:add"\n\n[implementations.plain]\n'
    edits = [
        LEADING,
        M,
        ('  { name = "a", dtype = "float32", value = 2.0 },\n', ""),
        ("[implementations.plain]\n", call),
    ]
    assert (
        "scale.toml: arguments[1].shape[0]: cupy.add would be passed the leading dims as they come, and is verified "
        "with their product alone; write a template"
    ) in faults(tmp_path, *edits, toml=SEVERAL)


APART = (f"{X}, {SHAPE}", f'{X}, dtype = "T", shape = ["m", "n"], strides = ["x_stride", 1]')
PASSED = ('  { name = "n"', '  { name = "x_stride", dtype = "int64" },\n  { name = "n"')
LONGER = (f"{Y}, {SHAPE}", f'{Y}, dtype = "T", shape = ["m", "n"]')


def apart(strides, shape='["m", "n"]', more=""):
    return (f"{X}, {SHAPE}", f'{X}, dtype = "T", shape = {shape}, strides = {strides}{more}')


def test_strides_that_say_contiguous_change_nothing_in_place(tmp_path):
    written = (f"{Y}, {SHAPE}", f'{Y}, dtype = "T", shape = ["m", "n"], strides = ["n", 1], in-place = true')
    read = (f"{X}, {SHAPE}", f'{X}, dtype = "T", shape = ["m", "n"]')
    spec = loaded(tmp_path, written, read, M)
    assert [array.name for array in spec.in_place_of(spec.arrays[0])] == ["x"]


def test_an_input_whose_rows_may_lie_apart_is_named_where_nothing_can_be_in_its_place(tmp_path):
    written = (f"{Y}, {SHAPE}", f'{Y}, dtype = "T", shape = ["m", "n"], in-place = true')
    message = "the rows of 'x' may lie apart, and those of an output in its place may not; leave it out"
    assert faults(tmp_path, APART, PASSED, written, M) == [f"scale.toml: arguments[0].in-place: {message}"]


def test_an_array_that_is_changed_itself_is_no_input_to_be_in_the_place_of(tmp_path):
    changed = (X, 'name = "x", role = "inout"')
    assert faults(tmp_path, IN_PLACE, changed) == [f"scale.toml: arguments[0].in-place: {NO_INPUT}"]


def test_a_demand_on_strides_that_no_measured_array_meets_is_named(tmp_path):
    demands = ("[constraints]\n", '[constraints]\nrequires = ["x_stride > n", "n > 0"]\n')
    message = "'x_stride > n' admits no array whose rows lie side by side, as tuning measures them; loosen it"
    assert faults(tmp_path, APART, PASSED, LONGER, M, demands) == [f"scale.toml: constraints.requires: {message}"]


def test_a_stride_is_that_of_contiguous_arrays_unless_a_problem_says_otherwise(tmp_path):
    guard = ('"n % vec == 0"', '"n % vec == 0", "x_stride % vec == 0"')
    spec = loaded(tmp_path, APART, PASSED, LONGER, M, guard)
    problem = space.all_problems(spec)[0]
    assert [scalar.value for scalar in scalars(spec, problem) if scalar.name == "x_stride"] == [1024]
    (four,) = [one for one in space.configurations(spec, problem) if one.values == (("block", 256), ("vec", 4))]
    assert guards(spec, problem.specialisation, four).where == ("n % 4 == 0", "x_stride % 4 == 0")
    for stride, legal in ((1028, True), (1027, False)):
        other = replace(problem, strides=(("x_stride", stride),))
        assert space.legal(spec, other, four) is legal
        assert str(other) == f"m=4, n=1024, x_stride={stride}, T=float16"
    assert "x_stride" not in [scalar.name for scalar in spec.scalars]
    assert pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.parametrize(
    ("edits", "lines"),
    [
        ([apart('["x_stride"]')], ["arguments[1].strides: has 1 entry, and `shape` has 2; a dim has one each"]),
        ([apart("[]", "[]")], ["arguments[1].strides: an array without dims has no strides; leave it out"]),
        *[
            (
                [apart(f'["x_stride", {last}]')],
                [
                    (
                        f"arguments[1].strides[1]: is {last.strip(chr(34))}; the elements of a row lie side by side: "
                        "write 1"
                    )
                ],
            )
            for last in ('"y_stride"', "2", "0", '"n"')
        ],
        (
            [apart('["x_stride", 1]')],
            [
                (
                    "arguments[1].strides[0]: the kernel is not passed 'x_stride'; write "
                    '`{ name = "x_stride", dtype = "int64" }` among `arguments`'
                )
            ],
        ),
        (
            [apart('["nn", 1]')],
            ["arguments[1].strides[0]: the kernel is not passed 'nn'; did you mean 'n'?"],
        ),
        *[
            (
                [apart(f'["{text}", 1]')],
                [
                    (
                        f"arguments[1].strides[0]: '{text}' is not 'n', which contiguous elements have; name a stride "
                        "that calls decide, as in `x_stride`, and pass the name to the kernel"
                    )
                ],
            )
            for text in ("2 * n", "m", "1024", "-n", "n // 0 if m else n")
        ],
        (
            [apart('["k * n", 1]')],
            ["arguments[1].strides[0]: unknown name 'k' in 'k * n'"],
        ),
        (
            [apart('["n * 2", "x_stride", 1]', '["m", 2, "n"]'), PASSED],
            [
                (
                    "arguments[1].strides[1]: 'n * 2' is what contiguous elements have, and 'x_stride' below it says "
                    "that they may not be; name both"
                )
            ],
        ),
        (
            [
                APART,
                PASSED,
                (f"{Y}, {SHAPE}", f'{Y}, dtype = "T", shape = ["m", "n"], strides = ["x_stride", 1]'),
            ],
            [
                (
                    "arguments[1].strides[0]: 'x_stride' is a stride of 'y' already; give this one a name of its own, "
                    'and demand `requires = ["x_stride == NAME"]` where they have to agree'
                )
            ],
        ),
        *[
            (
                [apart(f'["{name}", 1]')],
                [f"arguments[1].strides[0]: '{name}' is the name of something else; a stride has a name of its own"],
            )
            for name in ("vec", "x", "y")
        ],
        (
            [apart('["for", 1]')],
            ["arguments[1].strides[0]: 'for' is not an expression"],
        ),
        (
            [apart('["out", 1]')],
            [
                (
                    "arguments[1].strides[0]: 'out' has a meaning of its own in expressions, templates or calls; use "
                    "another name"
                )
            ],
        ),
        *[
            ([apart(text)], [f"arguments[1].strides{message}"])
            for text, message in (
                ('"x_stride"', ': expected a list, found "x_stride"; write `strides = ["x_stride"]`'),
                ("[true, 1]", "[0]: expected an integer or an expression in quotes, found true"),
                ("[1.5, 1]", "[0]: expected an integer or an expression in quotes, found 1.5"),
                ("[{}, 1]", "[0]: expected an integer or an expression in quotes, found {}"),
                ('["", 1]', "[0]: '' is not an expression"),
                ('["m...", 1]', "[0]: 'm...' is not an expression"),
                (f'["{"a" * 600}", 1]', "[0]: is 600 characters long; at most 500 are allowed"),
                ("[9223372036854775808, 1]", "[0]: is an integer beyond 2**62"),
                ('["T", 1]', "[0]: 'T' is a type; only sizeof(T) has a value"),
                ('["_s", 1]', "[0]: '_s' cannot be a name"),
                ('["True", 1]', "[0]: 'True' cannot be a name"),
                ('["float32", 1]', "[0]: 'float32' has a meaning of its own"),
                ('["device.sm_count", 1]', "[0]: 'device.sm_count' has no value here"),
            )
        ],
        (
            [APART, PASSED, ('"x_stride", dtype = "int64"', '"x_stride", dtype = "float32"')],
            ["arguments[3].dtype: a stride is passed as int32, int64, uint32 or uint64, not 'float32'"],
        ),
        (
            [APART, PASSED, ('"x_stride", dtype = "int64"', '"x_stride", dtype = "int64", value = 3')],
            ["arguments[3].value: 'x_stride' takes its value from the call's problem; leave `value` out"],
        ),
        (
            [APART, PASSED, (f"{Y}, {SHAPE}", f'{Y}, dtype = "T", shape = ["x_stride"]')],
            ["arguments[0].shape[0]: shape names 'x_stride', which is not a dim"],
        ),
        (
            [(A, f"{A}, strides = [1]")],
            ['arguments[2]: has `strides` but no role; write `role = "in"`, "out" or "inout" for an array'],
        ),
        (
            [(f"{Y}, {SHAPE}", f'{Y}, dtype = "T", shape = ["m", "n"], strides = ["x_stride", 1], init = 0'), PASSED],
            [
                (
                    "arguments[0].strides: `init` zeroes all that 'y' reaches over, and so what lies between its rows; "
                    "leave it out, and zero the rows in the kernel"
                )
            ],
        ),
        (
            [
                (f"{Y}, {SHAPE}", f'{Y}, dtype = "T", shape = ["m", "n"], strides = ["x_stride", 1], in-place = true'),
                PASSED,
            ],
            [
                (
                    "arguments[0].strides: an output that is one of the inputs is contiguous; write "
                    '`role = "inout"` instead of `in-place`'
                )
            ],
        ),
        (
            [APART, PASSED, LONGER, ('"n % vec == 0"', '"x_stride % 2 == 0"')],
            [
                (
                    "default: where[1] 'x_stride % 2 == 0' excludes the default (block=256, vec=1) at "
                    "m=0, n=1, x_stride=1, T=float16; the default must be legal for every problem: choose another, or "
                    "demand it in `requires`"
                )
            ],
        ),
        (
            [APART, PASSED, LONGER, ('"n % vec == 0"', '"x_stride == n"')],
            [
                (
                    "default: where[1] 'x_stride == n' excludes the default (block=256, vec=1) at "
                    "m=0, n=1, x_stride=4, T=float16; the default must be legal for every problem: choose another, or "
                    "demand it in `requires`"
                )
            ],
        ),
    ],
)
def test_what_strides_cannot_be(tmp_path, edits, lines):
    found = faults(tmp_path, *edits, M)
    assert [line for line in lines if not any(one.startswith(f"scale.toml: {line}") for one in found)] == [], found


def test_a_contiguous_stride_may_be_written_as_it_is(tmp_path):
    for strides, shape in (('["n", 1]', '["m", "n"]'), ('["2 * n", "n", 1]', '["m", 2, "n"]'), ("[1]", '["n"]')):
        spec = loaded(tmp_path, apart(strides, shape), *([M] if "m" in shape else []))
        assert not spec.stride_names


def test_a_library_is_not_passed_rows_that_lie_apart(tmp_path):
    call = '[implementations.library]\ncall = "cupy:add"\n\n[implementations.plain]\n'
    edits = [
        APART,
        PASSED,
        M,
        ('  { name = "a", dtype = "float32", value = 2.0 },\n', ""),
        ("[implementations.plain]\n", call),
    ]
    assert (
        "scale.toml: arguments[1].strides: cupy.add would be passed rows that lie apart, and is verified with "
        "contiguous ones alone; write a template"
    ) in faults(tmp_path, *edits, toml=SEVERAL)


def test_a_template_is_not_rendered_with_a_stride(tmp_path):
    template = SCALE_TEMPLATE.replace("{{ vec }}", "{{ vec * x_stride }}")
    assert faults(tmp_path, APART, PASSED, LONGER, M, template=template) == [
        (
            "scale.toml: template: scale.cu.jinja:2: undefined name 'x_stride'; a stride is passed to the kernel as an "
            "argument"
        )
    ]


def test_a_stride_is_a_number(tmp_path):
    struct = ("[specialisations]\n", '[structs]\nPair = { a = "int32", b = "int32" }\n\n[specialisations]\n')
    passed = (PASSED[0], PASSED[1].replace('"int64"', '"Pair", value = { a = 1, b = 2 }'))
    found = faults(tmp_path, APART, passed, LONGER, M, struct)
    assert (
        "scale.toml: arguments[3].name: 'x_stride' is also a dim, a stride, a specialisation or a derived name, which "
        "are numbers; rename one"
    ) in found


def test_an_output_apart_cannot_be_an_input_apart_for_one_reason(tmp_path):
    """Not also because no input looks like it: one does."""
    output = f"{Y}, {SHAPE}", f'{Y}, dtype = "T", shape = ["m", "n"], strides = ["y_stride", 1], in-place = true'
    passed = PASSED[0], '  { name = "y_stride", dtype = "int64" },\n' + PASSED[1]

    found = faults(tmp_path, output, APART, passed, M)

    assert [one for one in found if "in-place" in one] == [
        (
            "scale.toml: arguments[0].strides: an output that is one of the inputs is contiguous; write "
            '`role = "inout"` instead of `in-place`'
        )
    ]


def test_an_output_whose_contiguous_strides_are_written_needs_an_input_like_it(tmp_path):
    output = f"{Y}, {SHAPE}", f'{Y}, dtype = "float64", shape = ["n"], strides = [1], in-place = true'
    (found,) = faults(tmp_path, output)
    assert found.startswith('scale.toml: arguments[0].in-place: no `in` argument has `dtype = "float64"`')
