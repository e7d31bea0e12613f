"""A session's device and compiler made of arithmetic, and the GPU that the driver shows; `install` brings them in."""

from __future__ import annotations

from builders import H100
from fake_runner import ROWS_ALONE, FakeBinaries, FakeRunner
from pretuned.backends import cuda
from pretuned.device import probe
from pretuned.device.probe import DriverVersion, Gpu
from pretuned.tune import request, session

DRIVER = DriverVersion(version="580.65.06", cuda=(13, 0))
PROBED = Gpu(
    index=0,
    name=H100.name,
    uuid="",
    compute_capability=90,
    sm_count=132,
    l2_bytes=H100.l2_bytes,
    shared_bytes=H100.shared_bytes,
    memory_bytes=H100.memory_bytes,
    memory_gbps=H100.memory_gbps,
    power_w=H100.power_w,
)


class Held(FakeRunner):
    def __init__(self, index=0, **_):
        super().__init__(lambda values, dims: 10.0 / values["vec"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Shelf(FakeBinaries):
    def __init__(self, cache, spending, *, toolchain=None, hurried=False, listen=None):
        super().__init__()

    __enter__, __exit__ = Held.__enter__, Held.__exit__


def install(monkeypatch, folder, *, gpus=(PROBED,), runner=Held, binaries=Shelf):
    """Show `gpus`, and have sessions run on `runner` with `binaries`, and settle rows alone; locks are in `folder`."""
    monkeypatch.setattr(probe, "gpus", lambda given=None: gpus)
    monkeypatch.setattr(probe, "driver", lambda given=None: DRIVER if gpus else None)
    monkeypatch.setattr(request, "GPU_PROFILE", ROWS_ALONE)
    monkeypatch.setattr(cuda, "Runner", runner)
    monkeypatch.setattr(session, "BinaryStore", binaries)
    monkeypatch.setattr(session.tempfile, "gettempdir", lambda: str(folder))
    monkeypatch.setattr(session, "SHARED", folder)
