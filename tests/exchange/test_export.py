"""`pretuned export`: a tuning as a T4 file that others read."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from builders import H100
from pretuned.exchange import t4
from pretuned.outcome import CompileError, Timed, TimedOut
from pretuned.record.cache import Cache
from pretuned.render import candidate
from pretuned.spec import space
from pretuned.tune.results import KnownResults, context_of
from project_home import Home

SCHEMA = json.loads((Path(__file__).parents[1] / "data" / "benchmark_hub" / "T4.schema.json").read_text())


@pytest.fixture
def home(tmp_path, monkeypatch, capsys):
    home = Home(tmp_path, monkeypatch, capsys)
    home.write(home.rows())
    return home


def exported(home, *options):
    status, out, err = home.run("export", "-o", "out_T4.json", *options)
    assert (status, err) == (0, "")
    data = json.loads((home.root / "out_T4.json").read_text())
    jsonschema.validate(data, SCHEMA)
    return out, data["results"]


def keep(home, row, outcomes):
    """Put `outcomes` of a row's problem into the user cache, as a tuning does."""
    context = context_of(home.spec, row.device, H100, row.driver, row.compiler, row.verification)
    legal = list(space.configurations(home.spec, row.problem))
    with Cache(home.root / "cache") as cache:
        known = KnownResults(
            cache,
            lambda: context,
            lambda wanted: candidate(home.spec, row.specialisation, wanted),
            (row.kernel, row.device),
        )
        for configuration, outcome in zip(legal, outcomes, strict=False):
            known.keep(configuration, row.problem, outcome)
    return legal


def test_the_rows_of_a_lock_are_exported_where_nothing_else_is_known(home):
    rows = home.rows()

    out, results = exported(home)

    choices = [(row, choice) for row in rows for choice in row.choices]
    assert (
        out
        == f"out_T4.json: {len(choices)} results of scale at {len(rows)} problems, {len(choices)} of them with a time\n"
    )
    first, choice = choices[0]
    assert results[0]["configuration"] == {
        **dict(first.problem.dims),
        **dict(first.specialisation),
        **dict(choice.configuration.values),
    }
    assert results[0]["measurements"] == [{"name": "time", "value": choice.time_us / 1e3, "unit": "ms"}]


def test_what_a_tuning_tried_is_exported_from_the_cache(home):
    row = home.rows()[0]
    home.write([row])
    outcomes = [
        Timed(time_us=12.5, spread=0.01, samples=7),
        CompileError(line="no"),
        TimedOut(limit_s=1.0),
    ]
    legal = keep(home, row, outcomes)

    _, results = exported(home)

    found = {tuple(sorted(entry["configuration"].items())): entry for entry in results}
    kinds = [
        found[tuple(sorted({**dict(row.problem.dims), **dict(row.specialisation), **dict(one.values)}.items()))]
        for one in legal[:3]
    ]
    assert [entry["invalidity"] for entry in kinds] == ["correct", "compile", "timeout"]
    assert kinds[0]["measurements"][0]["value"] == 0.0125
    assert t4.read(home.root / "out_T4.json").times_us.count(12.5) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--kernel", "scales"], "the lock has no kernel 'scales'; did you mean 'scale'?"),
        (["--device", "L4"], "scale has no device 'L4'"),
        (["absent.json"], "there is no lock 'absent.json'"),
    ],
)
def test_what_is_not_there_is_named(home, options, said):
    status, _, err = home.run("export", "-o", "out.json", *options)

    assert status == 2
    assert said in err
