"""Parameters and keywords that are texts or floats: in calls, overrides, `explain`, locks and the table."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

import fake_cuda
import sample
from pretuned.api.baking import parse_extra
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.record.entries import row_from_json, row_to_json
from pretuned.record.rows import Choice
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from pretuned.spec.space import Configuration, pairs

KERNELS = Path(__file__).parents[1] / "data" / "shapes"
DEFAULT = {"load": "x[{}]", "share": 1.0, "walk": "row"}
WINNER = {"load": "__ldg(x + {})", "share": 0.5, "walk": "column"}
HND = {"T": "float32", "mode": "HND"}


def rows():
    """A row with a winner whose parameters are texts and a float."""

    def choice(values, time_us):
        configuration = Configuration(implementation="main", values=pairs(values))
        return Choice(configuration=configuration, candidate="", cubin="", time_us=time_us, ratio=(0.5, 0.6))

    made = sample.row("arranged", sample.H100, HND, {"n": 65, "d": 33}, choice(WINNER, 2.0), choice(DEFAULT, 4.0))
    return [row_from_json(json.loads(json.dumps(row_to_json(made))))]  # as a lock holds it


@pytest.fixture(scope="module")
def baked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    specs = load_folder(KERNELS, {"arranged"})
    extra = [parse_extra("arranged:walk=row,share=0.5,load=__ldg(x + {})", specs)]
    made = plan(specs, rows(), {sample.H100.name: sample.H100}, extra=extra)
    sample.write({"__init__.py": b""}, folder / "pkg")
    sample.write(files(made, sample.binaries(made), version="0.0.0"), folder / "pkg" / "tuned")
    return folder


@pytest.fixture
def tuned(baked, cupy, load, monkeypatch):
    monkeypatch.setitem(fake_cuda.SIGNATURES, "arranged", "QQii")
    monkeypatch.setenv("PRETUNED_WARN", "0")
    return lambda: load(baked)


def called(cuda):
    launch = cuda.launches[-1]
    return launch.grid[0], launch.block[0], launch.shared_bytes


def test_a_row_keeps_values_and_their_kinds():
    (row,) = rows()

    assert dict(row.choices[0].configuration.values) == WINNER
    assert [type(value) for _, value in row.choices[0].configuration.values] == [str, float, str]
    assert row_to_json(row)["choices"][0]["configuration"] == WINNER


def test_the_rows_choice_runs_and_the_default_elsewhere(tuned, cupy, cuda):
    module = tuned()
    for _ in range(3):
        assert module.arranged(cupy.ndarray((65, 33), "float32"), mode="HND").shape == (33, 65)
        assert called(cuda) == (2, 32, 16)
        assert module.arranged(cupy.ndarray((65, 33), "float32"), mode="NHD").shape == (65, 33)
        assert called(cuda) == (2, 64, 0)
    module.arranged(cupy.ndarray((65, 34), "float32"), mode="HND")  # the choice asks for d % 3 == 0
    assert called(cuda) == (2, 64, 0)


def test_a_wrong_text_is_refused_with_those_that_exist(tuned, cupy):
    module = tuned()
    with pytest.raises(ValueError, match="expected one of") as caught:
        module.arranged(cupy.ndarray((65, 33), "float32"), mode="NDH")
    assert str(caught.value) == "pkg.tuned.arranged: mode: expected one of 'HND', 'NHD', found 'NDH'"


@pytest.mark.parametrize(
    "wanted", ["walk=row,share=0.5,load=__ldg(x + {})", "share=0.5, load=__ldg(x + {}) , walk=row", "share=5e-1"]
)
def test_the_environment_names_texts_and_floats(tuned, cupy, cuda, monkeypatch, wanted):
    whole = wanted if "walk" in wanted else f"{wanted},walk=row,load=__ldg(x + {{}})"
    monkeypatch.setenv("PRETUNED_CONFIG", f"pkg.tuned.arranged:{whole}")
    tuned().arranged(cupy.ndarray((65, 33), "float32"), mode="HND")
    assert called(cuda) == (2, 64, 16)


def test_an_override_that_does_not_ship_is_named(tuned, cupy, monkeypatch):
    monkeypatch.setenv("PRETUNED_CONFIG", "arranged:walk=rwo,share=1.0,load=x[{}]")
    with pytest.raises(ValueError, match="does not ship") as caught:
        tuned().arranged(cupy.ndarray((65, 33), "float32"), mode="HND")
    assert "load=x[{}], share=1.0, walk=rwo" in str(caught.value)


def test_using_takes_them_as_they_are(tuned, cupy, cuda):
    module = tuned()
    with module.using(arranged={"walk": "row", "share": 0.5, "load": "__ldg(x + {})"}):
        module.arranged(cupy.ndarray((65, 33), "float32"), mode="HND")
    assert called(cuda) == (2, 64, 16)


def test_explain_shows_them(tuned):
    said = str(tuned().explain("arranged", n=65, d=33, mode="HND", T="float32"))
    assert "arranged(T=float32, d=33, mode=HND, n=65)" in said
    assert "runs    load=__ldg(x + {}), share=0.5, walk=column" in said


def test_a_keyword_of_texts_is_typed_as_such(baked, tuned):
    module = tuned()
    text = (baked / "pkg" / "tuned" / "__init__.py").read_text()
    assert inspect.signature(module.arranged).parameters["mode"].annotation == "Literal['HND', 'NHD']"
    assert "    from typing import Literal\n" in text
    assert "mode: 'HND' or 'NHD'." in module.arranged.__doc__


def test_templates_have_them_as_they_are():
    (row,) = rows()
    (spec,) = load_folder(KERNELS, {"arranged"}).values()

    values = space.rendered(spec, row.specialisation, row.choices[0].configuration)

    assert values == {"T": "float", "mode": "HND", "threads": 32, **WINNER}
