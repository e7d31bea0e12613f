"""kill -9 of a tuning at random moments: its children die with it, the cache stays whole, nothing is measured twice."""

from __future__ import annotations

import sys

import pytest

from killing import kill_and_resume
from specs import SCALE, edited, write

KILLS = [6, pytest.param(12, marks=pytest.mark.slow)]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.mark.parametrize("kills", KILLS)
def test_a_killed_tuning_loses_at_most_a_second(kills, tmp_path):
    wide = edited(
        SCALE, ("[1024, 65536]", "[1024, 2048, 65536, 99999999]"), ("[128, 256]", f"{list(range(32, 1025, 32))}")
    )
    assert kill_and_resume(write(tmp_path, wide), tmp_path, "fake", kills).split()[0] == "8"
