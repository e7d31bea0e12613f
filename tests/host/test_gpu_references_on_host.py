"""Tunings whose references the machine computes: a host device that has a library of arrays, as GPUs have CuPy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from computed_references import at, spec_with
from host_tuning import ROWS_ALONE
from pretuned.backends import host as backend
from pretuned.compile import host
from pretuned.config.settings import Place
from pretuned.tune.events import ByNumpy, Failed
from pretuned.tune.request import TuningRequest, find_device
from pretuned.tune.session import tune
from specs import SCALE_TEMPLATE

pytestmark = pytest.mark.skipif(host.compiler() is None, reason="no C++ compiler here")
NAME_ERROR = "reference.py:7: on_gpu raised NameError: name 'nothing' is not defined, in `return x * nothing`"
DEFAULT_DIFFERS = "the default differs from what it returns, and not from what `reference` does"


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("x * a * (1 + 1e-9)", None),
        ("x * nothing", NAME_ERROR),
        ("x * (a if n < 10_000 else a + 1)", DEFAULT_DIFFERS),
        ("x * a if n < 10_000 else __import__('os')._exit(3)", "exit status 3"),
    ],
    ids=["right", "raises", "wrong at large sizes", "ends the process"],
)
def test_rows_are_settled_whatever_becomes_of_it(tmp_path, monkeypatch, returned, said):
    monkeypatch.setattr(backend, "TARGET", "lent_arrays:serve")
    spec = spec_with(tmp_path, f"def on_gpu(x, a, n, xp):\n    return {returned}\n")
    wrong = SCALE_TEMPLATE.replace("(a *", "({{ '1.5f *' if block == 128 else '' }} a *")
    (tmp_path / "scale.cu.jinja").write_text(f"#include <cuda_fp16.h>\n{wrong}", encoding="utf-8")
    events = []
    device = replace(find_device(Place(backend="host"), {}), effort=ROWS_ALONE)
    tuned = tune([TuningRequest(spec=spec, problems=(at(65536),))], device, cache_folder=None, listen=events.append)
    (row,) = tuned.rows
    assert {dict(choice.configuration.values)["block"] for choice in row.choices} == {256}
    assert {dict(event.configuration.values)["block"] for event in events if isinstance(event, Failed)} == {128}
    noted = [event.reason for event in events if isinstance(event, ByNumpy)]
    assert [reason.startswith(said) for reason in noted] == ([True] if said else [])
