"""Eager calls of real tensors beside a driver that is none: by the fast path, by operators, and what leaves which."""

import ctypes
import importlib
import itertools
from contextlib import contextmanager

import pytest

import sample
from fake_cuda import FakeCuda
from pretuned.bake.package import files
from pretuned.bake.plan import plan

torch = pytest.importorskip("torch")
dispatch = pytest.importorskip("torch.utils._python_dispatch")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch's own code
_numbers = itertools.count()


def on_the_cpu(base, view_of):
    """An adapter for tensors on the CPU, as if they lay on the one GPU."""

    class OnTheCpu(base):
        def view(self, where, value, stream, *, written=False):
            del where, stream, written
            nbytes = value.numel() * value.element_size()
            return view_of(
                value.data_ptr(), str(value.dtype).removeprefix("torch."), tuple(value.shape), 0, nbytes, value
            )

        def device_of(self, value):
            del value
            return 0

        def current_stream(self, device):
            return device

        @contextmanager
        def allocating(self, where, device, stream):
            del where, device, stream
            yield lambda shape, dtype: torch.empty(shape, dtype=getattr(torch, dtype))

        def expressions(self):
            found = super().expressions()
            found.on_gpu, found.stream, found.current_device = "", "0", "0"
            found.maker = lambda shape, dtype: lambda: torch.empty(shape, dtype=dtype)
            return found

    return OnTheCpu()


@pytest.fixture
def cuda(monkeypatch, tmp_path):
    monkeypatch.setenv("PRETUNED_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PRETUNED_WARN", "0")
    fake = FakeCuda()
    del fake.devices[1:]
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: fake)
    return fake


@pytest.fixture
def tuned(cuda, tmp_path, monkeypatch):
    """The sample package with its operators, which run on the CPU what they run on a GPU."""
    name = f"eager{next(_numbers)}"
    found = plan(sample.specs(), sample.rows(), sample.DEVICES)
    sample.write(files(found, sample.binaries(found), torch=name), tmp_path / name)
    monkeypatch.syspath_prepend(str(tmp_path))
    package = importlib.import_module(name)
    importlib.import_module(f"{name}.torch")
    adapters = importlib.import_module(f"{name}._runtime.adapters")
    eager = importlib.import_module(f"{name}._runtime.torch_ops.eager")
    operators = importlib.import_module(f"{name}._runtime.torch_ops.operators")
    adapters.register(on_the_cpu(eager.WatchedPyTorch, adapters.ArrayView))
    kernel = importlib.import_module(f"{name}._runtime").KERNELS["affine"]
    library = torch.library.Library(name, "IMPL")
    library.impl("affine", operators._run_by(kernel, package.affine, ["x", "alpha", "relu"]), "CPU")
    yield package
    library._destroy()


class Watch(dispatch.TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("before", [0, 5])
def test_a_mode_sees_the_operator_and_the_kernel_runs_once(tuned, cuda, before):
    x = torch.ones(16, 1024)
    for _ in range(before):
        tuned.affine(x, 2.0, relu=False)
    launched = len(cuda.launches)
    with Watch() as watch:
        y = tuned.affine(x, 2.0, relu=False)
    assert watch.seen[0] == f"{tuned.__name__}.affine.default"
    assert y.shape == x.shape
    assert len(cuda.launches) == launched + 1
    tuned.affine(x, 2.0, relu=False)
    assert len(cuda.launches) == launched + 2


@pytest.mark.parametrize("before", [0, 5])
def test_a_subclass_gets_a_result_of_its_own_kind(tuned, cuda, before):
    class Own(torch.Tensor):
        pass

    x = torch.ones(16, 1024)
    for _ in range(before):
        tuned.affine(x, 2.0, relu=False)
    launched = len(cuda.launches)
    assert isinstance(tuned.affine(x.as_subclass(Own), 2.0, relu=False), Own)
    assert len(cuda.launches) == launched + 1
    assert type(tuned.affine(torch.nn.Parameter(x, requires_grad=False), 2.0, relu=False)) is torch.Tensor


@pytest.mark.parametrize("before", [0, 5])
def test_what_requires_a_gradient_launches_nothing(tuned, cuda, before):
    x = torch.ones(16, 1024)
    for _ in range(before):
        tuned.affine(x, 2.0, relu=False)
    launched = len(cuda.launches)
    x.requires_grad_()
    with pytest.raises(ValueError, match="x: requires a gradient, and this kernel has none for it"):
        tuned.affine(x, 2.0, relu=False)
    with torch.autograd.forward_ad.dual_level(), pytest.raises(ValueError, match="x: has a tangent"):
        tuned.affine(torch.autograd.forward_ad.make_dual(x.detach(), x.detach()), 2.0, relu=False)
    assert len(cuda.launches) == launched
    with torch.no_grad():
        tuned.affine(x, 2.0, relu=False)
    assert len(cuda.launches) == launched + 1
