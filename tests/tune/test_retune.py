"""Tuning again on a device whose times are noise over many near ties: the lock stays, byte for byte."""

from __future__ import annotations

import random

import pytest

from builders import H100
from fake_runner import DEVICE, FakeRunner, fake_workbench
from pretuned.build.freshness import Freshness
from pretuned.record.cache import Cache
from pretuned.record.lock import Lock, dumps
from pretuned.spec.loader import load
from pretuned.tune.tuner import Tuner
from specs import SCALE, edited, loaded, write

BLOCKS = str(list(range(32, 257, 32)))


@pytest.fixture
def spec(tmp_path):
    return loaded(tmp_path, ("[128, 256]", BLOCKS))


def near_ties(values, _dims):
    """Eight blocks lie within 0.4% of each other, at each of three widths with guards of its own."""
    return 10 / values["vec"] ** 0.5 * (1 + values["block"] * 7 % 5 / 1000)


def tuned(spec, lock, seed, model=near_ties):
    """The lock after a tuning of everything, with the noise of `seed`."""
    gpu = FakeRunner(model)
    gpu.random = random.Random(seed)
    wanted = Freshness({spec.name: spec}).requests(lock, DEVICE, everything=True)
    return lock.updated({H100.name: H100}, Tuner(fake_workbench(gpu)).tune(wanted))


def test_noise_changes_no_line(spec):
    lock = tuned(spec, Lock(), 0)
    assert all(len(row.choices) == 3 for row in lock.rows)
    for seed in range(1, 6):
        assert dumps(tuned(spec, lock, seed)) == dumps(lock)


def test_what_has_become_faster_changes_its_row(spec):
    lock = tuned(spec, Lock(), 0)
    held = {dict(choice.configuration.values)["block"] for row in lock.rows for choice in row.choices}
    block = min(set(range(32, 257, 32)) - held)

    def faster(values, dims):
        return near_ties(values, dims) * (0.97 if values["block"] == block and dims["n"] == 1024 else 1.0)

    new = tuned(spec, lock, 1, faster)
    changed = [dict(row.problem.dims)["n"] for row, was in zip(new.rows, lock.rows, strict=True) if row != was]
    assert changed == [1024, 1024]


def test_a_kernel_that_was_copied_or_renamed_takes_what_was_measured_over_under_its_own_name(spec, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    beside = ("arguments = [", 'template = "scale.cu.jinja"\narguments = [')
    copied = load(write(other, edited(SCALE, ("[128, 256]", BLOCKS), beside), name="copied"))
    cache, found = Cache(None), {}
    for one in (spec, copied):
        gpu = FakeRunner(near_ties)
        wanted = Freshness({one.name: one}).requests(Lock(), DEVICE, everything=True)
        found[one.name] = list(Tuner(fake_workbench(gpu, cache=cache)).tune(wanted))
    assert gpu.requests == []  # nothing was measured again
    assert {entry.kernel for entry in found["copied"]} == {"copied"}
    assert len(found["copied"]) == len(found[spec.name]) > 0
