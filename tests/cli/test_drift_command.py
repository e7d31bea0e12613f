"""`pretuned check --drift` on a device made of arithmetic: what has moved, and what that makes of the status."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace

import pytest

from builders import H100
from fake_runner import FakeRunner
from fake_session import Held, install
from pretuned.measure.requests import TooLarge
from pretuned.tune import session
from pretuned.tune.events import Waiting
from project_home import Home


class Device(Held):
    """Winners (vec = 4) take `winner_us`, defaults `default_us`; so much more than memory is what is `too_large`."""

    winner_us, default_us = 8.5, 10.0  # as the rows have it: 0.85 of the default's time
    wrong_at: int | None = None
    too_large_at: int | None = None

    def __init__(self, index=0, **_):
        FakeRunner.__init__(
            self,
            lambda values, dims: self.winner_us if values["vec"] == 4 else self.default_us,
            wrong=lambda values, dims: values["vec"] == 4 and dims["n"] == self.wrong_at,
        )

    def prepare(self, request):
        if dict(request.problem.dims)["n"] == self.too_large_at:
            return TooLarge(reason="takes 99 GB")
        return super().prepare(request)


@pytest.fixture
def home(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Device, "winner_us", 8.5)  # undone at the end, whatever a test sets
    for name in ("default_us", "wrong_at", "too_large_at"):
        monkeypatch.setattr(Device, name, getattr(Device, name))
    install(monkeypatch, tmp_path, runner=Device)
    home = Home(tmp_path, monkeypatch, capsys)
    found = [replace(row, choices=(replace(row.winner, time_us=8.5), row.default)) for row in home.rows()]
    home.write(found)
    return home


def found(home, *arguments):
    status, out, _ = home.run("check", "--drift", "--json", *arguments)
    return status, json.loads(out)["rows"]


def test_what_is_as_it_was_holds(home):
    before = home.lock.read_bytes()
    status, out, err = home.run("check", "--drift")
    assert (status, out) == (
        0,
        (
            "4 rows measured again: 4 holds\n"
            "note: the compiler here makes other binaries than those that were measured; these were timed\n"
        ),
    )
    assert err.startswith("NVIDIA H100 80GB HBM3: measured in ")
    assert home.lock.read_bytes() == before


def test_a_winner_that_is_slower_than_its_default_now_ends_with_9(home):
    Device.winner_us = 11.0
    status, rows = found(home)
    assert status == 9
    assert {row["verdict"] for row in rows} == {"slower"}
    assert all(1.05 < row["ratio"][1][0] <= row["ratio"][1][1] < 1.15 for row in rows)
    assert home.run("check", "--drift")[1].count("the winner takes 1.") == 4


def test_a_gain_that_has_moved_is_told_and_is_no_failure(home):
    Device.winner_us = 9.6
    status, rows = found(home)
    assert status == 0
    assert {row["verdict"] for row in rows} == {"moved"}
    assert all(row["reason"].endswith("of the default's time, not 0.800 to 0.900") for row in rows)


def test_a_device_that_is_slower_as_a_whole_has_moved(home):
    Device.winner_us, Device.default_us = 17.0, 20.0
    status, rows = found(home)
    assert status == 0
    assert all(
        row["reason"].startswith("the default takes ") and row["reason"].endswith(" us, not 10 us") for row in rows
    )


def test_a_winner_that_is_wrong_now_ends_with_9(home):
    Device.wrong_at = 1024
    status, rows = found(home)
    assert status == 9
    assert [row["verdict"] for row in rows] == ["fails", "holds", "fails", "holds"]
    assert rows[0]["reason"] == "wrong result: y: off"


def test_what_does_not_fit_is_not_measured(home):
    Device.too_large_at = 65536
    status, rows = found(home)
    assert status == 0
    assert [row["verdict"] for row in rows] == ["holds", "not measured"] * 2
    assert rows[1]["reason"] == "takes 99 GB"


def test_a_row_that_has_its_default_alone_is_timed(home):
    home.write([replace(row, choices=(row.default,)) for row in home.rows()])
    assert {row["verdict"] for row in found(home)[1]} == {"holds"}
    Device.default_us = 12.0
    status, rows = found(home)
    assert (status, {row["verdict"] for row in rows}) == (0, {"moved"})


def test_stale_rows_and_other_devices_are_left_out(home):
    first, *rest = home.rows()
    l4 = replace(H100, name="NVIDIA L4", sm_count=58)
    stale = replace(first, choices=(replace(first.winner, candidate="of yesterday"), first.default))
    home.write([stale, *rest, *home.rows(device=l4.name)], H100, l4)
    status, rows = found(home)
    assert [(row["device"], row["problem"]["n"]) for row in rows] == [
        (H100.name, 65536),
        (H100.name, 1024),
        (H100.name, 65536),
    ]
    assert status == 0


def test_without_rows_or_a_gpu_the_error_says_what_to_do(home, monkeypatch):
    home.lock.unlink()
    assert home.run("check", "--drift") == (
        4,
        "",
        f"error: pretuned.lock.json has no rows for {H100.name} that are not stale; run `pretuned tune`\n",
    )
    install(monkeypatch, home.root, gpus=())
    assert home.run("check", "--drift")[0] == 5


def test_another_tuning_is_waited_for(home, monkeypatch):
    @contextmanager
    def lock(_device, listen, *_):
        listen(Waiting(device="the GPU"))
        yield

    monkeypatch.setattr(session, "device_lock", lock)
    assert "another tuning uses the GPU; waiting for it to end\n" in home.run("check", "--drift")[2]
