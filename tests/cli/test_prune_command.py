"""`pretuned prune`: what goes, and what stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import H100
from pretuned.record.rows import Skipped
from project_home import Home

L4 = replace(H100, name="NVIDIA L4", sm_count=58, compute_capability=89)


@pytest.fixture
def home(tmp_path, monkeypatch, capsys):
    home = Home(tmp_path, monkeypatch, capsys)
    first, *rest = home.rows()
    stale = replace(first, choices=(replace(first.winner, candidate="of yesterday"), first.default))
    gone = replace(first, kernel="gone")
    skipped = Skipped(kernel="gone", device=L4.name, problem=first.problem, reason="takes 99 GB")
    home.write([stale, *rest, gone, *home.rows(device=L4.name)], H100, L4, skipped=[skipped])
    return home


def left(home):
    return sorted({(key[0], key[1]) for key in home.read().keys})


def test_a_device_goes_with_all_its_rows(home):
    assert home.run("prune", "--device", "NVIDIA L4") == (
        0,
        "gone on NVIDIA L4: 1 row removed\nscale on NVIDIA L4: 4 rows removed\n",
        "pretuned.lock.json: 5 rows left\n",
    )
    assert list(home.read().devices) == [H100.name]


def test_what_the_host_device_has_goes_from_its_own_lock(home):
    lock = home.root / "pretuned.lock.host.json"
    home.write(home.rows(device="host (x86_64)"), replace(H100, name="host (x86_64)"), path=lock)
    whole = home.lock.read_bytes()
    assert home.run("prune", "--on", "host", "--kernel", "scale") == (
        0,
        "scale on host (x86_64): 4 rows removed\n",
        "pretuned.lock.host.json: 0 rows left\n",
    )
    assert home.lock.read_bytes() == whole
    assert home.run("prune", "--on", "host", "--kernel", "scale")[2] == (
        "pretuned.lock.host.json: no rows, so nothing to remove\n"
    )


def test_a_kernel_goes_also_one_that_has_no_spec_any_more(home):
    home.run("prune", "--kernel", "gone")
    assert left(home) == [("scale", H100.name), ("scale", "NVIDIA L4")]


def test_stale_rows_go(home):
    assert home.run("prune", "--stale")[2] == "pretuned.lock.json: 7 rows left\n"
    assert home.run("check")[1].count("missing") > 0
    assert home.run("prune", "--stale") == (0, "", "pretuned.lock.json: nothing to remove\n")


def test_several_options_must_all_fit(home):
    home.run("prune", "--stale", "--kernel", "scale")
    assert left(home) == [("gone", H100.name), ("gone", "NVIDIA L4"), ("scale", H100.name), ("scale", "NVIDIA L4")]
    assert sum(row.device == H100.name for row in home.read().rows) == 4


def test_where_nothing_is_there_nothing_is_removed(home):
    home.lock.unlink()
    said = home.run("prune", "--device", H100.name)
    assert said == (0, "", "pretuned.lock.json: no rows, so nothing to remove\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name what to remove: --device NAME, --kernel NAME, --stale, or several that must all fit"),
        (("--device", "NVIDIA L5"), "the lock has no device 'NVIDIA L5'; did you mean 'NVIDIA L4'?"),
        (("--kernel", "scal"), "the lock has no kernel 'scal'; did you mean 'scale'?"),
    ],
)
def test_what_is_not_there_is_an_error_and_nothing_goes(home, arguments, message):
    before = home.lock.read_bytes()
    status, _, err = home.run("prune", *arguments)
    assert (status, message in err) == (2, True)
    assert home.lock.read_bytes() == before
