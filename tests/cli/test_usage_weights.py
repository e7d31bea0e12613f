"""`usage` in the table and `pretuned tune --usage`: problems weigh by their calls, whichever sizes were measured."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import fake_session
from builders import H100, selections
from pretuned.build import core
from pretuned.fleet import tuning as fleet
from pretuned.frontends.registry import load_project
from pretuned.record import lock as lockfile
from pretuned.record.usage import digest_of
from pretuned.spec.space import Problem
from project_home import TABLE, Home
from specs import edited


class Asked(Home):
    """A project whose tunings are recorded; `calls` gives those of the last one by type and size."""

    def __init__(self, root, monkeypatch, capsys):
        super().__init__(root, monkeypatch, capsys)
        fake_session.install(monkeypatch, root)
        self.requests = []
        real = fleet.tune
        monkeypatch.setattr(fleet, "tune", lambda requests, *given, **named: self.tune(real, requests, given, named))

    def tune(self, real, requests, given, named):
        self.requests = requests
        return real(requests, *given, **named)

    @property
    def calls(self):
        (request,) = {id(one.spec): one for one in self.requests}.values()
        return {(dict(one.specialisation)["T"], dict(one.dims)["n"]): calls for one, calls in request.calls.items()}

    def usage(self, name="calls.jsonl", *lines):
        (self.root / name).write_text("".join(f"{one}\n" for one in lines))
        return self.root / name


@pytest.fixture
def home(tmp_path, monkeypatch, capsys):
    return Asked(tmp_path, monkeypatch, capsys)


def line(n=1024, T="float32", calls=1, kernel="scale"):  # noqa: N803 - the specialisation's name
    data = {"format": 1, "package": "demo.tuned", "kernel": kernel, "specialisation": {"T": T}, "dims": {"n": n}}
    return json.dumps(data | {"calls": calls})


def test_every_called_size_weighs_by_its_calls_and_everything_is_tuned(home):
    file = home.usage("calls.jsonl", line(n=1536, calls=3), line(n=1536, calls=4), line(n=7, T="float16"), line(n=0))
    assert home.run("tune", "--usage", file)[0] == 0
    assert home.calls == {("float32", 1536): 7, ("float16", 7): 1}
    assert len(home.read().rows) == 4


def test_problems_that_the_kernel_does_not_admit_weigh_nothing(home):
    spec = home.root / "kernels/scale.toml"
    spec.write_text(edited(spec.read_text(), ("where = [", 'requires = ["n <= 65536"]\nwhere = [')))
    file = home.usage("calls.jsonl", line(n=65537, calls=9), line(n=65536, calls=2))
    assert home.run("tune", "--usage", file)[0] == 0
    assert home.calls == {("float32", 65536): 2}


def test_the_tables_usage_is_taken_and_the_option_goes_before_it(home):
    (home.root / "pyproject.toml").write_text(TABLE + 'usage = "calls.jsonl"\n')
    home.usage("calls.jsonl", line(n=5, calls=2))
    other = home.usage("other.jsonl", line(n=6, calls=3))
    home.run("tune")
    assert home.calls == {("float32", 5): 2}
    home.run("tune", "--force", "--usage", other)
    assert home.calls == {("float32", 6): 3}
    home.run("tune", "--force", "--from-usage", other)
    assert home.calls == {("float32", 6): 3}


def test_the_tables_usage_that_is_not_there_is_a_warning(home):
    (home.root / "pyproject.toml").write_text(TABLE + 'usage = "calls.jsonl"\n')
    status, _, said = home.run("tune")
    assert status == 0
    assert said.startswith(
        "warning: calls.jsonl: cannot be read, so all problems weigh alike: No such file or directory; "
        "have a program write it with PRETUNED_USAGE, or remove `usage` from the table\n"
    )


def test_the_tables_usage_without_a_call_of_the_kernels_is_reported(home):
    (home.root / "pyproject.toml").write_text(TABLE + 'usage = "calls.jsonl"\n')
    home.usage("calls.jsonl", line(kernel="softmax"))
    status, _, said = home.run("tune")
    assert status == 0
    assert said.startswith("calls.jsonl: no call of scale in demo.tuned, whose problems weigh alike\n")


def test_a_usage_that_has_changed_makes_nothing_stale_and_is_noted(home):
    """A build without a GPU gives the same bytes, whatever the file says."""
    (home.root / "pyproject.toml").write_text(TABLE + 'usage = "calls.jsonl"\n')
    file = home.usage("calls.jsonl", line(n=1536, calls=3))
    spec, calls = home.spec, {Problem(specialisation=(("T", "float32"),), dims=(("n", 1536),)): 3}
    float16, float32 = selections(spec)
    home.write(home.rows())
    lockfile.write(home.lock, home.read().updated({}, selections=[float16, replace(float32, usage=digest_of(calls))]))
    assert home.run("check")[::2] == (0, "")
    home.run("bake")
    before = {path: path.read_bytes() for path in (home.root / "src/demo/tuned").rglob("*.*")}
    file.write_text(f"{line(n=1536, calls=3)}\n{line(n=7, calls=90)}\n")
    note = (
        f"pretuned.lock.json: the selection of scale on {H100.name} at T=float32: chosen by other calls than "
        "calls.jsonl has now; `pretuned tune --certify 64` says what that loses, `pretuned tune --force` chooses anew\n"
    )
    assert home.run("check")[::2] == (0, note)
    assert note in home.run("bake")[2]
    assert {path: path.read_bytes() for path in before} == before
    file.unlink()
    assert home.run("check")[::2] == (0, ""), "what a tuning would warn of is no finding about a lock"


def test_gaps_are_reported(home):
    (home.root / "pyproject.toml").write_text(TABLE + 'usage = "calls.jsonl"\n')
    home.usage("calls.jsonl", line(n=8000, calls=30))
    assert "n: called further than a factor of 1.5 from every measured size: 8000 (30 calls)" in home.run("tune")[2]


def test_two_usage_files_are_refused(home):
    status, _, said = home.run("tune", "--usage", "a.jsonl", "--from-usage", "b.jsonl")
    assert status == 2
    assert "not allowed with argument" in said


def test_an_sdist_carries_the_tables_usage(home):
    (home.root / "pyproject.toml").write_text(TABLE + 'usage = "calls.jsonl"\n')
    assert home.root / "calls.jsonl" not in core.sources(load_project(home.root))
    file = home.usage("calls.jsonl", line())
    assert file in core.sources(load_project(home.root))


def test_called_problems_are_problems_of_the_spec(home):
    home.run("tune", "--usage", home.usage("calls.jsonl", line(n=3)))
    (problem,) = home.requests[0].calls
    assert problem == Problem(specialisation=(("T", "float32"),), dims=(("n", 3),))
