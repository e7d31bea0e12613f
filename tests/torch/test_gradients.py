"""Kernels with the kernel of their gradient under autograd: eager, compiled, and where there is no gradient."""

import pytest

import cpu_operators
from pretuned.spec.loader import load_folder

torch = pytest.importorskip("torch")
testing = pytest.importorskip("torch._dynamo.testing")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile's own code


@pytest.fixture(scope="module")
def norm(offered):
    """examples/rms-norm with references as its operators; and the eager functions go by these, as without a GPU."""
    tuned, _ = offered(load_folder(cpu_operators.ROOT / "examples/rms-norm/kernels"))
    return tuned.rms_norm


def tensors(dtype=torch.float64, rows=(3, 5), cols=7):
    torch.manual_seed(0)
    x, weight = torch.randn(*rows, cols, dtype=dtype), torch.rand(cols, dtype=dtype) + 0.5
    return x.requires_grad_(), weight.requires_grad_()


def by_pytorch(x, weight, eps=1e-6):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def gradients(function, x, weight):
    y = function(x, weight)
    return torch.autograd.grad((y * torch.arange(y.numel(), dtype=y.dtype).reshape(y.shape)).sum(), (x, weight))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_compiled_function_trains_through_a_kernel(norm, backend):
    torch._dynamo.reset()
    counter = testing.CompileCounterWithBackend(backend)
    compiled = torch.compile(lambda x, w: norm(x * 2, w)[0], fullgraph=True, dynamic=True, backend=counter)
    for cols in range(7, 17):
        x, weight = tensors(cols=cols)
        found = gradients(compiled, x, weight)
        for one, wanted in zip(found, gradients(lambda x, w: by_pytorch(x * 2, w), x, weight), strict=True):
            assert torch.allclose(one, wanted)
    assert counter.frame_count <= 2
