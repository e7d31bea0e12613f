"""kill -9 of a tuning on a GPU: as on the device made of arithmetic, and the GPU's memory is free again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from killing import kill_and_resume, within

pytestmark = pytest.mark.gpu
SPEC = Path(__file__).parents[2] / "benchmarks" / "spaces" / "stream.toml"
KILLS = 10
ROWS = 32


def used_mib():
    command = ["nvidia-smi", "--id=0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_a_killed_tuning_leaves_nothing_on_the_gpu_and_loses_at_most_a_second(tmp_path):
    levels, freed = [used_mib()], []

    def after():
        freed.append(within(5, lambda: used_mib() <= levels[-1]))
        levels.append(used_mib())

    assert kill_and_resume(SPEC, tmp_path, "gpu", KILLS, after=after).split()[0] == str(ROWS)
    assert sum(freed) > KILLS // 2, levels  # other programs may take memory now and then
