"""The lock: stable bytes, whole files, and messages about what is wrong with one."""

from __future__ import annotations

import errno
import json
import random
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import H100, rows
from pretuned.errors import LockError, StorageError
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.record.rows import Skipped
from pretuned.spec.space import Problem
from specs import loaded


@pytest.fixture
def spec(tmp_path):
    return loaded(tmp_path)


@pytest.fixture
def lock(spec):
    return Lock().updated({H100.name: H100}, rows(spec))


def test_what_was_read_is_written_again_byte_for_byte(tmp_path, lock, spec):
    skipped = Skipped(kernel="scale", device=H100.name, problem=lock.rows[0].problem, reason='too "large" \\ é')
    lock = lock.updated({}, [], [skipped])
    path = tmp_path / "pretuned.lock.json"
    assert lockfile.write(path, lock)
    first = path.read_bytes()
    assert lockfile.read(path) == lock
    assert not lockfile.write(path, lockfile.read(path))
    assert path.read_bytes() == first


def test_a_row_is_a_line_and_the_order_is_stable(lock, spec):
    shuffled = rows(spec)
    random.Random(1).shuffle(shuffled)
    assert lockfile.dumps(Lock().updated({H100.name: H100}, shuffled)) == lockfile.dumps(lock)
    lines = lockfile.dumps(lock).splitlines()
    found = [json.loads(line.rstrip(",")) for line in lines if line.startswith('{"kernel"')]
    assert [(entry["specialisation"], entry["problem"]) for entry in found] == [
        ({"T": "float16"}, {"n": 1024}),
        ({"T": "float16"}, {"n": 65536}),
        ({"T": "float32"}, {"n": 1024}),
        ({"T": "float32"}, {"n": 65536}),
    ]


def test_a_row_with_the_spread_of_its_samples_confirms_one_without_and_changes_no_line(lock):
    row = lock.rows[0]
    measured = replace(row, choices=tuple(replace(choice, spread_us=(7.5, 8.0, 9.0)) for choice in row.choices))
    assert lock.updated({}, [measured]).rows == lock.rows
    kept = Lock().updated({H100.name: H100}, [measured])
    assert kept.updated({}, [row]).rows == (measured,)
    assert '"spread_us": [7.5, 8.0, 9.0]' in lockfile.dumps(kept)
    assert "spread_us" not in lockfile.dumps(lock)


@pytest.mark.parametrize("name", ["pretuned.lock.json", "examples/quickstart/pretuned.lock.json"])
def test_a_lock_of_before_spreads_were_kept_is_written_byte_for_byte(name):
    file = Path(__file__).parents[2] / name
    assert lockfile.dumps(lockfile.read(file)) == file.read_text()


def test_a_confirmed_row_keeps_its_line(lock):
    again = [replace(row, date="2027-01-01", driver="600") for row in lock.rows]
    again = [replace(row, choices=tuple(replace(c, time_us=c.time_us + 1) for c in row.choices)) for row in again]
    assert lockfile.dumps(lock.updated({H100.name: H100}, again)) == lockfile.dumps(lock)


def test_a_row_says_with_which_effort_it_was_tuned_unless_that_is_the_default_one(lock):
    row = replace(lock.rows[0], effort="fast")
    kept = lock.updated({}, [replace(row, date="2027-01-01")])
    assert kept.rows == lock.rows  # found again with less effort
    hurried = Lock().updated({H100.name: H100}, [row])
    assert '"effort": "fast"' in lockfile.dumps(hurried)
    assert "effort" not in lockfile.dumps(lock)
    assert lockfile.loads(json.loads(lockfile.dumps(hurried)), "lock") == hurried
    thorough = replace(row, effort="thorough")
    assert hurried.updated({}, [replace(row, effort="")]).rows[0].effort == ""
    assert lock.updated({}, [thorough]).rows[0] == thorough


def test_what_a_row_says_is_confirmed_by_a_shorter_search(lock):
    assert lock.updated({}, [replace(lock.rows[0], space="")]) == lock


def test_what_a_row_says_and_a_new_one_denies_changes_its_line(lock):
    row = lock.rows[0]
    for again in (replace(row, space="other"), replace(row, verification="other"), replace(row, compiler="13.1.1")):
        assert lock.updated({}, [again]).rows[0] == again


def test_another_winner_replaces_its_line_only(lock):
    changed = replace(lock.rows[0], choices=lock.rows[0].choices[1:])
    before, after = lockfile.dumps(lock).splitlines(), lockfile.dumps(lock.updated({}, [changed])).splitlines()
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


def test_a_failing_write_leaves_the_old_file(tmp_path, lock, monkeypatch):
    path = tmp_path / "pretuned.lock.json"
    lockfile.write(path, lock)
    before = path.read_bytes()

    def fail(self, target):
        raise OSError(errno.ENOSPC, "No space left on device", str(self), None, str(target))

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(StorageError, match="the lock cannot be written: No space left on device; make room there"):
        lockfile.write(path, Lock())
    assert path.read_bytes() == before


def test_rows_that_several_tunings_add_at_the_same_moment_all_stay(tmp_path, spec):
    path, found = tmp_path / "pretuned.lock.json", rows(spec)
    together = threading.Barrier(len(found))

    def add(row):
        together.wait()
        with lockfile.updating(path):
            before = lockfile.read(path)
            time.sleep(0.01)  # long enough for the others to read the same
            lockfile.write(path, before.updated({H100.name: H100}, [row]))

    with ThreadPoolExecutor(len(found)) as pool:
        list(pool.map(add, found))
    assert lockfile.read(path) == Lock().updated({H100.name: H100}, found)


def test_no_file_is_an_empty_lock(tmp_path):
    assert lockfile.read(tmp_path / "pretuned.lock.json") == Lock()


def test_another_file_than_a_lock_is_not_said_to_be_one(tmp_path):
    path = tmp_path / "pyproject.toml"
    path.write_text("[project]\nname = 'demo'\n")
    with pytest.raises(
        LockError, match=r"/pyproject\.toml: is no lock, which is a JSON file that `pretuned tune` writes"
    ):
        lockfile.read(path)


def test_a_lock_cut_in_half(tmp_path, lock):
    path = tmp_path / "pretuned.lock.json"
    text = lockfile.dumps(lock)
    path.write_text(text[: len(text) // 2])
    pattern = (
        r"pretuned\.lock\.json: is not JSON \(.+\); it is cut short or was merged by hand: take it from version "
        r"control again, or delete it and run `pretuned tune`"
    )
    with pytest.raises(LockError) as error:
        lockfile.read(path)
    assert re.fullmatch(pattern, str(error.value))


@pytest.mark.parametrize("mark", ["<<<<<<< HEAD", "=======", ">>>>>>> branch"])
def test_a_lock_with_a_conflict_names_the_line_and_how_to_join_both_sides(tmp_path, lock, mark):
    path = tmp_path / "pretuned.lock.json"
    lines = lockfile.dumps(lock).splitlines()
    path.write_text("\n".join([*lines[:4], mark, *lines[4:]]))
    with pytest.raises(LockError, match=r"line 5 has the mark .* `git show :2:\./pretuned\.lock\.json > ours\.json`"):
        lockfile.read(path)


def document(lock):
    return json.loads(lockfile.dumps(lock))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda data: data.update(format=2),
            (
                "lock: has format 2, written by a newer pretuned; this one reads format 1: update the pretuned that is "
                "installed here, and the one in [build-system] requires"
            ),
        ),
        (lambda data: data.pop("format"), "lock: is not a lock of pretuned: it has no `format`"),
        (lambda data: data.update(rows={}), f"lock: `rows` is not a list{lockfile.RESTORE}"),
        (
            lambda data: data["rows"][1].pop("choices"),
            f"lock: rows[1]: lacks 'choices'{lockfile.RESTORE}",
        ),
        (
            lambda data: data["rows"][0]["choices"].clear(),
            f"lock: rows[0]: 'choices' is empty{lockfile.RESTORE}",
        ),
        (
            lambda data: data["rows"][0]["choices"][0]["configuration"].update(block=[1]),
            (
                "lock: rows[0].choices[0]: 'block' of 'configuration' is [1], not a number, a boolean or a text"
                f"{lockfile.RESTORE}"
            ),
        ),
        (
            lambda data: data["devices"].clear(),
            (
                "lock: rows[0]: names the device 'NVIDIA H100 80GB HBM3', which `devices` does not describe"
                f"{lockfile.RESTORE}"
            ),
        ),
    ],
)
def test_messages_about_wrong_locks(lock, edit, message):
    data = document(lock)
    edit(data)
    with pytest.raises(LockError) as error:
        lockfile.loads(data, "lock")
    assert str(error.value) == message


@given(st.text(), st.text(min_size=1))
def test_hostile_texts_come_back(reason, name):
    problem = Problem(specialisation=(("T", "float32"),), dims=(("n", 1),))
    entry = Skipped(kernel="k", device=name, problem=problem, reason=reason)
    lock = Lock().updated({name: replace(H100, name=name)}, [], [entry])
    text = lockfile.dumps(lock)
    assert lockfile.loads(json.loads(text), "lock") == lock
    assert len(text.splitlines()) == text.count("\n") == 13


def test_what_a_row_suffered_from_is_kept_until_it_is_measured_without_noise(tmp_path, lock):
    clean = lock.rows[0]
    noisy = replace(clean, noise="clocks were 20% below their best")
    marked = Lock().updated({H100.name: H100}, [noisy])
    path = tmp_path / "pretuned.lock.json"
    lockfile.write(path, marked)
    assert lockfile.read(path).rows == (noisy,)
    assert marked.updated({}, [clean]).rows == (clean,)
    assert lock.updated({}, [noisy]).rows == lock.rows  # it confirms what was measured without noise
