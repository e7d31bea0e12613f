"""The user cache: what was measured stays measured, and what is damaged counts as absent."""

from __future__ import annotations

import errno
import hashlib
import math
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import pretuned
from pretuned.compile.result import Binary, Resources
from pretuned.outcome import CompileError, Crashed, LaunchFailed, Timed, TimedOut, WrongResult
from pretuned.record.cache import FILE, Cache, Subject

OUTCOMES = [
    Timed(time_us=1.5, spread=0.01, samples=3),
    CompileError(line="error"),
    LaunchFailed(message="no"),
    WrongResult(argument="y", message="y: off"),
    TimedOut(limit_s=10.0),
    Crashed(message="ended by SIGSEGV"),
]
KERNEL = Subject(kernel="k", device="d")
IMAGE = b"\x7fELF\0\1\2"
BINARY = Binary(
    module="m",
    architecture="sm_90",
    image=IMAGE,
    digest=hashlib.sha256(IMAGE).hexdigest(),
    flags=("-arch=sm_90",),
    compiler="13.0.88",
    resources={"f": Resources(registers=1, spill_bytes=2, shared_bytes=3)},
)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_outcomes_come_back_in_another_build(tmp_path, outcome):
    with Cache(tmp_path) as cache:
        cache.put_outcome("key", outcome)
    with Cache(tmp_path) as cache:
        assert cache.outcome("key") == outcome
        assert cache.outcome("other") is None


def test_binaries_come_back_and_are_held_to_their_digest(tmp_path):
    with Cache(tmp_path) as cache:
        cache.put_binary("key", BINARY)
        assert cache.binary("key") == BINARY
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("UPDATE entries SET value = replace(value, 'f0VMRg', 'f0VMRw')")
    connection.close()
    with Cache(tmp_path) as cache:
        assert cache.binary("key") is None


def test_a_value_that_does_not_read_back_counts_as_absent(tmp_path):
    with Cache(tmp_path) as cache:
        cache.put_outcome("key", OUTCOMES[0])
        cache.put_record("key", {"a": 1})
        assert cache.record("key") == {"a": 1}
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("UPDATE entries SET value = '{\"outcome\": \"of tomorrow\"}' WHERE kind = 'outcome'")
        connection.execute("UPDATE entries SET value = '[1' WHERE kind = 'record'")
    connection.close()
    with Cache(tmp_path) as cache:
        assert cache.outcome("key") is None
        assert cache.record("key") is None


def test_a_value_that_was_changed_or_moved_counts_as_absent(tmp_path):
    with Cache(tmp_path) as cache:
        cache.put_record("a", {"time_us": 181.6})
        cache.put_record("b", {"time_us": 2.5})
        cache.put_record("c", {"time_us": 3.5})
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("UPDATE entries SET value = replace(value, '181.6', '11.6')")
        moved = "(SELECT value FROM entries WHERE key = 'record:c')"
        connection.execute(f"UPDATE entries SET value = {moved} WHERE key = 'record:b'")
    connection.close()
    with Cache(tmp_path) as cache:
        assert [cache.record(key) for key in "abc"] == [None, None, {"time_us": 3.5}]


def test_a_damaged_file_that_cannot_be_set_aside_is_done_without(tmp_path, monkeypatch):
    (tmp_path / FILE).write_bytes(b"no database" * 100)

    def refuse(self, target):
        raise PermissionError(errno.EACCES, "Permission denied", str(self), None, str(target))

    monkeypatch.setattr(Path, "replace", refuse)
    with Cache(tmp_path) as cache:
        cache.put_record("key", {})
        assert (cache.record("key"), cache.path) == ({}, None)


def test_a_damaged_file_is_set_aside(tmp_path):
    (tmp_path / FILE).write_bytes(b"no database" * 100)
    with Cache(tmp_path) as cache:
        cache.put_record("key", {})
        assert cache.record("key") == {}
    assert len(list(tmp_path.glob("*.damaged-*"))) == 1


def test_in_memory_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Cache(None) as cache:
        cache.put_record("key", {})
        assert cache.record("key") == {}
    assert not list(tmp_path.iterdir())


def test_what_was_put_survives_a_killed_build(tmp_path):
    program = (
        "import os, signal; from pathlib import Path; from pretuned.record.cache import Cache\n"
        f"cache = Cache(Path({str(tmp_path)!r})); cache.put_record('key', {{'a': 1}})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    here = {**os.environ, "PYTHONPATH": str(Path(pretuned.__file__).parents[1])}
    assert subprocess.run([sys.executable, "-c", program], env=here, check=False).returncode == -9
    with Cache(tmp_path) as cache:
        assert cache.record("key") == {"a": 1}


def test_two_builds_write_at_once(tmp_path):
    program = (
        "import sys; from pathlib import Path; from pretuned.record.cache import Cache\n"
        f"cache = Cache(Path({str(tmp_path)!r}))\n"
        "for i in range(200): cache.put_record(sys.argv[1] + str(i), {'i': i})"
    )
    here = {**os.environ, "PYTHONPATH": str(Path(pretuned.__file__).parents[1])}
    builds = [subprocess.Popen([sys.executable, "-c", program, name], env=here) for name in "ab"]
    assert [build.wait(60) for build in builds] == [0, 0]
    with Cache(tmp_path) as cache:
        assert all(cache.record(f"{name}{i}") == {"i": i} for name in "ab" for i in range(200))


def filled(folder):
    """A cache file with a megabyte of records; returns its path and its size."""
    with Cache(folder) as cache:
        for number in range(1000):
            cache.put_record(f"{number}", {"text": "x" * 1000}, KERNEL)
    return folder / FILE, (folder / FILE).stat().st_size


def test_what_is_removed_gives_its_space_back(tmp_path):
    file, size = filled(tmp_path)
    with Cache(tmp_path) as cache:
        assert cache.remove([KERNEL], before=math.inf) == 1000
    assert file.stat().st_size < size / 10


@pytest.mark.parametrize("earlier", [False, True], ids=["", "a file that was made without"])
def test_a_file_that_is_too_large_is_made_smaller_once(tmp_path, monkeypatch, earlier):
    file, size = filled(tmp_path)
    if earlier:
        with sqlite3.connect(file) as connection:
            connection.execute("PRAGMA auto_vacuum = NONE")
            connection.execute("VACUUM")
        connection.close()
    monkeypatch.setattr("pretuned.record.cache.MOST_BYTES", int(0.9 * size))
    for _ in range(3):
        with Cache(tmp_path) as cache:
            assert 600 < cache.holdings()[0].values < 700
    assert file.stat().st_size < 0.8 * size
