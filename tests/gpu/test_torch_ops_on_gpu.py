"""The kernels as operators of PyTorch on a GPU: what it checks, compiles, exports, captures and refuses."""

from __future__ import annotations

import importlib
import io
import sys
from pathlib import Path

import pytest

from baking import baked
from pretuned.spec import space
from pretuned.spec.loader import load_folder

cupy = pytest.importorskip("cupy")
torch = pytest.importorskip("torch")
cpu_operators = importlib.import_module("cpu_operators")
testing = importlib.import_module("torch._dynamo.testing")

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]  # torch.compile warns of much of its own
ROOT = Path(__file__).parents[2]
GALLERY, TEMPLATES = ROOT / "examples" / "gallery" / "kernels", ROOT / "templates"
NORM = ROOT / "examples" / "rms-norm" / "kernels"
SPECS = {  # by name and namespace: some kernels of the gallery have the name of a bundled one
    (name, namespace): spec
    for namespace, folder in (("gallery_ops", GALLERY), ("bundled_ops", TEMPLATES))
    for name, spec in load_folder(folder).items()
}
SIZES = [33 + 7 * count for count in range(20)]


def package(folder, name, kernels):
    files = {file.name: file.read_text() for file in kernels.iterdir() if file.is_file()}
    tuned = baked(folder, name, files, cupy.cuda.Device().compute_capability, torch=name)
    sys.path.insert(0, str(folder))
    importlib.import_module(f"{name}.torch")
    return tuned


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The gallery and the bundled kernels with their defaults, by the names of their operators' namespaces."""
    found = {}
    for name, kernels in (("gallery_ops", GALLERY), ("bundled_ops", TEMPLATES), ("norm_ops", NORM)):
        found[name] = package(tmp_path_factory.mktemp(name), name, kernels)
    yield found
    sys.path[:] = [one for one in sys.path if not any(name in one for name in found)]


@pytest.fixture
def silu(packages):
    return packages["gallery_ops"].silu_and_mul


@pytest.mark.parametrize(("name", "namespace"), SPECS)
def test_every_kernel_passes_what_pytorch_checks(name, namespace, packages):
    spec = SPECS[name, namespace]
    specialisation = next(iter(space.specialisations(spec)))
    cpu_operators.check(namespace, spec, specialisation, "cuda")


def test_open_sizes_compile_once(silu, packages):
    axpby = packages["bundled_ops"].axpby

    def block(x):
        y = silu(x * 2)
        return axpby(y.view(-1), y.view(-1), 0.5, 2.0), y

    counter = testing.CompileCounterWithBackend("inductor")
    compiled = torch.compile(block, fullgraph=True, dynamic=True, backend=counter)
    for size in SIZES:
        x = torch.randn(size, 3, 2 * (size + 16), device="cuda")
        for found, wanted in zip(compiled(x), block(x), strict=True):
            assert torch.allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert counter.frame_count <= 2


def test_arrays_that_are_changed_in_place_are_so_when_compiled(packages):
    add_rms_norm = packages["gallery_ops"].add_rms_norm
    compiled = torch.compile(lambda x, r, w: add_rms_norm(x, r, w)[0] * 2, fullgraph=True, dynamic=True)
    for size in SIZES[:4]:
        x, r, w = (
            torch.randn(9, size, device="cuda"),
            torch.randn(9, size, device="cuda"),
            torch.ones(size, device="cuda"),
        )
        other = x.clone(), r.clone()
        found = compiled(x, r, w)
        add_rms_norm(*other, w)
        assert torch.equal(x, other[0])
        assert torch.equal(r, other[1])
        assert torch.equal(found, 2 * x)


def test_an_exported_program_is_saved_loaded_and_run(silu):
    class Block(torch.nn.Module):
        def forward(self, x):
            return silu(x) + 1

    x, rows = torch.randn(24, 64, device="cuda"), torch.export.Dim("rows", min=2)
    program = torch.export.export(Block(), (x,), dynamic_shapes=({0: rows},))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    for count in (24, 100):
        x = torch.randn(count, 64, device="cuda")
        assert torch.allclose(loaded(x), silu(x) + 1)


def test_a_compiled_call_is_captured(silu):
    x = torch.randn(64, 512, device="cuda")
    compiled = torch.compile(lambda x: silu(x) * 3, fullgraph=True, mode="reduce-overhead")
    for _ in range(4):
        assert torch.allclose(compiled(x), silu(x) * 3)
    out, graph = torch.empty(64, 256, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.ops.gallery_ops.silu_and_mul.out(x, out=out)
    x.copy_(torch.randn_like(x))
    graph.replay()
    assert torch.equal(out, silu(x))


def test_gradients_of_a_pair_are_those_of_differences(packages):
    norm = packages["norm_ops"].rms_norm
    x = torch.randn(3, 5, 24, device="cuda", dtype=torch.float64, requires_grad=True)
    weight = torch.rand(24, device="cuda", dtype=torch.float64, requires_grad=True)
    for _ in range(3):
        assert torch.autograd.gradcheck(lambda x, w: norm(x, w)[0], (x, weight))
    compiled = torch.compile(lambda x, w: norm(x * 2, w)[0], fullgraph=True, dynamic=True)
    found = torch.autograd.grad(compiled(x, weight).square().sum(), (x, weight))
    wanted = torch.autograd.grad(norm(x * 2, weight)[0].square().sum(), (x, weight))
    assert all(torch.allclose(*pair) for pair in zip(found, wanted, strict=True))
    with pytest.raises(ValueError, match="y: an output cannot be given where an input requires a gradient"):
        norm(x, weight, y=torch.empty_like(x))


@pytest.mark.parametrize("times", [1, 4])
def test_gradients_that_nobody_has_are_an_error(packages, times):
    quantise = packages["gallery_ops"].quantise_int8
    x = torch.randn(8, 64, device="cuda")
    for _ in range(times):
        quantise(x)
    x.requires_grad_()
    with pytest.raises(
        ValueError, match=r"x: requires a gradient, and this kernel has none for it; pass x\.detach\(\)"
    ):
        quantise(x)
    with pytest.raises(ValueError, match="x: requires a gradient"):
        torch.ops.gallery_ops.quantise_int8(x)
    with pytest.raises(Exception, match="x: requires a gradient"):
        torch.compile(lambda x: quantise(x)[0], fullgraph=True)(x)
    with torch.no_grad():
        quantise(x)


def test_the_fast_path_leaves_what_pytorch_has_to_see_to_the_operator(silu):
    noticed = []

    class Noted(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            noticed.append(str(function))
            return super().__torch_function__(function, types, args, kwargs or {})

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    x, seen = torch.randn(8, 64, device="cuda"), []
    wanted = [silu(x) for _ in range(4)][-1]  # the later ones take the fast path
    noted = silu(x.as_subclass(Noted))
    assert isinstance(noted, Noted)
    assert torch.equal(noted.as_subclass(torch.Tensor), wanted)
    assert any("silu_and_mul" in one for one in noticed)
    with Watch():
        assert torch.equal(silu(x), wanted)
    assert "gallery_ops.silu_and_mul.default" in seen
    with torch._subclasses.FakeTensorMode() as mode:
        assert silu(mode.from_tensor(x)).shape == (8, 32)
    with pytest.raises(ValueError, match="vmap does not go through"):
        torch.vmap(silu)(x)
    other = x.clone().requires_grad_()
    silu(other).sum().backward()
    assert torch.equal(torch.func.grad(lambda x: silu(x).sum())(x), other.grad)
    with pytest.raises(ValueError, match="x: has a tangent"):
        torch.func.jvp(silu, (x,), (x,))
    assert torch.equal(silu(x), wanted)
