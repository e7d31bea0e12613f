"""What changed between locks, in files of any age, and the history that Git has of one."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace

import pytest

from builders import H100
from pretuned.build.lock_history import MOST_COMMITS, GitError, committed, versions_of
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.report.figures.changes import changed, history_of, past_rows
from project_home import Home


@pytest.fixture
def home(tmp_path, monkeypatch, capsys):
    return Home(tmp_path, monkeypatch, capsys)


def of(entries):
    return past_rows(json.loads(lockfile.dumps(Lock().updated({H100.name: H100}, entries))))


def faster(row, time_us):
    return replace(row, choices=(replace(row.winner, time_us=time_us), *row.choices[1:]))


def test_rows_are_added_removed_changed_and_left(home):
    gone, kept, slower, other = home.rows()
    now = replace(other, kernel="new")
    found = changed(of([gone, kept, slower]), of([kept, faster(slower, 4.0), now]))
    assert ([key[0] for key in found.added], len(found.removed)) == (["new"], 1)
    assert [(one.before.winner_us, one.after.winner_us, one.other_winner) for one in found.changed] == [
        (8.0, 4.0, False)
    ]
    assert found.factor == pytest.approx((1.0 * 0.5) ** 0.5)  # of the two rows that both have
    assert found.speedup == pytest.approx((10 / 8 * 10 / 4 * 10 / 8) ** (1 / 3))
    assert changed(of([kept]), of([kept])).nothing


def test_another_winner_is_told_from_another_time(home):
    row = home.rows()[0]
    swapped = replace(row, choices=(replace(row.choices[0], configuration=row.default.configuration), row.default))
    (found,) = changed(of([row]), of([swapped])).changed
    assert (found.other_winner, found.factor) == (True, 1.0)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda row: row.pop("choices"),
        lambda row: row.update(choices=[]),
        lambda row: row.update(problem=4),
        lambda row: row["choices"][0].update(time_us=0),
        lambda row: row["choices"][0].update(time_us="fast"),
        lambda row: row["choices"][0].update(time_us=float("nan")),
    ],
)
def test_what_an_older_file_does_not_say_is_left_out(home, spoil):
    document = json.loads(lockfile.dumps(Lock().updated({H100.name: H100}, home.rows())))
    spoil(document["rows"][0])
    document["rows"].append("not a row")
    assert len(past_rows(document)) == 3
    assert past_rows({"rows": 3}) == past_rows({}) == {}


def git(folder, *arguments):
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def commit(home, entries, subject):
    home.write(entries)
    git(home.root, "add", "pretuned.lock.json")
    git(home.root, "commit", "-q", "-m", subject)


def test_the_history_is_that_of_the_locks_commits_newest_first(home):
    rows = home.rows()
    git(home.root, "init", "-q")
    commit(home, rows[:3], "first <b>")
    (home.root / "other").write_text("x")
    git(home.root, "add", "other")
    git(home.root, "commit", "-q", "-m", "another file")
    commit(home, [faster(rows[0], 2.0), *rows[1:]], "second")
    home.write(rows[:1])  # not committed: no part of the history
    latest, first = history_of(versions_of(home.lock))
    assert (latest.subject, latest.change.rows, len(latest.change.added)) == ("second", 4, 1)
    assert latest.change.factor == pytest.approx((2 / 8) ** (1 / 3))
    assert (first.subject, first.change.rows, first.change.factor) == ("first <b>", 3, None)
    assert len(committed(home.lock)["rows"]) == 4


def test_a_commit_without_the_file_or_with_a_broken_one_has_no_rows(home):
    git(home.root, "init", "-q")
    commit(home, home.rows(), "first")
    home.lock.write_text("{ <<<<<<< HEAD")
    git(home.root, "commit", "-q", "-a", "-m", "broken")
    git(home.root, "rm", "-q", "pretuned.lock.json")
    git(home.root, "commit", "-q", "-m", "removed")
    assert [one.change.rows for one in history_of(versions_of(home.lock))] == [0, 0, 4]


def test_of_a_long_history_the_newest_commits_are_told_each_against_the_one_before(home):
    git(home.root, "init", "-q")
    rows = home.rows()
    for number in range(MOST_COMMITS + 3):
        commit(home, [faster(rows[0], 2.0 + number), *rows[1:]], f"{number}")
    history = list(history_of(versions_of(home.lock)))
    assert [one.subject for one in history] == [str(number) for number in range(MOST_COMMITS + 2, 2, -1)]
    assert {(len(one.change.added), len(one.change.changed)) for one in history} == {(0, 1)}


def test_there_is_a_reason_where_there_is_no_history(home, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(home.root.parent))
    home.write(home.rows())
    with pytest.raises(GitError, match=r"^Git has no history of pretuned\.lock\.json \(fatal: not a git repository"):
        versions_of(home.lock)
    git(home.root, "init", "-q")
    git(home.root, "commit", "-q", "--allow-empty", "-m", "empty")
    with pytest.raises(GitError, match=r"^Git has no commit of pretuned\.lock\.json$"):
        versions_of(home.lock)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GitError, match=r"^Git is not installed$"):
        versions_of(home.lock)
    assert MOST_COMMITS >= 10
