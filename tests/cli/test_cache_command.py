"""`pretuned cache`: what is listed and what goes."""

from __future__ import annotations

import json
import sqlite3
import time

import pytest

from pretuned.compile.result import Binary
from pretuned.outcome import Timed
from pretuned.record import cache as record
from pretuned.record.cache import FILE, Cache, Subject
from project_home import Home

L4 = "NVIDIA L4"
SOFTMAX, SCALE = Subject(kernel="softmax", device=L4), Subject(kernel="scale", device="NVIDIA H100")
YEAR_S = 365 * 86400


def timed(time_us):
    return Timed(time_us=time_us, spread=0.0, samples=3)


@pytest.fixture
def home(tmp_path, monkeypatch, capsys):
    home = Home(tmp_path, monkeypatch, capsys)
    a_year_ago = time.time() - YEAR_S
    with Cache(home.root / "cache") as cache:
        with monkeypatch.context() as earlier:
            earlier.setattr(time, "time", lambda: a_year_ago)
            cache.put_outcome("old", timed(1.0), SOFTMAX)
        cache.put_outcome("new", timed(2.0), SOFTMAX)
        cache.put_outcome("other", timed(3.0), SCALE)
        cache.put_binary(
            "binary",
            Binary(
                module="m",
                architecture="sm_89",
                image=b"\0",
                digest="6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
                flags=(),
                compiler="13.0.88",
                resources={},
            ),
        )
    return home


def test_what_there_is_is_listed_by_kernel_and_device(home):
    status, out, err = home.run("cache")
    assert status == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["kernel", "device", "values", "size", "oldest", "newest"]
    assert [line[:-5] + line[-5:-4] for line in lines[1:]] == [
        ["(binaries)", "sm_89", "1"],
        ["scale", "NVIDIA", "H100", "1"],
        ["softmax", "NVIDIA", "L4", "2"],
    ]
    assert str(home.root / "cache" / FILE) in err


def test_programs_read_it_as_json_and_the_path_alone(home):
    found = json.loads(home.run("cache", "list", "--json", "--kernel", "softmax")[1])
    assert [(one["kernel"], one["device"], one["values"]) for one in found] == [("softmax", L4, 2)]
    assert found[0]["oldest"] < found[0]["newest"]
    assert home.run("cache", "path") == (0, f"{home.root / 'cache' / FILE}\n", "")


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ((), set()),
        (("--kernel", "scale"), {"old", "new", "binary"}),
        (("--device", L4), {"other", "binary"}),
        (("--older-than", "30"), {"new", "other", "binary"}),
        (("--device", "sm_89"), {"old", "new", "other"}),
        (("--device", L4, "--kernel", "scale"), {"old", "new", "other", "binary"}),
    ],
)
def test_what_fits_all_options_goes(home, options, left):
    status, _, err = home.run("cache", "clear", *options)
    assert status == 0
    assert f"{4 - len(left)} value" in err
    with Cache(home.root / "cache") as cache:
        kept = {key for key in ("old", "new", "other") if cache.outcome(key) is not None}
        kept |= {"binary"} if cache.binary("binary") is not None else set()
    assert kept == left


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--kernel", "sofmax"), "the cache has no kernel 'sofmax'"),
        (("--device", "NVIDIA L40"), "the cache has no device 'NVIDIA L40'"),
        (("--older-than", "yesterday"), "'yesterday' is not a number of days"),
    ],
)
def test_what_the_cache_has_nothing_of_is_an_error(home, options, message):
    status, _, err = home.run("cache", "clear", *options)
    assert status == 2
    assert message in err


@pytest.mark.parametrize("arguments", [[], ["clear"], ["clear", "--kernel", "softmax"]], ids=str)
def test_a_cache_that_cannot_be_used_is_an_error(home, monkeypatch, arguments):
    opened = Cache._connect

    def refuse(cache):
        if cache.path is not None:
            raise sqlite3.OperationalError("attempt to write a readonly database")
        return opened(cache)

    monkeypatch.setattr(Cache, "_connect", refuse)
    monkeypatch.setattr(Cache, "_connect_when_free", refuse)
    status, out, err = home.run("cache", *arguments)
    assert (status, out) == (10, "")
    assert "cannot be used: attempt to write a readonly database" in err


def test_an_empty_folder_is_no_error(home, monkeypatch, tmp_path):
    monkeypatch.setenv("PRETUNED_CACHE_DIR", str(tmp_path / "none"))
    assert home.run("cache")[:2] == (0, "")
    assert home.run("cache", "clear")[0] == 0
    assert not (tmp_path / "none").exists()


def test_a_file_that_has_grown_too_large_loses_its_oldest_third(home, monkeypatch):
    monkeypatch.setattr(record, "MOST_BYTES", 1)
    with Cache(home.root / "cache") as cache:
        assert cache.outcome("old") is None
        assert cache.outcome("new") is not None
        assert cache.outcome("other") is not None
