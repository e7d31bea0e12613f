"""A build on a GPU made of arithmetic, beside others: `python shared_build.py PROJECT INDEX`.

CUDA shows the one GPU at INDEX. Prints what was said, the rows' winners, and how much was compiled and launched.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from fake_runner import ROWS_ALONE
from fake_session import DRIVER, PROBED
from pretuned.backends import cuda
from pretuned.build import core, table
from pretuned.build.freshness import Freshness
from pretuned.compile.result import Toolchain
from pretuned.config import overlay, read_settings
from pretuned.device import probe
from pretuned.frontends.registry import load_project
from pretuned.measure.runner import Runner
from pretuned.tune import request, session
from pretuned.tune.binaries import BinaryStore
from reported import Reported

COMPILER = Toolchain(worker="killed_children:compiler", installed=lambda: "13.0.88", any_architecture="compute_80")


def main():
    folder, index = Path(sys.argv[1]), int(sys.argv[2])
    shown = tuple(replace(PROBED, index=i, uuid=f"GPU-{'b' if i == index else i}") for i in range(index + 1))
    probe.gpus = lambda given=None: shown
    probe.driver = lambda given=None: DRIVER
    cuda.Runner = lambda **_: Runner("killed_children:device")
    session.BinaryStore = partial(BinaryStore, workers=2)
    cuda.BACKEND.toolchain = COMPILER
    request.GPU_PROFILE = ROWS_ALONE
    settings = read_settings()
    project = overlay(load_project(folder), settings)
    specs = {name: spec for module in core.load_specs(project).values() for name, spec in module.items()}
    said = Reported()
    found = table.resolve(project, settings, Freshness(specs), said, lambda _event: None)
    rows = [[str(row.problem), str(row.winner.configuration)] for row in found.rows]
    spending = found.tuned.spending
    print(json.dumps({"said": said, "rows": rows, "compiled": spending.compiled, "launched": spending.launched}))


if __name__ == "__main__":
    main()
