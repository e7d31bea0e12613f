"""A sample of the fault campaigns in benchmarks/faults, which are run whole by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pretuned

ROOT = Path(__file__).parents[2]
SAMPLES = {"damage": 40, "disk": 5, "kills": 3}


@pytest.mark.slow
@pytest.mark.parametrize("campaign", SAMPLES)
def test_nothing_is_lost_and_nothing_wrong_accepted(campaign, tmp_path):
    command = [sys.executable, f"benchmarks/faults/{campaign}.py", "--count", str(SAMPLES[campaign]), "--seed", "7"]
    here = {**os.environ, "PYTHONPATH": str(Path(pretuned.__file__).parents[1]), "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
