"""A tuning to be killed, of a device made of arithmetic or of GPU 0: `python killed_tuner.py SPEC CACHE fake|gpu`."""

import sys
from pathlib import Path

from builders import H100
from pretuned.compile.nvrtc import NVRTC
from pretuned.compile.result import Toolchain
from pretuned.config import GPU
from pretuned.measure.runner import Runner
from pretuned.record.cache import Cache
from pretuned.record.rows import Row
from pretuned.spec.loader import load
from pretuned.spec.space import all_problems
from pretuned.tune.binaries import BinaryStore
from pretuned.tune.request import TRIAL_PROFILE, TuningDevice, TuningRequest, find_device
from pretuned.tune.spending import Spending
from pretuned.tune.tuner import Tuner
from pretuned.tune.workbench import Workbench

FAKE = Toolchain(worker="killed_children:compiler", installed=lambda: "13.0.88", any_architecture="compute_80")


def main():
    spec, on_gpu = load(Path(sys.argv[1])), sys.argv[3] == "gpu"
    spending = Spending()
    with (
        Cache(Path(sys.argv[2])) as cache,
        BinaryStore(cache, spending, workers=2, toolchain=NVRTC if on_gpu else FAKE) as binaries,
        Runner("killed_children:gpu" if on_gpu else "killed_children:device", spares=1) as runner,
    ):
        workbench = Workbench(
            runner=runner,
            device=find_device(GPU, {}) if on_gpu else TuningDevice(record=H100, driver="580", effort=TRIAL_PROFILE),
            binaries=binaries,
            cache=cache,
            spending=spending,
            listen=lambda _event: None,
        )
        found = list(Tuner(workbench).tune([TuningRequest(spec=spec, problems=tuple(all_problems(spec)))]))
    print(sum(isinstance(one, Row) for one in found), spending.launched, spending.compiled)


if __name__ == "__main__":
    main()
