"""Workers whose devices are a formula and a clock: what they measure is logged, and they can lie.

A `SimulatedWorker` is plain data that is called with a unit, as an executor calls `pretuned.fleet.worker.work`. It
sleeps for each row as a GPU would be busy, and writes a line into `log` for each row that it measures.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import arithmetic_devices
from builders import H100, choice
from builders import row as fresh_row
from pretuned import backends
from pretuned.fleet.answers import WorkerEvidence, answer_of
from pretuned.fleet.units import Unit
from pretuned.record.cache import CacheEntry, sealed
from pretuned.record.rows import TunedDevice
from pretuned.spec import space
from pretuned.spec.loader import load
from pretuned.spec.space import all_problems
from pretuned.tune.drift import Drift, judge
from pretuned.tune.request import TuningDevice, TuningRequest
from pretuned.tune.session import Tuned
from pretuned.tune.spending import Spending
from pretuned.version import __version__
from specs import SCALE, SCALE_TEMPLATE, edited, write

DRIVER, NVRTC = "580.159.04", "13.0.88"
DEVICE = TuningDevice(record=H100, driver=DRIVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedWorker:
    """A worker; `row_s` is what a row takes, `lie` what is wrong with its answers, `chip` how much slower it is."""

    log: Path | None = None
    row_s: float = 0.0
    device: TunedDevice = H100
    driver: str = DRIVER
    compiler: str = NVRTC
    gpu: str = ""
    lie: str = ""
    chip: float = 1.0

    def evidence(self, name):
        gpu = self.gpu or f"gpu of {name}"
        return WorkerEvidence(
            worker=name, gpu=gpu, device=self.device, driver=self.driver, compiler=self.compiler, version=__version__
        )

    def __call__(self, unit: Unit, worker: str = ""):
        name = worker or f"{os.getpid()}:{threading.get_ident()}"
        evidence = self.evidence(name)
        if unit.confirms:
            drifts = () if unit.not_on == evidence.gpu else tuple(map(self._again, unit.confirms))
            return replace(answer_of(unit, evidence, _tuned(unit, ())), drifts=drifts)
        began = time.perf_counter()
        rows = []
        for problem in unit.request.problems:
            self._measure(f"{unit.kernel} {problem}", name)
            rows.append(self._row(unit, problem))
        cached = tuple(_entry(unit, row) for row in rows)
        spending = {"launched": len(rows), "seconds": {"screening": self.row_s * len(rows)}}
        seconds = time.perf_counter() - began
        answer = answer_of(unit, evidence, _tuned(unit, rows), cache=cached, spending=spending, seconds=seconds)
        if self.lie == "bytes":
            return replace(answer, lock=answer.lock.replace('"time_us": ', '"time_us": 1'))
        return answer

    def _row(self, unit, problem):
        spec = unit.request.spec
        row = fresh_row(spec, problem, device=self.device.name)
        listed = list(space.configurations(spec, problem))
        times = sorted((invented_us(unit.kernel, problem, one), place) for place, one in enumerate(listed))
        default = space.default(spec)
        best_us, place = times[0]
        default_us = invented_us(unit.kernel, problem, default)
        ratio = (round(best_us / default_us - 0.01, 4), round(best_us / default_us + 0.01, 4))
        choices = [choice(spec, problem, default, default_us, (1.0, 1.0))]
        if listed[place] != default:
            choices.insert(0, choice(spec, problem, listed[place], best_us, ratio))
        driver = "999.1" if self.lie == "driver of a row" else self.driver
        found = replace(row, choices=tuple(choices), driver=driver, compiler=self.compiler)
        return replace(found, verification="0" * 32) if self.lie == "reference" else found

    def _again(self, row):
        winner_us, default_us = row.winner.time_us * self.chip, row.default.time_us * self.chip
        verdict, reason = judge(row, winner_us, default_us, row.winner.ratio)
        return Drift(
            row=row, verdict=verdict, reason=reason, winner_us=winner_us, default_us=default_us, ratio=row.winner.ratio
        )

    def _measure(self, what, name):
        time.sleep(self.row_s)
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(f"{what} | {name}\n")


def look(worker: SimulatedWorker, _backend: str, name: str) -> WorkerEvidence:
    """What a worker of Dask answers when it is asked what it has."""
    return worker.evidence(name)


def invented_us(kernel, problem, configuration):
    """What a configuration takes, on whatever device."""
    digest = hashlib.blake2b(f"{kernel} {problem} {configuration}".encode(), digest_size=8).digest()
    return round(5 + 10 * int.from_bytes(digest) / 2**64, 4)


def _tuned(unit, rows):
    device = unit.device
    return Tuned(device=device, rows=tuple(rows), skipped=(), left=unit.rows - len(rows), spending=Spending())


def _entry(unit, row):
    name = f"record:{row.kernel} {row.problem}"
    return CacheEntry(name=name, kernel=unit.kernel, device=row.device, sealed=sealed(name, f"{row.winner.time_us}"))


def requests(folder: Path, kernels: int, *, modes: int = 1) -> list[TuningRequest]:
    """Requests for kernels in a folder of `folder`: `2 * modes` specialisations each, of two problems."""
    folder /= "kernels"
    folder.mkdir(exist_ok=True)
    modes_of = ("[specialisations]\n", f"[specialisations]\nmode = {{ values = {list(range(modes))} }}\n")
    named = ("arguments = [", 'template = "scale.cu.jinja"\narguments = [')
    toml, template = edited(SCALE, modes_of, named), "// in mode {{ mode }}\n" + SCALE_TEMPLATE
    specs = [load(write(folder, toml, name=f"scale{n:03d}", template=template)) for n in range(kernels)]
    return [TuningRequest(spec=spec, problems=tuple(all_problems(spec))) for spec in specs]


@dataclass(frozen=True, slots=True, kw_only=True)
class LyingAt:
    """Workers of which those at some addresses answer as `liar` does, and the others as `honest` does."""

    liars: tuple[str, ...]
    liar: SimulatedWorker
    honest: SimulatedWorker

    def __call__(self, unit: Unit, worker: str):
        return (self.liar if worker in self.liars else self.honest)(unit, worker)


def serve():
    """What a child of this machine's crew runs in place of `pretuned.fleet.serving:serve`; a row takes ROW_S.

    A kernel in DEADLY ends its process, each time. The file that HANGING names has one unit hang, and is removed then.
    LYING is what is wrong with every answer. With SLOW
    "scale003, T=float16: 5" the units of that kernel, at that specialisation, take five times as long.
    """
    row_s, deadly = float(os.environ["ROW_S"]), os.environ.get("DEADLY", "-")
    slow, _, times = os.environ.get("SLOW", "").partition(": ")
    hanging, lie = os.environ.get("HANGING", "-"), os.environ.get("LYING", "")
    backends.register("arithmetic", arithmetic_devices.BACKEND)  # whose devices the seats are

    def settled(request):
        seat, unit = request
        if unit.kernel == deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        with contextlib.suppress(FileNotFoundError):
            Path(hanging).unlink()
            time.sleep(600)
        device, (chosen,) = unit.device, unit.specialisations
        slower = float(times) if f"{unit.kernel}, {space.describe(chosen)}".startswith(slow or "-") else 1.0
        simulated = SimulatedWorker(row_s=row_s * slower, device=device.record, driver=device.driver, lie=lie)
        yield simulated(unit, seat.worker)

    return settled
