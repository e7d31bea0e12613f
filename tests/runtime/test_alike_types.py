"""`alike = "size"`: types of one size share what is compiled and tuned, and a call gets the type that it brings."""

from pathlib import Path

import pytest

import fake_cuda
import sample
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.record.usage import Answers, Called
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from specs import faults

KERNELS = Path(__file__).parents[1] / "data" / "alike"
ALIKE = ('["float32", "float16"] }', '["float32", "float16"], alike = "size" }')


@pytest.fixture(scope="module")
def spec():
    return load_folder(KERNELS)["move"]


@pytest.fixture
def tuned(spec, cupy, load, monkeypatch, tmp_path):
    rows = [
        sample.row(
            "move", sample.H100, {"T": dtype}, {"n": 1000}, sample.choice(1.0, block=64), sample.choice(2.0, block=32)
        )
        for dtype in ("uint16", "float32")
    ]
    made = plan({"move": spec}, rows, {sample.H100.name: sample.H100})
    sample.write({"__init__.py": b""}, tmp_path / "pkg")
    sample.write(files(made, sample.binaries(made), version="0.0.0"), tmp_path / "pkg" / "tuned")
    monkeypatch.setitem(fake_cuda.SIGNATURES, "move", "QQq")
    monkeypatch.setenv("PRETUNED_WARN", "1")
    return load(tmp_path)


def test_the_first_of_each_size_is_tuned_for_all(spec):
    assert [dict(one) for one in space.specialisations(spec)] == [{"T": "float32"}, {"T": "uint16"}]


@pytest.mark.parametrize("dtype", ["uint16", "float16", "int32", "float32"])
def test_a_call_runs_the_row_of_its_size_and_gets_its_own_type(tuned, cupy, cuda, recwarn, dtype):
    for _ in range(6):  # from the fifth on by the fast path
        y = tuned.move(cupy.ndarray((1000,), dtype))
        assert (str(y.dtype), cuda.launches[-1].block) == (dtype, (64, 1, 1))
    found = tuned.explain("move", n=1000, T=dtype)
    assert (found.configuration, found.problem["T"]) == ({"block": 64}, dtype)
    assert not recwarn.list


def test_arrays_of_one_call_still_have_one_type(tuned, cupy):
    with pytest.raises(tuned.PretunedError, match="y: expected dtype uint16"):
        tuned.move(cupy.ndarray((8,), "uint16"), y=cupy.ndarray((8,), "float16"))
    with pytest.raises(tuned.PretunedError, match="float64"):
        tuned.move(cupy.ndarray((8,), "float64"))


def test_calls_count_for_what_was_tuned(spec):
    called = Called(
        package="pkg", kernel="move", specialisation={"T": "bfloat16"}, dims={"n": 1000}, calls=3, lines=[1]
    )
    assert Answers(spec).exact(called) == next(
        one for one in space.all_problems(spec) if dict(one.specialisation)["T"] == "uint16"
    )


def test_nothing_may_depend_on_which_of_them_it_is(tmp_path):
    scalar = ('name = "a", dtype = "float32"', 'name = "a", dtype = "T"')
    assert any("arguments[2].dtype: the types of 'T' are alike" in one for one in faults(tmp_path, ALIKE, scalar))
    where = ('"n % vec == 0"', "\"T != 'float16'\"")
    assert any("none can be told from another; compare sizeof(T)" in one for one in faults(tmp_path, ALIKE, where))
    follows = ("[space]", 'U = { from = "T", float32 = "float32", float16 = "float32" }\n\n[space]')
    assert any("specialisations.U.from: the types of 'T' are alike" in one for one in faults(tmp_path, ALIKE, follows))
    keyword = ("[space]", 'causal = { values = [false, true], alike = "size" }\n\n[space]')
    assert any("specialisations.causal.alike: only types are alike" in one for one in faults(tmp_path, keyword))
