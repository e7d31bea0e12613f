"""`pretuned report`: the page, Markdown and JSON of a project's lock, with what there is."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace

import pytest

import pretuned
from builders import H100, selections
from pages import Page
from pretuned.outcome import Timed
from pretuned.record import lock as lockfile
from pretuned.record.cache import Cache, Subject
from pretuned.record.courses import Course, Curve, HeldOut, keep_course, keep_held_out
from pretuned.record.lock import Lock
from pretuned.render import candidate
from pretuned.spec import space
from pretuned.tune.results import KnownResults, context_of
from project_home import Home

SUBJECT = Subject(kernel="scale", device=H100.name)


@pytest.fixture
def home(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    return Home(tmp_path, monkeypatch, capsys)


def read(home, name="pretuned-report.html"):
    return Page((home.root / name).read_text())


def test_the_page_is_written_where_it_is_asked_for(home):
    home.write(home.rows())
    status, out, err = home.run("report")
    assert (status, out) == (0, "")
    assert err.startswith("pretuned-report.html: 0.0")
    assert err.endswith("MB; it needs no network and no other file\n")
    assert len(read(home).of_table(class_="rows sortable")) == 4
    assert home.run("report", "--out", "sub/other.html")[0] == 0
    assert read(home, "sub/other.html").rows == read(home).rows


def test_json_has_the_same_figures(home):
    lock = Lock().updated({H100.name: H100}, home.rows(), [], selections(home.spec))
    lockfile.write(home.lock, lock)
    status, out, _ = home.run("report", "--json")
    found = json.loads(out)
    assert (status, len(found["rows"]), len(found["selections"])) == (0, 4, 2)
    assert found["rows"][0] | {"choices": None} == {
        "lock line": 7,
        "kernel": "scale",
        "device": H100.name,
        "specialisation": "T=float16",
        "problem": {"n": 1024},
        "state": "fresh",
        "reason": "",
        "winner us": 8.0,
        "default us": 10.0,
        "speedup": 1.25,
        "moved bytes": 2 * 1024 * 2,
        "share of nominal bandwidth": round(4096 / 8e-6 / 3352e9, 4),
        "noisy": False,
        "effort": "default",
        "choices": None,
    }
    assert found["devices"][0]["worst certificate"]["inside"]["mean"] == 0.006
    assert found["no history"].startswith("Git has no history of pretuned.lock.json")
    assert not (home.root / "pretuned-report.html").exists()
    assert pretuned.report(home.root).to_json() == found


def test_what_is_stale_or_missing_is_counted(home):
    first, second, *_ = home.rows()
    stale = replace(first, choices=(replace(first.winner, candidate="of yesterday"), first.default))
    home.write([stale, second])
    (device,) = json.loads(home.run("report", "--json")[1])["devices"]
    assert (device["rows"], device["not fresh"], device["missing"]) == (2, {"stale": 1}, 2)


def test_markdown_says_what_changed_against_another_lock(home):
    rows = home.rows()
    home.write(rows[:3])
    home.lock.rename(home.root / "before.json")
    home.write([replace(rows[0], choices=(replace(rows[0].winner, time_us=4.0), *rows[0].choices[1:])), *rows[1:]])
    status, out, _ = home.run("report", "--markdown", "--against", "before.json")
    assert status == 0
    assert "| NVIDIA H100 80GB HBM3 | 4 | 4 | 1.487x | - | nothing |" in out
    assert "Against before.json: 1 row added, 0 removed, 1 changed; winners take 0.794 times as long" in out
    assert "| scale | NVIDIA H100 80GB HBM3 | 1 | 0 | 0.500x |" in out
    assert "| scale on NVIDIA H100 80GB HBM3 at n=1024, T=float16 | 8.00 | 4.00 | 0.500x | as before |" in out


def test_markdown_says_where_nothing_is_or_differs(home):
    assert "pretuned.lock.json has no rows, so only the defaults run." in home.run("report", "--markdown")[1]
    home.write(home.rows())
    out = home.run("report", "--markdown", "--against", "pretuned.lock.json")[1]
    assert "Against pretuned.lock.json no row differs.\n" in out


def test_devices_stand_beside_each_other(home):
    l4 = replace(H100, name="NVIDIA L4", sm_count=58, compute_capability=89)
    same, other, *_ = home.rows(device=l4.name)
    swapped = (replace(other.winner, configuration=other.default.configuration), other.default)
    home.write([*home.rows(), same, replace(other, choices=swapped)], H100, l4)
    found = json.loads(home.run("report", "--json")[1])["side by side"]
    assert [(one["agree"], sorted(one["winners"])) for one in found] == [
        (True, [H100.name, l4.name]),
        (False, [H100.name, l4.name]),
    ]
    home.run("report")
    text = (home.root / "pretuned-report.html").read_text()
    assert f"scale: 2 problems on {H100.name} and NVIDIA L4; the winners differ at 1." in text


def test_without_another_lock_the_last_commit_is_compared_with(home):
    home.write(home.rows()[:3])
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", "pretuned.lock.json"], [*who, "commit", "-q", "-m", "rows"]):
        subprocess.run(["git", *arguments], cwd=home.root, check=True, capture_output=True)
    home.write(home.rows())
    assert "Against Git's last commit: 1 row added, 0 removed, 0 changed" in home.run("report", "--markdown")[1]
    (entry,) = json.loads(home.run("report", "--json")[1])["history"]
    assert (entry["subject"], entry["rows"]) == ("rows", 3)


def test_a_lock_alone_is_enough(home):
    other = home.write(home.rows(), path=home.root / "sent.json")
    (home.root / "pyproject.toml").unlink()
    status, out, err = home.run("report", other, "--json")
    assert (status, err) == (0, "")
    assert [row["state"] for row in json.loads(out)["rows"]] == [""] * 4


def test_a_spec_with_a_fault_leaves_the_lock_to_be_shown(home):
    home.write(home.rows())
    (home.root / "kernels" / "scale.toml").write_text("format = 1\n")
    status, out, err = home.run("report", "--json")
    assert status == 0
    assert err.startswith("warning: the report has no states and no bytes: invalid kernel spec")
    assert len(json.loads(out)["rows"]) == 4


@pytest.mark.parametrize("arguments", [["missing.json"], ["--against", "missing.json"]])
def test_a_lock_that_is_not_there_is_named(home, arguments):
    home.write(home.rows())
    assert home.run("report", *arguments) == (2, "", "error: there is no lock 'missing.json'\n")


def test_one_form_is_printed(home):
    home.write(home.rows())
    assert home.run("report", "--json", "--markdown") == (2, "", "error: choose one of --json and --markdown\n")


@pytest.mark.parametrize("form", ["--json", "--markdown"])
def test_the_form_that_is_asked_for_is_what_is_written(home, form):
    home.write(home.rows())
    printed = home.run("report", form)[1]
    status, out, err = home.run("report", form, "--out", "sub/file")
    assert (status, out) == (0, "")
    assert err == f"sub/file: {len(printed.splitlines())} lines\n"
    assert (home.root / "sub/file").read_text() == printed


def test_a_report_that_cannot_be_written_is_an_error(home):
    home.write(home.rows())
    (home.root / "taken").mkdir()
    status, _, err = home.run("report", "--out", "taken")
    assert (status, err) == (
        10,
        "error: taken: the report cannot be written: Is a directory; name another path\n",
    )


def test_a_project_without_rows_has_a_page(home):
    assert home.run("report")[0] == 0
    assert read(home).of_table(class_="rows sortable") == []


def test_a_folder_without_a_project_is_an_error(home):
    (home.root / "pyproject.toml").unlink()
    assert home.run("report")[0] == 3


def test_what_the_user_cache_remembers_is_shown(home):
    rules = selections(home.spec)
    lock = Lock().updated({H100.name: H100}, home.rows(), [], rules)
    lockfile.write(home.lock, lock)
    row = lock.rows[0]
    course = Course(
        kernel="scale",
        device=H100.name,
        date="2026-11-22",
        seconds=(("screening", 3.25), ("compiling", 1.5)),
        curves=(Curve(problem="n=1024", default_us=10.0, points=((0.5, 9.0), (2.0, 8.0))),),
    )
    problems = [HeldOut(dims=(("n", n),), loss=0.01, inside=True, slower=False) for n in (1031, 2049, 4099)]
    context = context_of(home.spec, row.device, H100, row.driver, row.compiler, row.verification)
    with Cache(home.root / "cache") as cache:
        keep_course(cache, course)
        keep_held_out(cache, SUBJECT, rules[0].specialisation, rules[0].certificate, problems)
        for one in lock.rows:
            known = KnownResults(
                cache,
                lambda: context,
                lambda wanted, one=one: candidate(home.spec, one.specialisation, wanted),
                ("scale", H100.name),
            )
            for place, configuration in enumerate(space.configurations(home.spec, one.problem)):
                known.keep(configuration, one.problem, Timed(time_us=5.0 + place, spread=0.0, samples=3))
    found = json.loads(home.run("report", "--json")[1])
    assert found["tunings"][0]["seconds"] == {"screening": 3.25, "compiling": 1.5}
    held = {one["specialisation"]: (one["held-out problems"], len(one["dots"])) for one in found["selections"]}
    assert held == {"T=float16": ("all", 3), "T=float32": ("the worst", 2)}
    counted = {
        specialisation: sum(
            1 for problem in space.problems(home.spec, specialisation) for _ in space.configurations(home.spec, problem)
        )
        for specialisation in space.specialisations(home.spec)
    }
    assert [(one["source"], one["measured"]) for one in found["spaces"]] == [
        ("user cache", count) for count in counted.values()
    ]
    home.run("report")
    text = (home.root / "pretuned-report.html").read_text()
    assert "2026-11-22: 4.8 s: screening 3.2, compiling 1.5 (from this machine's user cache)" in text
    assert "Best time so far" in text
