"""A cache that cannot be had, or is damaged while in use: builds go on, and never lose a sound file."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pretuned
from pretuned.outcome import Crashed
from pretuned.record.cache import FILE, Cache

OPEN_AT = """
import sys, time
from pathlib import Path
from pretuned.record.cache import Cache
time.sleep(max(0, float(sys.argv[2]) - time.time()))
cache = Cache(Path(sys.argv[1]))
cache.put_record(sys.argv[3], {"by": sys.argv[3]})
"""


def test_builds_that_make_the_file_at_one_moment_share_it(tmp_path):
    here = {**os.environ, "PYTHONPATH": str(Path(pretuned.__file__).parents[1])}
    names = [f"build {number}" for number in range(8)]
    start = str(time.time() + 1.5)
    builds = [subprocess.Popen([sys.executable, "-c", OPEN_AT, str(tmp_path), start, name], env=here) for name in names]
    assert [build.wait(60) for build in builds] == [0] * 8
    with Cache(tmp_path) as cache:
        assert [cache.record(name) for name in names] == [{"by": name} for name in names]
    assert not list(tmp_path.glob("*.damaged-*"))


def test_where_no_file_can_be_made_it_lives_in_memory(tmp_path):
    (tmp_path / "file").touch()
    with Cache(tmp_path / "file" / "cache") as cache:
        cache.put_record("key", {"a": 1})
        assert cache.record("key") == {"a": 1}
        assert cache.path is None


def test_a_folder_in_the_place_of_the_file_is_left_alone(tmp_path):
    (tmp_path / FILE).mkdir()
    with Cache(tmp_path) as cache:
        cache.put_record("key", {})
        assert cache.record("key") == {}
    assert [entry.name for entry in tmp_path.iterdir()] == [FILE]


def test_pages_damaged_while_in_use_lose_only_what_they_held(tmp_path):
    with Cache(tmp_path) as cache:
        for number in range(500):
            cache.put_record(f"key {number}", {"number": number})
    with (tmp_path / FILE).open("r+b") as file:
        file.seek(4096)  # behind the header and the schema
        file.write(b"\xff" * 8192)
    with Cache(tmp_path) as cache:
        found = [cache.record(f"key {number}") for number in range(500)]
        assert None in found
        assert all(record in (None, {"number": number}) for number, record in enumerate(found))
        cache.put_record("key 1", {"number": 1})


@pytest.mark.parametrize("text", ['"abc"', "[1]", "7", '["abc"]', '{"outcome": ["timed"]}', '{"outcome": "crashed"}'])
def test_an_outcome_of_another_shape_counts_as_absent(tmp_path, text):
    with Cache(tmp_path) as cache:
        cache.put_outcome("key", Crashed(message="x"))
        with sqlite3.connect(tmp_path / FILE) as connection:
            connection.execute("UPDATE entries SET value = ?", (text,))
        connection.close()
        assert cache.outcome("key") is None
        assert cache.binary("key") is None
