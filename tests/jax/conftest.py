"""A package with functions for JAX, beside a driver that executes its kernels in the memory of the CPU."""

import ctypes
import importlib
import sys

import numpy as np
import pytest

import sample
from fake_cuda import SIGNATURES, FakeCuda
from pairs import pair
from pretuned.bake.package import files

COUNTED = """\
format = 1
arguments = [
  { name = "count", role = "out", dtype = "int32", shape = [1], init = 0 },
  { name = "x", role = "in", dtype = "float32", shape = ["n"] },
  { name = "n", dtype = "int32" },
]
dims = { n = { sizes = [64] } }
launches = [{ function = "counted", grid = [1], block = [32] }]
"""
TEMPLATE = 'extern "C" __global__ void counted(int* count, const float* x, int n) {}\n'
FLOATS = ctypes.POINTER(ctypes.c_float)


def floats(address, *shape):
    """Return memory as an array of float32."""
    return np.ctypeslib.as_array(ctypes.cast(address, FLOATS), shape)


class ComputingCuda(FakeCuda):
    """The driver, whose launches compute on the CPU what the sample's kernels say."""

    def cuLaunchKernelEx(self, *launch):  # noqa: N802 - the driver's name
        if status := super().cuLaunchKernelEx(*launch):
            return status
        done = self.launches[-1]
        if done.function == "affine":
            y, x, alpha, rows, cols = done.arguments
            floats(y, rows, cols)[:] = alpha * floats(x, rows, cols)
        if done.function == "accumulate":
            total, last, x, n = done.arguments
            added = floats(x, n, 2).sum(0)
            floats(total, 2)[:] += added
            floats(last, 1)[:] += added[0]
        if done.function == "norm":
            y, rstd, x, weight, eps, rows, cols = done.arguments
            x, weight = floats(x, rows, cols), floats(weight, cols)
            floats(rstd, rows)[:] = scale = 1 / np.sqrt((x * x).mean(1) + eps)
            floats(y, rows, cols)[:] = x * scale[:, None] * weight
        if done.function == "norm_backward":
            dx, dw, dy, x, weight, rstd, rows, cols = done.arguments
            x, dy, scale = floats(x, rows, cols), floats(dy, rows, cols), floats(rstd, rows)[:, None]
            scaled = dy * floats(weight, cols)
            floats(dx, rows, cols)[:] = scale * scaled - x * scale**3 * (scaled * x).mean(1)[:, None]
            floats(dw, cols)[:] += (dy * x * scale).sum(0)
        return 0

    def cuMemsetD8Async(self, address, value, nbytes, stream):  # noqa: N802 - as above
        ctypes.memset(address, value.value, nbytes.value)
        return super().cuMemsetD8Async(address, value, nbytes, stream)


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    """Bake the sample with `jax = true` as `jpkg.tuned`, and import it once: XLA takes a name once."""
    folder = tmp_path_factory.mktemp("jax")
    (folder / "specs").mkdir()
    (folder / "specs" / "counted.toml").write_text(COUNTED)
    (folder / "specs" / "counted.cu.jinja").write_text(TEMPLATE)
    specs = sample.specs() | pair(folder / "specs")
    plan = sample.plan(specs, sample.rows(), sample.DEVICES, selections=sample.selections())
    sample.write({"__init__.py": b""}, folder / "jpkg")
    sample.write(files(plan, sample.binaries(plan), version="0.0.0", jax=True), folder / "jpkg" / "tuned")
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("jpkg.tuned.jax")
    finally:
        sys.path.remove(str(folder))


@pytest.fixture
def tuned(package, monkeypatch):
    """The functions for JAX, where there is no GPU."""
    del monkeypatch
    forget()
    yield package
    forget()


@pytest.fixture
def cuda(tuned, monkeypatch):
    """A driver with one H100, to which XLA's calls on the CPU go: by the handler that a GPU's go through."""
    monkeypatch.setitem(SIGNATURES, "counted", "QQi")
    monkeypatch.setitem(SIGNATURES, "norm", "QQQQfii")
    monkeypatch.setitem(SIGNATURES, "norm_backward", "QQQQQQii")
    fake = ComputingCuda()
    fake.devices = fake.devices[:1]
    monkeypatch.setattr(module("driver"), "load_libcuda", lambda: fake)
    handler = module("jax.handler")
    for name in ("instantiate", "execute"):
        monkeypatch.setattr(handler.RefusedTarget, name, getattr(handler.FfiTarget, name))
    monkeypatch.setattr(handler.FfiTarget, "_stream", lambda _target, _frame: 7)
    monkeypatch.setattr(handler.FfiTarget, "_ordinal", lambda _target, _driver, _frame: 0)
    return fake


def module(name):
    """Return a module of the package's runtime."""
    return importlib.import_module(f"jpkg.tuned._runtime.{name}")


@pytest.fixture
def part(tuned):
    """What returns a module of the package's runtime."""
    del tuned
    return module


def forget():
    """Begin anew, as a new process would: no driver, no plans, no functions."""
    for name, kept in (("driver", "_loaded"), ("calls", "callers"), ("devices", "_found"), ("calls", "_warned")):
        getattr(module(name), kept).clear()
    for kept in ("_libraries", "_chosen", "_functions"):
        getattr(module("binaries"), kept).clear()
    module("jax.functions")._functions.clear()
    module("overrides")._changed()
    for one in sys.modules["jpkg.tuned as XLA knows it"].__dict__.values():
        if hasattr(one, "target"):
            one.target.known.clear()
            one.target._driver = None
