"""At which odd sizes a finalist is verified."""

from __future__ import annotations

import pytest

from fake_runner import FakeRunner, fake_workbench
from pretuned.measure.requests import Verified
from pretuned.outcome import LaunchFailed
from pretuned.spec.space import Problem, all_problems
from pretuned.tune.request import TuningRequest
from pretuned.tune.soundness import check_problems
from pretuned.tune.tuner import Tuner
from specs import loaded

FLOAT = (("T", "float32"),)


def problem(**dims):
    return Problem(specialisation=FLOAT, dims=tuple(sorted(dims.items())))


def checked(spec, **dims):
    return [tuple(size for _, size in found.dims) for found in check_problems(spec, problem(**dims))]


def test_tiny_sizes_the_lower_edge_and_one_less(tmp_path):
    spec = loaded(tmp_path)
    assert checked(spec, n=1024) == [(0,), (1,), (37,), (1023,)]
    assert checked(spec, n=65536) == [(0,), (1,), (37,), (8192,), (65535,)]


def test_what_the_kernel_does_not_admit_is_left_out(tmp_path):
    spec = loaded(tmp_path, ("[constraints]", '[constraints]\nrequires = ["n >= 1", "n % 2 == 0 or n < 100"]'))
    assert checked(spec, n=1024) == [(1,), (37,)]


class RefusedAtOddSizes(FakeRunner):
    """One configuration is fastest, and are refused at odd sizes for a reason."""

    def __init__(self, reason):
        super().__init__(lambda values, _dims: 5.0 if values == {"block": 128, "vec": 1} else 10.0)
        self.reason = reason

    def verify(self, entry):
        if dict(entry.configuration.values)["block"] == 128 and self.dims["n"] % 2:
            return Verified(failure=LaunchFailed(message=self.reason), error=0.0)
        return super().verify(entry)


@pytest.mark.parametrize(
    ("reason", "ships"), [("scratch: 9 bytes cannot be allocated", True), ("cupy.add: ValueError: odd", False)]
)
def test_what_has_no_room_for_its_scratch_at_an_odd_size_ships_all_the_same(tmp_path, reason, ships):
    request = TuningRequest(spec=(spec := loaded(tmp_path)), problems=tuple(all_problems(spec)))
    found = list(Tuner(fake_workbench(RefusedAtOddSizes(reason))).tune([request]))
    assert all(row.winner.configuration.values == (("block", 128), ("vec", 1)) for row in found) is ships
