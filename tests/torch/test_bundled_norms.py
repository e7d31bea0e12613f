"""The gradients of the bundled norms under autograd are those of PyTorch's own."""

import importlib

import pytest

import cpu_operators
from pretuned.spec.loader import load_folder

torch = pytest.importorskip("torch")
functional = torch.nn.functional
NORMS = {"rms_norm", "rms_norm_backward", "layer_norm", "layer_norm_backward"}


@pytest.fixture(scope="module")
def package(offered):
    """The bundled norms, with references as their operators."""
    return offered(load_folder(cpu_operators.ROOT / "templates", NORMS))[0]


@pytest.fixture
def kernels(package, monkeypatch):
    """Their functions, which go by the operators, as there is no GPU."""
    eager = importlib.import_module(f"{package.__name__}._runtime.torch_ops.eager")
    monkeypatch.setattr(eager, "_special", lambda _tensor: True)
    return package


@pytest.mark.parametrize(("name", "weights"), [("rms_norm", 1), ("layer_norm", 2)])
@pytest.mark.parametrize("shape", [(7,), (3, 1), (2, 3, 257)], ids=str)
def test_gradients_are_those_of_pytorch(kernels, name, weights, shape):
    torch.manual_seed(0)
    arrays = [torch.randn(shape), *(torch.randn(shape[-1]) for _ in range(weights))]
    grad = torch.randn(shape)
    found, wanted = (
        [call(*(array.requires_grad_() for array in arrays)), *torch.autograd.grad(call(*arrays), arrays, grad)]
        for call in (
            lambda x, *others: getattr(kernels, name)(x, *others, eps=1e-3),
            lambda x, *others: getattr(functional, name)(x, shape[-1:], *others, eps=1e-3),
        )
    )
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
