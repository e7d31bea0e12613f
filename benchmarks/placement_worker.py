"""The process of placement.py in which candidates race, one thing changed each time."""

from __future__ import annotations

import random

from pretuned.measure.requests import RaceRequest
from pretuned.measure.rounds import RunAll


class Worker:
    """A bench on the GPU, and what is changed between two races."""

    def __init__(self):
        import pynvml  # noqa: PLC0415 - on a machine with a GPU

        from pretuned.measure.bench import Bench  # noqa: PLC0415
        from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415

        self.machine = CudaMachine(0)
        self.bench = Bench(self.machine)
        self.held = []
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        self.clock = lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)

    def __call__(self, request):
        if request == "open":
            return True
        change, prepare, raced, dummies, seed = request
        draw = random.Random(seed)
        if change in {"pages", "gaps"}:
            self.reallocate(draw)
        self.bench.prepare(prepare)
        if change == "reload":
            self.reload(draw, raced.entries, dummies)
        order = list(range(len(raced.entries)))
        if change == "order":
            draw.shuffle(order)
        asked = RaceRequest(
            entries=tuple(raced.entries[index] for index in order),
            estimates_us=tuple(raced.estimates_us[index] for index in order),
            rounds=raced.rounds,
            rule=RunAll(),
        )
        answer = self.bench.race(asked)
        times = dict(zip(order, answer.times_us, strict=True))
        return {
            "times_us": [times[index] for index in range(len(order))],
            "clock_mhz": self.clock(),
            "canary_us": answer.canary_us,
        }

    def reallocate(self, draw):
        self.machine.synchronize()
        self.bench._prepared.forget_all()
        self.held.clear()
        self.machine.trim()
        self.held += [self.machine.allocate(draw.randrange(1 << 16, 1 << 27)) for _ in range(draw.randrange(1, 40))]

    def reload(self, draw, entries, dummies):
        from pretuned.measure.cuda.kernel import LoadedBinary  # noqa: PLC0415
        from pretuned.measure.cuda.launching import driver  # noqa: PLC0415

        self.machine.synchronize()
        modules = self.machine._modules
        for module in modules.values():
            module.unload()
        modules.clear()
        images = [self.bench._images.get(entry.digest) or entry.image for entry in entries]
        for image in draw.sample(images, len(images)):
            for _ in range(draw.randrange(4)):
                driver.moduleLoadData(draw.choice(dummies))  # stays
            modules[image] = LoadedBinary(image)


def serve():
    """What answers requests in the worker."""
    return Worker()
