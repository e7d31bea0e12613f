"""What won elsewhere at the same sizes is tried early: on another device, and in another specialisation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import H100
from fake_runner import DEVICE, FakeRunner, fake_workbench
from pretuned.build.freshness import Freshness
from pretuned.record.lock import Lock
from pretuned.strategies import NamedStrategy, named
from pretuned.strategies.hybrid import Hybrid
from pretuned.tune.tuner import Tuner
from pretuned.tune.workbench import Demands
from specs import loaded

H200 = replace(H100, name="NVIDIA H200")
BLOCKS = str(list(range(32, 1025, 8)))
NEEDLE = {"block": 872, "vec": 1}  # whose surroundings say nothing of it
FEW = Demands(strategy=NamedStrategy(name="test", make=lambda size, first: Hybrid(size, first, evaluations=40)))
ALL = Demands(strategy=named("exhaustive"))


@pytest.fixture
def spec(tmp_path):
    return loaded(tmp_path, ("[128, 256]", BLOCKS))


def needle(values, _dims):
    return 3.0 if values == NEEDLE else 10.0 / values["vec"] ** 0.5


def tuned(spec, lock, demands):
    """The rows after a tuning of all that `lock` lacks, by problem."""
    wanted = Freshness({spec.name: spec}).requests(lock, DEVICE)
    return {row.problem: row for row in Tuner(fake_workbench(FakeRunner(needle), demands=demands)).tune(wanted)}


def winners(rows):
    return [dict(row.winner.configuration.values) for row in rows.values()]


def test_a_search_begins_with_what_won_on_another_device(spec):
    missed = tuned(spec, Lock(), FEW)
    assert NEEDLE not in winners(missed)

    elsewhere = [replace(row, device=H200.name) for row in tuned(spec, Lock(), ALL).values()]
    assert [dict(row.winner.configuration.values) for row in elsewhere] == [NEEDLE] * len(elsewhere)
    lock = Lock().updated({H200.name: H200}, elsewhere)
    found = tuned(spec, lock, FEW)
    assert winners(found) == [NEEDLE] * len(missed)
    assert all(row.device == H100.name for row in found.values())


def test_a_search_begins_with_what_won_in_another_specialisation(spec):
    known = tuned(spec, Lock(), ALL)
    float16 = [row for problem, row in known.items() if dict(problem.specialisation)["T"] == "float16"]
    found = tuned(spec, Lock().updated({H100.name: H100}, float16), FEW)
    assert len(found) == len(known) - len(float16) > 0
    assert winners(found) == [NEEDLE] * len(found)


def test_what_is_no_longer_of_the_space_suggests_nothing(spec, tmp_path):
    elsewhere = [replace(row, device=H200.name) for row in tuned(spec, Lock(), ALL).values()]
    narrow = loaded(tmp_path, ("[128, 256]", "[128, 256, 512]"))
    found = tuned(narrow, Lock().updated({H200.name: H200}, elsewhere), FEW)
    assert found
    assert NEEDLE not in winners(found)
