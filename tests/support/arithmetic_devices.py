"""A backend with as many devices as ARITHMETIC_DEVICES says: two kinds, `arithmetic` the even ones, times by a formula.

It runs through real sessions, runners and compilers in processes of their own. A device whose number stands in
ARITHMETIC_DEADLY takes its tuning process down, once, when it is asked to measure.
The device whose number ARITHMETIC_BUSY names cannot be used, and that of ARITHMETIC_SILENT answers nothing.
Each look at candidates takes ARITHMETIC_S seconds more, and to compile a source ARITHMETIC_COMPILE_S.
The compiler says that it is ARITHMETIC_RELEASE, where that is set. ARITHMETIC_LOG is a file that gets a line when a
process begins with such a look and one when it ends: `begin` or `end`, and the process's id.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

from pretuned.backends import FoundDevice, SilentDevice
from pretuned.compile.result import Binary, Toolchain
from pretuned.errors import DeviceError
from pretuned.measure.requests import (
    Opened,
    OpenRequest,
    PrepareRequest,
    Raced,
    RaceRequest,
    Ready,
    Screened,
    ScreenRequest,
    Verified,
)
from pretuned.measure.runner import Runner
from pretuned.outcome import Timed
from pretuned.record.rows import TunedDevice
from pretuned.spec.space import DeviceFacts

FACTS = DeviceFacts(sm_count=4, compute_capability=90, shared_bytes=65536, l2_bytes=1 << 20)
RECORD = TunedDevice(
    name="arithmetic",
    sm_count=4,
    compute_capability=90,
    l2_bytes=1 << 20,
    shared_bytes=65536,
    memory_bytes=1 << 30,
    memory_gbps=0,
    power_w=0,
)
COMPILER = "arithmetic 1.0"


class ArithmeticDevices:
    name = "arithmetic"
    ships = False
    packages = ()
    toolchain = Toolchain(
        worker="arithmetic_devices:compiler", installed=lambda: COMPILER, any_architecture="arithmetic"
    )

    def label(self, index):
        return f"arithmetic device {index}"

    def find(self, index):
        kinds = os.environ.get("ARITHMETIC_DEVICES", "a").split(",")
        if index >= len(kinds):
            return None
        if os.environ.get("ARITHMETIC_SILENT") == str(index):
            return SilentDevice(reason="it fell off the bus")
        return FoundDevice(record=replace(RECORD, name=f"arithmetic:{ord(kinds[index]) - 97}"), driver="1.0")

    def lock_name(self, index):
        return f"arithmetic-{index}-{os.environ.get('ARITHMETIC_LOCKS', '')}"

    def require(self):
        pass

    def runner(self, index):
        deadly = os.environ.get("ARITHMETIC_DEADLY", "")
        mark = Path(deadly) if deadly else None
        if mark is not None and index == 1 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if os.environ.get("ARITHMETIC_BUSY") == str(index):
            raise DeviceError(f"{self.label(index)} is out of memory")
        return Runner("arithmetic_devices:device", index, name=self.label(index))

    def monitor(self, index):
        return None

    def refusal(self, source):
        return None


BACKEND = ArithmeticDevices()


def compiler():
    def compiled(job):
        source, architecture = job
        time.sleep(float(os.environ.get("ARITHMETIC_COMPILE_S", "0")))
        image = source.text.encode()
        return Binary(
            module=source.key,
            architecture=architecture,
            image=image,
            digest=hashlib.sha256(image).hexdigest(),
            flags=(),
            compiler=os.environ.get("ARITHMETIC_RELEASE", COMPILER),
            resources={},
        )

    return compiled


def device():
    def answer(request):
        match request:
            case OpenRequest():
                return Opened(facts=FACTS)
            case PrepareRequest():
                return Ready()
            case ScreenRequest(entries=entries):
                note("begin")
                time.sleep(float(os.environ.get("ARITHMETIC_S", "0")))
                note("end")
                timed = (Timed(time_us=time_us(entry), spread=0.0, samples=1) for entry in entries)
                return (Screened(outcome=outcome) for outcome in timed)
            case RaceRequest(entries=entries, rounds=rounds):
                times = tuple((time_us(entry),) * rounds for entry in entries)
                return Raced(times_us=times, failures=(None,) * len(entries))
        return Verified(failure=None)

    return answer


def note(what):
    if log := os.environ.get("ARITHMETIC_LOG"):
        with Path(log).open("a") as file:
            file.write(f"{what} {os.getpid()}\n")


def time_us(entry):
    values = dict(entry.configuration.values)
    return 100.0 / values["vec"] + values["block"] / 128
