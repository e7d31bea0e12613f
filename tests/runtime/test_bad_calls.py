"""Calls that are wrong, and the message of each: at the first call, and when the fast path knows the problem."""

from __future__ import annotations

import compileall
import importlib
import sys
from fractions import Fraction

import numpy as np
import pytest

import bad_calls
import fake_cuda
import sample
from fake_torch import FakeTorch
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.spec.loader import load as load_spec

NUMBERS = """\
format = 1
summary = "y = beta * x, with numbers of every kind beside."
arguments = [
  { name = "y", role = "out", dtype = "T", shape = ["n"] },
  { name = "x", role = "in", dtype = "T", shape = ["n"] },
  { name = "beta", dtype = "float64", value = 0.5 },
  { name = "count", dtype = "int32", value = 1 },
  { name = "offset", dtype = "uint64", value = 1 },
  { name = "flag", dtype = "bool", value = true },
  { name = "n", dtype = "int64" },
]

[dims]
n = { sizes = [1024] }

[specialisations]
T = { dtypes = ["float32", "float64"] }

[space]
block = [128]

[default]
block = 128

[[launches]]
function = "numbers"
grid     = ["ceil_div(n, block)"]
block    = ["block"]
"""
SOURCE = """\
extern "C" __global__ void numbers({{ T }}* y, const {{ T }}* x, double beta, int count, unsigned long long offset,
                                   bool flag, long long n) {
    constexpr int block = {{ block }};
}
"""
MODES = ("cold", "warm", "both warm, after using", "one GPU, without CuPy's launch")


class Session:
    """What calls are made with: the package, and one library's arrays of a good call of each kernel."""

    def __init__(self, tuned, module):
        self.tuned, self.module = tuned, module
        self.kernels = tuned._affine, tuned._accumulate, tuned._numbers
        self.array = module.ndarray if module.__name__ == "cupy" else module.Tensor
        self.x, self.y = self.array((16, 1024), "float32"), self.array((16, 1024), "float32")
        self.total, self.last, self.rows = (self.array(shape, "float32") for shape in ((2,), (1,), (9, 2)))
        self.v, self.w = self.array((1024,), "float32"), self.array((1024,), "float32")

    def affine(self, x=None, alpha=1.0, *, relu=False, **keywords):
        return self.tuned.affine(self.x if x is None else x, alpha, relu=relu, **({"y": self.y} | keywords))

    def accumulate(self, total=None, x=None, **keywords):
        total, x = self.total if total is None else total, self.rows if x is None else x
        return self.tuned.accumulate(total, x, **({"last": self.last} | keywords))

    def numbers(self, x=None, *, beta=0.5, count=1, offset=1, flag=True, **keywords):
        x = self.v if x is None else x
        return self.tuned.numbers(x, beta, count, offset, flag, **({"y": self.w} | keywords))

    def beside(self, array, distance, shape=(16, 1024)):
        """Return an array that begins so many bytes after another."""
        begin = array.data.ptr if self.module.__name__ == "cupy" else array.data_ptr()
        return self.array(shape, "float32", address=begin + distance)

    def on(self, device):
        return self.array((16, 1024), "float32", device=device)

    def stream(self, handle, device):
        return self.module.cuda.Stream(handle, device)

    def good(self):
        """Make the good calls."""
        self.affine()
        self.affine(relu=True)
        self.tuned.affine(self.x, 1.0, relu=False)
        self.accumulate()
        self.numbers()


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The sample package with one more kernel, whose calls bring numbers of every kind."""
    folder = tmp_path_factory.mktemp("bad_calls")
    (folder / "numbers.toml").write_text(NUMBERS, encoding="utf-8")
    (folder / "numbers.cu.jinja").write_text(SOURCE, encoding="utf-8")
    specs = sample.specs() | {"numbers": load_spec(folder / "numbers.toml")}
    planned = plan(specs, sample.rows(), sample.DEVICES)
    sample.write({"__init__.py": b""}, folder / "pkg")
    sample.write(files(planned, sample.binaries(planned), version="0.0.0"), folder / "pkg" / "tuned")
    compileall.compile_dir(folder / "pkg", quiet=1)  # imported anew by every test
    return folder


@pytest.fixture
def sessions(load, folder, cuda, cupy, monkeypatch):
    """A session by library, of a machine with two GPUs."""
    monkeypatch.setenv("PRETUNED_WARN", "0")
    monkeypatch.setitem(fake_cuda.SIGNATURES, "numbers", "QQdiQ?q")
    ask = cuda.cuPointerGetAttribute
    monkeypatch.setattr(cuda, "cuPointerGetAttribute", lambda *call: 1 if call[2].value == 16 else ask(*call))
    monkeypatch.setattr(cupy, "from_dlpack", lambda value: value.__dlpack__(), raising=False)
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    tuned = load(folder)
    return {module.__name__: Session(tuned, module) for module in (cupy, torch)}


def cases():
    found = []
    for library, own in (("cupy", bad_calls.CUPY), ("torch", bad_calls.TORCH)):
        for mode in MODES:
            table = [*bad_calls.BOTH, *own, *([] if mode.startswith("one GPU") else bad_calls.TWO_GPUS)]
            found += [pytest.param((library, mode), *rest, id=f"{name}, {library}, {mode}") for name, *rest in table]
    return found


@pytest.fixture
def session(request, sessions, cuda, cupy, fast_path_on):
    """A library's session, with nothing called yet or all fast paths open."""
    library, mode = request.param
    if mode.startswith("one GPU"):
        cuda.devices.pop()
        del cupy.cuda.driver.launchKernel
    if mode.startswith("both"):
        with sessions[library].tuned.using():
            pass
    warm = {"cold": [], "warm": [sessions[library]]}.get(mode, sessions.values())
    for _ in range(4):
        for one in warm:
            one.good()
    calls = importlib.import_module("pkg.tuned._runtime.calls")
    for one in warm:
        assert not fast_path_on or all((one.module.__name__,) in calls.caller(kernel).paths for kernel in one.kernels)
    return sessions[library]


@pytest.mark.parametrize(("session", "kind", "call", "message"), cases(), indirect=["session"])
def test_a_wrong_call_is_refused_in_clear_words(session, cuda, kind, call, message):
    """The fast path never lets through what the call from its beginning refuses."""
    before = len(cuda.launches), len(cuda.memsets)
    with pytest.raises(kind) as caught:
        call(session)
    assert isinstance(caught.value, session.tuned.PretunedError)
    assert str(caught.value) == message
    assert (len(cuda.launches), len(cuda.memsets)) == before
    session.good()
    assert len(cuda.launches) == before[0] + 5


@pytest.mark.usefixtures("fast_path")
def test_a_number_that_equals_a_packed_one_is_passed_as_that_one(sessions, cuda):
    session = sessions["cupy"]
    for alpha in (1.5, 1.5, 1.5, 1.5, Fraction(3, 2), np.float64(1.5), 1.5 + 0j):
        session.affine(alpha=alpha)
    assert [launch.arguments[2] for launch in cuda.launches] == [1.5] * 7
