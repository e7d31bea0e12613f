"""`[backward]`: which kernel computes the gradient, what its arguments are, and what cannot be a pair."""

from __future__ import annotations

import pytest

from pairs import NAMES, pair, pair_faults, write_pair
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.errors import SpecError
from pretuned.record.freshness import space_key
from pretuned.render import candidate, verification_key
from pretuned.spec import space
from pretuned.spec.backward import backward_of
from pretuned.spec.declarations import load_all
from pretuned.spec.loader import load_folder

KERNEL = f"kernel = {NAMES}"
DX = 'names = { dx = "grad_x" }'
ROWS = '  { name = "rows"'
RSTD = 'name = "rstd", role = "in", dtype = "float32", shape = ["rows..."]'
WEIGHT = 'name = "weight", role = "in", dtype = "T", shape = ["cols"]'
GRAD_WEIGHT = 'name = "grad_weight", role = "out", dtype = "T", shape = ["cols"]'
T = '"float32", "float16"]'
COLS = "cols = { sizes = [64] }"

# Edits of the forward kernel's spec and of the other, and the one message, without the file.
BAD = {
    "no such kernel": (
        [("norm_backward", "norm_backwrd")],
        [],
        "backward.kernel: there is no kernel 'norm_backwrd'; did you mean 'norm_backward'?",
    ),
    "itself": (
        [(KERNEL, 'kernel = "norm"')],
        [],
        (
            "backward.kernel: is this kernel itself, and its arguments are not gradients; name another, or say "
            "by `names` what its own arguments are then: names = { x = 'grad_y' }"
        ),
    ),
    "an output that is no gradient": (
        [(DX, "")],
        [],
        (
            "backward.kernel: 'dx' of norm_backward is not the gradient of an input of norm; say in `names` "
            "which it is: grad_x, grad_weight"
        ),
    ),
    "names of an argument that is not there": (
        [(DX, 'names = { dx = "grad_x", rstdd = "rstd" }')],
        [],
        "backward.names.rstdd: norm_backward has no array or number 'rstdd'; did you mean 'rstd'?",
    ),
    "names with an unknown word": (
        [(DX, 'names = { dx = "grad_z" }')],
        [],
        (
            "backward.names.dx: 'grad_z', which is 'dx' of norm_backward, is not the gradient of an input of "
            "norm; did you mean 'grad_x'?"
        ),
    ),
    "an input that is nothing": (
        [],
        [('"rstd"', '"mean"')],
        (
            "backward.kernel: 'mean' of norm_backward is neither an array of norm nor the gradient of an output; "
            "say in `names` which it is: x, weight, y, rstd, grad_y, grad_rstd"
        ),
    ),
    "an input that is nearly one": (
        [],
        [('"rstd"', '"rstdev"')],
        (
            "backward.kernel: 'rstdev' of norm_backward is neither an array of norm nor the gradient of an "
            "output; did you mean 'rstd'?"
        ),
    ),
    "a name with two meanings": (
        [('name = "weight"', 'name = "grad_y"')],
        [(WEIGHT, WEIGHT.replace("weight", "y")), ('"grad_weight"', '"grad_grad_y"')],
        "backward.kernel: 'grad_y' is an array of norm and the gradient of an output; rename the array",
    ),
    "the same gradient twice": (
        [],
        [('"grad_weight"', '"grad_x"'), ('["cols"], init', '["rows...", "cols"], init')],
        "backward.kernel: 'dx' and 'grad_x' of norm_backward are both the gradient of 'x'; leave one of them out",
    ),
    "an input that changes": (
        [('name = "x", role = "in"', 'name = "x", role = "inout"')],
        [],
        (
            "backward: 'x' is changed in place, and its gradient may need what it was; write an output of its "
            "own, or leave [backward] out"
        ),
    ),
    "what is passed changes": (
        [],
        [('name = "rstd", role = "in"', 'name = "rstd", role = "inout"')],
        (
            "backward.kernel: 'rstd' of norm_backward is changed in place, and what it is passed belongs to "
            "others; make it an output"
        ),
    ),
    "an input that may be left out": (
        [(WEIGHT, f"{WEIGHT}, optional = true")],
        [],
        (
            "backward.kernel: calls of norm may leave 'weight' out, and norm_backward demands it; write "
            "`optional = true` there"
        ),
    ),
    "no gradient comes in": (
        [],
        [('"grad_y"', '"y"')],
        "backward.kernel: norm_backward takes the gradient of no output of norm; give it an input 'grad_y'",
    ),
    "a number that calls do not have": (
        [],
        [(ROWS, f'  {{ name = "scale", dtype = "float32", value = 1 }},\n{ROWS}')],
        (
            "backward.kernel: 'scale' of norm_backward is not a number or keyword of norm; say in `names` which "
            "it is: eps, centred; or give it a `default`"
        ),
    ),
    "a number of another kind": (
        [],
        [(ROWS, f'  {{ name = "eps", dtype = "int32", value = 1 }},\n{ROWS}')],
        "backward.kernel: 'eps' of norm_backward is int32 there, and float32 here; give both one type",
    ),
    "a keyword that calls do not have": (
        [],
        [("T = {", "flag = { values = [0, 1] }\nT = {")],
        (
            "backward.kernel: 'flag' of norm_backward is not a number or keyword of norm; say in `names` which "
            "it is: eps, centred"
        ),
    ),
    "a keyword with other values": (
        [],
        [("T = {", "centred = { values = [false] }\nT = {")],
        (
            "backward.kernel: 'centred' of norm_backward may be false, and 'centred' here true too; give both "
            "the same values"
        ),
    ),
    "a type that is not taken": (
        [],
        [(T, '"float32"]')],
        (
            "backward.kernel: 'grad_y' of norm_backward is float32 where 'y' of norm is float16; give both "
            "kernels the same types"
        ),
    ),
    "a gradient of another type": (
        [],
        [(GRAD_WEIGHT, GRAD_WEIGHT.replace('"T"', '"float32"'))],
        (
            "backward.kernel: 'grad_weight' of norm_backward is float32 where 'weight' of norm is float16; give "
            "both kernels the same types"
        ),
    ),
    "integers": (
        [(WEIGHT, WEIGHT.replace('"T"', '"int32"'))],
        [(WEIGHT, WEIGHT.replace('"T"', '"int32"')), (GRAD_WEIGHT, GRAD_WEIGHT.replace('"T"', '"int32"'))],
        "backward: 'weight' is int32, and only floating types have gradients",
    ),
    "another rank": (
        [],
        [(RSTD, RSTD.replace('"rows..."', '"rows...", 1'))],
        (
            "backward.kernel: 'rstd' of norm_backward has the shape (rows..., 1), and 'rstd' of norm (rows...,); "
            "give both the same shape"
        ),
    ),
    "another shape": (
        [],
        [(GRAD_WEIGHT, GRAD_WEIGHT.replace('"cols"', '"cols + 1"'))],
        (
            "backward.kernel: 'grad_weight' of norm_backward has the shape (cols + 1,), and 'weight' of norm "
            "(cols,), as in (10081,) and (10080,); give both the same shape"
        ),
    ),
    "a constant size that is not taken": (
        [(COLS, "cols = { constant = true, values = [64, 128] }")],
        [(COLS, "cols = { constant = true, values = [64] }")],
        "backward.kernel: 'cols' of norm_backward may be 64, and 'cols' here 128 too; give both the same values",
    ),
    "dims that are two sizes": (
        [],
        [(WEIGHT, WEIGHT.replace('"cols"', '"rows"'))],
        (
            "backward.kernel: 'weight' of norm_backward has the shape (rows,), and 'weight' of norm (cols,), as "
            "in (15120,) and (10080,); give both the same shape"
        ),
    ),
    "leading dims of one only": (
        [],
        [('"rows..."', '"rows"')],
        (
            "backward.kernel: 'y' of norm has any number of leading dims, 'grad_y' of norm_backward not; write "
            '`"rows..."` there too'
        ),
    ),
    "a kernel's name alone": (
        [(f"[backward]\n{KERNEL}\n", ""), ("format = 1", 'format = 1\nbackward = "norm_backward"')],
        [],
        'backward: expected a table, found "norm_backward"',
    ),
    "no kernel": ([(KERNEL, "")], [], "backward.kernel: missing; write `kernel = ...`"),
    "names that are no table": ([(DX, 'names = "grad_x"')], [], 'backward.names: expected a table, found "grad_x"'),
    "a key of another tool": (
        [("[backward]", "[gradient]")],
        [],
        "gradient: unknown key 'gradient'; did you mean 'backward'?",
    ),
    "an empty name": (
        [(KERNEL, 'kernel = ""')],
        [],
        "backward.kernel: there is no kernel ''; known are norm_backward",
    ),
}


@pytest.mark.parametrize(("forward", "backward", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_a_pair_is_one_line(tmp_path, forward, backward, message):
    assert pair_faults(tmp_path, tuple(forward), tuple(backward)) == [f"norm.toml: {message}"]


def test_each_argument_of_the_gradients_kernel_is_something_of_the_other(tmp_path):
    specs = pair(tmp_path)
    found = backward_of(specs["norm"], specs["norm_backward"])
    assert found.kernel == "norm_backward"
    assert found.inputs == (
        ("grad_y", "gradient", 0),
        ("x", "input", 0),
        ("weight", "input", 1),
        ("rstd", "output", 1),
    )
    assert found.outputs == (("dx", 0), ("grad_weight", 1))
    assert found.passed == ()


def test_numbers_and_keywords_are_handed_on_by_their_names(tmp_path):
    eps = '  { name = "eps2", dtype = "float64", value = 1 },\n  { name = "more", dtype = "float32", default = 2.0 },\n'
    forward = ((DX, 'names = { dx = "grad_x", eps2 = "eps", shifted = "centred" }'),)
    backward = ((ROWS, eps + ROWS), ("T = {", "shifted = { values = [false, true] }\nT = {"))
    specs = pair(tmp_path, forward, backward)
    found = backward_of(specs["norm"], specs["norm_backward"])
    assert found.passed == (("eps2", "eps"), ("shifted", "centred"))


def test_two_kernels_may_call_their_dims_as_they_like(tmp_path):
    renamed = [("rows", "samples"), ("cols", "rows"), ("samples", "cols")]
    specs = pair(tmp_path, (), tuple(renamed))
    assert backward_of(specs["norm"], specs["norm_backward"]).outputs == (("dx", 0), ("grad_weight", 1))


TRANSPOSE = """\
format = 1
arguments = [
  { name = "y", role = "out", dtype = "float32", shape = ["n", "m"] },
  { name = "x", role = "in", dtype = "float32", shape = ["m", "n"] },
]
dims = { m = { sizes = [8] }, n = { sizes = [16] } }
template = '''
extern "C" __global__ void transpose(float* y, const float* x) {}
'''
launches = [{ function = "transpose", grid = ["m"], block = ["n"] }]

[backward]
kernel = "transpose"
names = { x = "grad_y", y = "grad_x" }
"""


def test_a_kernel_may_be_that_of_its_own_gradient(tmp_path):
    (tmp_path / "transpose.toml").write_text(TRANSPOSE)
    spec = load_folder(tmp_path)["transpose"]
    found = backward_of(spec, spec)
    assert (found.inputs, found.outputs) == ((("x", "gradient", 0),), (("y", 0),))


def test_two_kernels_may_be_each_others(tmp_path):
    for one, other in (("there", "back"), ("back", "there")):
        text = TRANSPOSE.replace('kernel = "transpose"', f'kernel = "{other}"')
        (tmp_path / f"{one}.toml").write_text(text)
    specs = load_folder(tmp_path)
    assert {spec.name: backward_of(spec, specs[spec.backward.kernel]).kernel for spec in specs.values()} == {
        "there": "back",
        "back": "there",
    }


def test_a_transpose_that_is_none_is_found_at_sizes_that_differ(tmp_path):
    (tmp_path / "transpose.toml").write_text(TRANSPOSE.replace('["n", "m"]', '["m", "n + 1"]'))
    with pytest.raises(SpecError) as raised:
        load_folder(tmp_path)
    assert str(raised.value).endswith(
        "transpose.toml: backward.names.y: 'y' of transpose has the shape (m, n + 1), and 'x' of transpose "
        "(m, n), as in (10080, 15122) and (10080, 15120); give both the same shape"
    )


SUM = """\
format = 1
arguments = [
  { name = "total", role = "out", dtype = "float32", shape = ["n"] },
  { name = "xs", role = "in", dtype = "float32", shape = ["n"], count = "several", most = 4 },
]
dims = { n = { sizes = [8] }, several = { sizes = [2] } }
template = '''
{{ List }}
extern "C" __global__ void sum(float* total, List<const float, 4> xs) {}
'''
launches = [{ function = "sum", grid = ["n"], block = [32] }]

[backward]
kernel = "sum"
names = { xs = "grad_total", total = "grad_xs" }
"""


def test_lists_have_no_gradients(tmp_path):
    (tmp_path / "sum.toml").write_text(SUM)
    with pytest.raises(SpecError) as raised:
        load_folder(tmp_path)
    assert str(raised.value).splitlines()[1:] == [
        "  sum.toml: backward: 'xs' is a list of arrays, and lists have no gradients; leave [backward] out"
    ]


def test_outputs_are_not_what_tells_sizes(tmp_path):
    wide = ((GRAD_WEIGHT, GRAD_WEIGHT.replace('"cols"', '"many"')), ("[dims]", "[dims]\nmany = { sizes = [8] }"))
    assert pair_faults(tmp_path, (), wide) == [
        (
            "norm.toml: backward.kernel: only the output 'grad_weight' of norm_backward gives 'many', and it is "
            "allocated here; give 'many' by an input or a keyword"
        )
    ]


def test_one_kernel_is_checked_without_the_other(tmp_path):
    write_pair(tmp_path, (("norm_backward", "gone"),))
    assert list(load_folder(tmp_path, only={"norm"})) == ["norm"]


def test_a_pair_says_nothing_that_makes_rows_stale(tmp_path):
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    paired = pair(tmp_path / "with")["norm"]
    alone = pair(tmp_path / "without", ((f"[backward]\n{KERNEL}\n", ""),))["norm"]
    assert (space_key(paired), verification_key(paired)) == (space_key(alone), verification_key(alone))
    for specialisation in space.specialisations(paired):
        default = space.default(paired)
        assert candidate(paired, specialisation, default).key == candidate(alone, specialisation, default).key


def test_the_package_says_which_kernel_computes_the_gradient(tmp_path):
    paired = files(plan(pair(tmp_path), [], {}, cubins=False), {})["__init__.py"].decode()
    assert "    Its gradient by x and weight is norm_backward's.\n" in paired
    assert (
        '    backward=Backward("norm_backward", (("grad_y", "gradient", 0), ("x", "input", 0), ("weight", "input", 1), '
        '("rstd", "output", 1)), (("dx", 0), ("grad_weight", 1)), ()),\n'
    ) in paired
    alone = files(plan(pair(tmp_path, ((f"[backward]\n{KERNEL}\n", ""),)), [], {}, cubins=False), {})["__init__.py"]
    assert b"ackward(" not in alone.replace(b"def norm_backward(", b"")
    assert b"Backward," not in alone


MODULE = """\
import pretuned

kernels = [pretuned.kernel(
    "transpose",
    arguments=[
        {"name": "y", "role": "out", "dtype": "float32", "shape": ["n", "m"]},
        {"name": "x", "role": "in", "dtype": "float32", "shape": ["m", "n"]},
    ],
    dims={"m": {"sizes": [8]}, "n": {"sizes": [16]}},
    launches=[{"function": "transpose", "grid": ["m"], "block": ["n"]}],
    template='''
extern "C" __global__ void transpose(float* y, const float* x) {}
''',
    backward={"kernel": "transpose", "names": {"x": "grad_y", "y": "grad_x"}},
)]
"""


def test_a_kernel_declared_in_python_has_it_too(tmp_path):
    module = tmp_path / "declared.py"
    module.write_text(MODULE)
    spec = load_all(tmp_path, module)["transpose"]
    assert backward_of(spec, spec).outputs == (("y", 0),)
    module.write_text(MODULE.replace('"kernel": "transpose"', '"kernel": "transpoes"'))
    with pytest.raises(SpecError) as raised:
        load_all(tmp_path, module)
    assert str(raised.value).splitlines()[1:] == [
        "  declared.py:3 (transpose): backward.kernel: there is no kernel 'transpoes'; none is known"
    ]
