"""The functions that [verify] names: what they are passed, and what is said of one that fails."""

from __future__ import annotations

import numpy as np
import pytest

from pretuned.measure import data
from pretuned.measure.data import FunctionError
from pretuned.measure.verdict import Judgement, verdict
from pretuned.spec.loader import load
from pretuned.spec.space import Problem
from specs import SCALE, edited, faults, loaded, write

PROBLEM = Problem(specialisation=(("T", "float16"),), dims=(("n", 1000),))
INTEGER = edited(
    SCALE,
    (
        'dtype = "T", shape = ["n"], align = "vec * sizeof(T)" },\n  { name = "x"',
        'dtype = "int8", shape = ["n"] },\n  { name = "x"',
    ),
)
SEVERAL = edited(SCALE, ('name = "x", role = "in"', 'name = "x", role = "inout"'))
INDICES = edited(
    SCALE, ('  { name = "a"', '  { name = "i", role = "in", dtype = "int32", shape = ["n"] },\n  { name = "a"')
)
HEAD = "reference.py:3: scale "


@pytest.mark.parametrize(
    ("dtype", "returned", "remarked"),
    [
        *[("float16", "np.float16", True), ("float16", "np.float32", False), ("float32", "np.float32", True)],
        *[("float32", "np.float64", False), ("float32", "np.int64", False), ("float32", "np.float16", True)],
        *[("float64", "np.float64", False), ("int32", "np.int32", False), ("bfloat16", "np.float16", False)],
    ],
)
def test_a_reference_that_has_the_kernels_own_rounding_is_remarked(tmp_path, dtype, returned, remarked):
    spec = load(write(tmp_path, edited(SCALE, ('["float32", "float16"]', f'["{dtype}"]'))))
    (tmp_path / "reference.py").write_text(
        f"import numpy as np\n\ndef scale(x, **_):\n    return x.astype({returned})\n"
    )
    problem = Problem(specialisation=(("T", dtype),), dims=(("n", 1000),))
    remarks = []
    data.reference(spec, problem, data.inputs(spec, problem, 0), remarks.append)
    said = f"{HEAD}returns {returned[3:]} for 'y', which is {dtype}: it is rounded as the kernel's results are"
    assert [remark.startswith(said) for remark in remarks] == [True] * remarked


@pytest.mark.parametrize(
    ("returned", "remarked"),
    [
        ("x * np.nan", True),
        ("np.where(x < 0, np.inf, np.nan)", True),
        ("np.where(np.arange(len(x)) < len(x) - 1, np.nan, 1.0)", False),
        ("x * 0", False),
        ("x", False),
    ],
)
def test_a_reference_without_a_finite_number_is_remarked(tmp_path, returned, remarked):
    spec = load(write(tmp_path, SCALE))
    (tmp_path / "reference.py").write_text(f"import numpy as np\n\ndef scale(x, **_):\n    return {returned}\n")
    problem = Problem(specialisation=(("T", "float32"),), dims=(("n", 3000),))
    remarks = []
    data.reference(spec, problem, data.inputs(spec, problem, 0), remarks.append)
    said = f"{HEAD}returns no finite number for 'y', so that whatever is NaN or infinite is right; mend it, or give "
    assert [remark.startswith(said) for remark in remarks] == [True] * remarked


def said(folder, text, *, toml=SCALE):
    """Return what is said of a reference; two lines stand before it."""
    spec = load(write(folder, toml))
    (folder / "reference.py").write_text(f"import numpy as np\n\n{text}", encoding="utf-8")
    with pytest.raises(FunctionError) as caught:
        data.reference(spec, PROBLEM, data.inputs(spec, PROBLEM, 0))
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "def scale(x, a, **_):\n    y = a * x\n    return y / nothing\n",
            (
                "reference.py:5: scale raised NameError: name 'nothing' is not defined, in `return y / nothing`; "
                "called with x = float64 (1000,), a = 2.0"
            ),
        ),
        (
            "def scale(x, n):\n    return deeper(x)\n\ndef deeper(x):\n    return np.matmul(x, x[1:])\n",
            "reference.py:7: scale raised ValueError: matmul: Input operand 1 has a mismatch in its core dimension 0",
        ),
        (
            "import sys\n\ndef scale(x, **_):\n    sys.exit(3)\n",
            "reference.py:6: scale raised SystemExit: 3, in `sys.exit(3)`; called with x = float64 (1000,)",
        ),
        ("raise SystemExit(3)\n\ndef scale(x):\n    return x\n", "reference.py:3 cannot be imported: SystemExit: 3"),
        ("def scale(x, **_):\n    x * 2\n", f"{HEAD}returns None for 'y'; return the array"),
        ("def scale(x, **_):\n    return {'y': None}\n", f"{HEAD}returns None for 'y'; return the array"),
        ("def scale(x, **_):\n    return x[:10]\n", f"{HEAD}returns shape (10,) for 'y'; expected (1000,)"),
        ("def scale(x, **_):\n    return x + 0j\n", f"{HEAD}returns complex128 for 'y', which is float16"),
        ("def scale(x, **_):\n    return [x, 1]\n", f"{HEAD}returns for 'y' what NumPy takes for no array: "),
        (
            "def scale(x, **_):\n    return {'z': x}\n",
            f"{HEAD}returns nothing for 'y'; return a dict of arrays with y",
        ),
        ("def scale(x, alpha):\n    return x\n", f"{HEAD}takes 'alpha', which is not passed; it may take x, a, n, T"),
        ("def scale(x, /):\n    return x\n", f"{HEAD}takes 'x' by position; remove the '/'"),
        ("scale = 3\n", "reference.py: 'scale' is not a function"),
        (
            "import no_such_module\n\ndef scale(x):\n    return x\n",
            "reference.py:3 cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
        ),
    ],
)
def test_a_reference_that_fails_is_named_with_its_line_and_what_it_was_passed(tmp_path, text, message):
    assert said(tmp_path, text).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("return (1, 2)", f"{HEAD}returns (1, 2); return a dict of arrays with y, x"),
        ("return x", f"{HEAD}returns an array; return a dict of arrays with y, x"),
        ("return x, 1", f"{HEAD}returns a tuple of arrays; return a dict of arrays with y, x"),
        ("pass", f"{HEAD}returns None; return a dict of arrays with y, x"),
        ("return {'y': x}", f"{HEAD}returns nothing for 'x'; return a dict of arrays with y, x"),
    ],
)
def test_a_reference_of_several_outputs_returns_a_dict(tmp_path, text, message):
    assert said(tmp_path, f"def scale(x):\n    {text}\n", toml=SEVERAL) == message


@pytest.mark.parametrize(
    ("value", "shown"),
    [("300.0", "300.0"), ("1.5", "1.5"), ("np.nan", "nan"), ("-129", "-129"), ("np.int64(1) << 40", str(1 << 40))],
)
def test_a_reference_of_integers_returns_what_their_type_holds(tmp_path, value, shown):
    text = f"def scale(x):\n    y = np.zeros(x.shape, np.asarray({value}).dtype)\n    y[7] = {value}\n    return y\n"
    assert said(tmp_path, text, toml=INTEGER) == (
        f"{HEAD}returns {shown} for 'y' at [7], which int8 does not hold; round it, clip it, or let it wrap around "
        "with .astype, as the kernel does"
    )


def test_floats_that_are_integers_are_a_reference_of_integers(tmp_path):
    spec = load(write(tmp_path, INTEGER))
    (tmp_path / "reference.py").write_text("import numpy as np\n\ndef scale(x):\n    return np.rint(x)\n")
    stored = data.inputs(spec, PROBLEM, 0)
    found = data.reference(spec, PROBLEM, stored)["y"]
    assert found.dtype == np.int8
    assert np.array_equal(found, np.rint(stored["x"].full.astype(float)))


def test_a_function_is_passed_what_it_names_and_with_two_stars_all(tmp_path):
    spec = loaded(tmp_path)
    (tmp_path / "reference.py").write_text(
        "def scale(x, *, n, own=5, **all):\n    assert (n, own, set(all)) == (1000, 5, {'a', 'T'})\n    return x\n"
    )
    assert data.reference(spec, PROBLEM, data.inputs(spec, PROBLEM, 0))["y"].shape == (1000,)
    (tmp_path / "other").mkdir()
    spec = loaded(tmp_path / "other")
    (tmp_path / "other" / "reference.py").write_text("def scale(x):\n    return x\n")
    assert data.reference(spec, PROBLEM, data.inputs(spec, PROBLEM, 0))["y"].shape == (1000,)


def test_an_index_that_is_out_of_range_is_answered_by_how_to_draw_indices(tmp_path):
    message = said(tmp_path, "def scale(x, i):\n    return x[i + 2000]\n", toml=INDICES)
    assert message.startswith("reference.py:4: scale raised IndexError: index ")
    assert 'fill = { from = 0, to = "n - 1" }' in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def make(rng, n):\n    return {}\n", "takes 'rng', which is not passed; it may take generator, n, T"),
        ("def make(generator):\n    pass\n", "returns None; return a dict of arrays with x"),
        ("def make(generator):\n    return [1]\n", "returns [1]; return a dict of arrays with x"),
        ("def make(n):\n    return {'y': 1}\n", "returns 'y', and the inputs are x"),
        ("def make(n):\n    return {'x': [1.0] * (n + 1)}\n", "returns shape (1001,) for 'x'; expected (1000,)"),
        (
            "def make(generator):\n    return {'x': generator.integer(9)}\n",
            (
                "raised AttributeError: 'numpy.random._generator.Generator' object has no attribute 'integer', in "
                "`return {'x': generator.integer(9)}`; called with generator = Generator"
            ),
        ),
    ],
)
def test_inputs_that_fail(tmp_path, text, message):
    (tmp_path / "own.py").write_text("def make(): ...\n")
    spec = loaded(tmp_path, ("[verify]\n", '[verify]\ninputs = "own.py:make"\n'))
    (tmp_path / "own.py").write_text(text)
    with pytest.raises(FunctionError) as caught:
        data.inputs(spec, PROBLEM, 0)
    assert str(caught.value).partition("make ")[2] == message
    assert str(caught.value).startswith(f"own.py:{2 if 'raised' in message else 1}: make ")


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (None, None),
        (True, None),
        (np.True_, None),
        ("", None),
        (Judgement(""), None),
        (Judgement("y is off"), "y is off"),
        ("3 rows differ", "3 rows differ"),
        (False, "the spec's own comparison refuses it"),
        (np.False_, "the spec's own comparison refuses it"),
    ],
)
def test_verdicts_of_the_specs_own_comparison(answer, wanted):
    assert verdict("reference.py:1: judge", answer) == wanted


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.ones(3, bool), "returns an array of shape (3,); return bool(....all()) or a message"),
        (0, "returns 0; return True, False, None or a message"),  # a count of what is wrong, or of what is right
        ({}, "returns {}; return True, False, None or a message"),
    ],
)
def test_what_is_no_verdict_is_refused(answer, message):
    with pytest.raises(FunctionError) as caught:
        verdict("reference.py:1: judge", answer)
    assert str(caught.value) == f"reference.py:1: judge {message}"


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("reference", "def f(x, alpha, **_): ...", "takes 'alpha', which is not passed; it may take x, a, n, T, xp"),
        ("reference", "def f(x, scal, *, a=1): ...", "takes 'scal', which is not passed; it may take x, a, n, T, xp"),
        ("inputs", "def f(generatr, n): ...", "takes 'generatr', which is not passed; did you mean 'generator'?"),
        ("compare", "def f(out, reference): ...", "takes 'reference', which is not passed; did you mean 'references'?"),
        ("reference", "async def f(x): return x", "is `async`; write `def f`"),
        ("inputs", "def f(n):\n    for i in range(n):\n        yield i", "yields; return the result instead"),
    ],
)
def test_check_finds_what_a_call_would_fail_at_before_anything_runs(tmp_path, key, text, message):
    given = {"reference": "reference.py:scale", key: "own.py:f"}
    (tmp_path / "own.py").write_text(f"{text}\n")
    lines = "".join(f'{name} = "{target}"\n' for name, target in given.items())
    assert faults(tmp_path, ('reference = "reference.py:scale"\n', lines)) == [
        f"scale.toml: verify.{key}: own.py:1: f {message}"
    ]


def test_a_function_may_have_one_that_yields(tmp_path):
    (tmp_path / "own.py").write_text("def f(x):\n    def each():\n        yield x\n    return next(each())\n")
    assert faults(tmp_path, ("reference.py:scale", "own.py:f")) == []


def test_check_leaves_what_a_decorator_makes_to_the_call(tmp_path):
    (tmp_path / "own.py").write_text("import functools\n\n@functools.cache\ndef f(alpha): ...\n")
    assert faults(tmp_path, ("reference.py:scale", "own.py:f")) == []
