"""References that the machine computes with arrays of a library: where they count, and where NumPy's do instead."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from computed_references import Answers, at, spec_with
from lent_arrays import Lending
from pretuned.compile import host
from pretuned.compile.host import CPP
from pretuned.compile.pool import compile_all
from pretuned.measure import data
from pretuned.measure.bench import Bench
from pretuned.measure.launch import arrays
from pretuned.measure.machine import Poisoned
from pretuned.measure.references import SMALL, small_problem
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.render import source_of
from pretuned.runtime.types import DTYPES
from pretuned.spec import space
from pretuned.spec.loader import load
from specs import SCALE, SCALE_TEMPLATE, edited, write

INTEGER = edited(
    SCALE,
    (
        'dtype = "T", shape = ["n"], align = "vec * sizeof(T)" },\n  { name = "x"',
        'dtype = "int8", shape = ["n"] },\n  { name = "x"',
    ),
)
MARKED = 1 + 1e-9  # far within an eighth of the tolerance, and not what NumPy's reference returns


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "float64", "int32"])
def test_a_large_problem_is_computed_by_the_machine_in_wide_types(tmp_path, dtype):
    text = "def on_gpu(x, a, n, xp):\n    assert (x.dtype, x.shape) == (WIDE, (n,))\n    return xp.multiply(x, a)\n"
    types = ('["float32", "float16"]', f'["{dtype}"]')
    spec = spec_with(tmp_path, text.replace("WIDE", repr(DTYPES[dtype].wide)), types)
    answers = Answers(spec, Lending())
    found = answers(at(100_000, dtype))
    assert answers.references.notes == []
    assert found.dtype == answers.right.dtype
    np.testing.assert_array_equal(found, answers.right)
    assert answers.machine.arrays.released == 1


def test_numpy_computes_small_problems_and_where_it_is_told_to(tmp_path):
    spec = spec_with(tmp_path, f"def on_gpu(x, a, **_):\n    return a * x * {MARKED}\n")
    answers = Answers(spec, Lending())
    assert answers(at(SMALL // 2)) is None
    assert answers(at(SMALL), by_numpy=True) is None
    np.testing.assert_array_equal(answers(at(SMALL)), answers.right * MARKED)
    answers.machine.arrays = None  # as the host device's
    assert answers(at(SMALL)) is None
    assert answers.references.notes == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "return a * x * (1 + 1e-3)",
            " of 8,191 elements of 'y' are not those of `reference` by up to ",
        ),
        ("return x[::-1] * a", "elements of 'y' are not those of `reference` by up to "),
        ("return a * x / nothing", "reference.py:7: on_gpu raised NameError: name 'nothing' is not defined"),
        ("return np.ones(len(x)) * x", "reference.py:7: on_gpu raised TypeError: Unsupported type"),
        ("return np.ones(len(x))", "elements of 'y' are not those of `reference` by up to "),
        ("return x[:3]", "reference.py:6: on_gpu returns shape (3,) for 'y'; expected ("),
        ("return None", "reference.py:6: on_gpu returns None for 'y'; return the array"),
        ("return {'z': x}", "reference.py:6: on_gpu returns nothing for 'y'; return a dict of arrays with y"),
    ],
)
def test_what_raises_or_differs_at_a_small_problem_leaves_all_to_numpy_with_one_note(tmp_path, body, said):
    spec = spec_with(tmp_path, f"def on_gpu(x, a, **_):\n    {body}\n")
    answers = Answers(spec, Lending())
    for problem in (at(100_000), at(200_000), at(100_000, "float16")):
        assert answers(problem) is None
    assert said in answers.note
    assert answers.note.endswith(" at n=8191, T=float32")


def test_each_specialisation_has_to_agree(tmp_path):
    spec = spec_with(tmp_path, "def on_gpu(x, a, T, **_):\n    return a * x if T == 'float32' else -x\n")
    answers = Answers(spec, Lending())
    assert answers(at(100_000, "float16")) is None
    np.testing.assert_array_equal(answers(at(100_000)), answers.right)


def test_a_problem_for_which_memory_is_short_is_numpys_and_others_are_not(tmp_path):
    answers = Answers(spec_with(tmp_path, "def on_gpu(x, a, **_):\n    return a * x\n"), Lending(room=100_000))
    assert answers(at(200_000)) is None
    assert answers.note == "out of memory allocating much at n=200000, T=float32"
    assert answers(at(100_000)) is not None


def test_integers_that_the_output_does_not_hold_are_refused(tmp_path):
    spec = spec_with(
        tmp_path,
        "def on_gpu(x, n, xp, **_):\n    return xp.full(n, 300 if n > 20_000 else 1)\n",
        toml=INTEGER,
        reference="import numpy as np\n\n\ndef scale(n, **_):\n    return np.ones(n)\n\n",
    )
    answers = Answers(spec, Lending())
    assert answers(at(50_000)) is None
    assert "returns 300 for 'y' at [0], which int8 does not hold" in answers.note


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        ([], "def scale(x, a, xp):\n    assert xp.__name__ == 'numpy'\n    return xp.multiply(x, a)\n"),
        ([('name = "a"', 'name = "xp"'), ('"a"]', '"xp"]')], "def scale(x, xp):\n    return xp * x\n"),
    ],
    ids=["numpy", "a name of the spec's own goes before it"],
)
def test_xp_of_the_reference(tmp_path, edits, text):
    file = write(tmp_path, edited(SCALE, *(edit for edit in edits if edit[0] in SCALE)))
    (tmp_path / "reference.py").write_text(text, encoding="utf-8")
    spec = load(file)
    stored = data.inputs(spec, at(10), 0)
    np.testing.assert_array_equal(data.reference(spec, at(10), stored)["y"], 2 * stored["x"].full.astype(np.float64))


@pytest.mark.parametrize(
    ("requires", "size", "found"),
    [
        ("n >= 1", 10**8, 8191),
        ("n % 256 == 0", 10**8, 8192),
        ("n >= 1", 9000, 8191),
        ("n <= 2000", 2000, 2000),
        ("n >= 50000", 10**6, 65536),
    ],
)
def test_the_small_problem_is_the_largest_that_is_small_and_admitted(tmp_path, requires, size, found):
    spec = load(write(tmp_path, edited(SCALE, ("[constraints]\n", f'[constraints]\nrequires = ["{requires}"]\n'))))
    assert dict(small_problem(spec, at(size)).dims) == {"n": found}
    assert sum(one.size for one in arrays(spec, small_problem(spec, at(8191)))) <= max(SMALL, 2 * 65536)


@pytest.mark.skipif(host.compiler() is None, reason="no C++ compiler here")
def test_candidates_are_judged_by_what_the_machine_computed_and_it_is_watched(tmp_path):
    spec = spec_with(tmp_path, "def on_gpu(x, a, n, xp):\n    return xp.multiply(x, a)\n")
    (tmp_path / "scale.cu.jinja").write_text(SCALE_TEMPLATE, encoding="utf-8")
    entries = {}
    for name, template in (("right", SCALE_TEMPLATE), ("wrong", SCALE_TEMPLATE.replace("a *", "1.01f * a *"))):
        (tmp_path / "scale.cu.jinja").write_text(template, encoding="utf-8")
        source = source_of(spec, at(65536).specialisation, space.default(spec))
        binary = compile_all([source], host.HOST, workers=1, toolchain=CPP)[source.key]
        entries[name] = CompiledCandidate.of(space.default(spec), binary)
    bench = Bench(Lending())
    request = PrepareRequest(spec=spec, problem=at(65536), default=entries["right"])
    bench.prepare(request)
    assert bench.stage.references["y"].dtype == "float64"
    assert bench.machine.arrays.released == 1
    assert bench.verify(entries["right"]).failure is None
    assert "of 65,536 elements are off by up to" in bench.verify(entries["wrong"]).failure.message
    ctypes.memset(bench.stage.references["y"].memory.address + 40, 0x3F, 1)
    with pytest.raises(Poisoned, match="what results are judged by"):
        bench.verify(entries["right"])
    bench.prepare(request)
    assert bench.verify(entries["right"]).failure is None
    assert bench.machine.arrays.released == 2
