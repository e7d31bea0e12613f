"""The bundled norms, as installed, beside PyTorch's in float64: rows of any length, arrays that begin anywhere."""

import pytest

torch = pytest.importorskip("torch")
functional = torch.nn.functional
pytestmark = pytest.mark.gpu
SHAPES = [(1, 1), (3, 7), (257, 64), (1000, 128), (33, 1023), (65, 4096), (5, 8201), (2, 3, 20001), (3, 262144)]
SHAPES += [(67, 131072), (64, 262144)]  # clusters take several rows each
TOLERANCES = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}


@pytest.fixture(scope="module")
def kernels():
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    return pytest.importorskip("pretuned.kernels", reason="pretuned is not installed, so nothing is baked")


def drawn(shape, dtype, shift, mean=0.0):
    """Random numbers that begin so many elements behind an aligned address."""
    count = torch.Size(shape).numel()
    memory = (torch.randn(count + shift, device="cuda") + mean).to(dtype)
    return memory[shift:].view(shape)


def exact(name, arrays, eps):
    """Return what PyTorch has in float64, with the gradients by all arrays of a sum with random weights."""
    doubles = [array.double().requires_grad_() for array in arrays]
    out = getattr(functional, name)(doubles[0], doubles[0].shape[-1:], *doubles[1:], eps=eps)
    grad = drawn(out.shape, arrays[0].dtype, 0)
    return out.detach(), grad, torch.autograd.grad(out, doubles, grad.double())


def is_close(found, wanted, dtype, limit=None):
    wanted, limit = wanted.detach(), limit or TOLERANCES[dtype]
    return bool(((found.double() - wanted).abs() <= limit * (wanted.abs() + wanted.square().mean().sqrt())).all())


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize(("name", "others"), [("rms_norm", 1), ("layer_norm", 2)])
def test_a_norm_and_its_gradient_are_those_of_pytorch(kernels, name, others, dtype):
    torch.manual_seed(0)
    for number, shape in enumerate(SHAPES):
        shifts = [(number * k) % 5 for k in range(3)]
        mean = 30.0 if name == "layer_norm" and dtype == torch.float32 else 0.0
        arrays = [drawn(shape, dtype, shifts[0], mean)]
        arrays += [drawn(shape[-1:], dtype, shifts[k + 1]) for k in range(others)]
        wanted, grad, gradients = exact(name, arrays, 0.1)
        assert is_close(getattr(kernels, name)(*arrays, 0.1), wanted, dtype), shape
        found = getattr(kernels, f"{name}_backward")(grad, *arrays[:2], 0.1)
        for one, other in zip(found, gradients, strict=True):
            assert is_close(one, other, dtype), shape


@pytest.mark.parametrize("shape", [(64, 2048), (64, 20001), (64, 131072), (3, 262144)], ids=str)
@pytest.mark.parametrize("far", [16, 600])
def test_a_row_that_begins_far_from_its_mean_loses_no_digits(kernels, far, shape):
    torch.manual_seed(0)
    arrays = [drawn(shape, torch.float32, 0), *(drawn(shape[-1:], torch.float32, 0) for _ in range(2))]
    arrays[0][..., :far] = 300
    wanted, grad, gradients = exact("layer_norm", arrays, 0.1)
    assert is_close(kernels.layer_norm(*arrays, 0.1), wanted, torch.float32, 5e-6)
    found = kernels.layer_norm_backward(grad, *arrays[:2], 0.1)[0]
    assert is_close(found, gradients[0], torch.float32, 5e-6)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_a_residual_is_added_and_normed(kernels, dtype):
    for number, shape in enumerate(SHAPES):
        x, residual = drawn(shape, dtype, number % 3), drawn(shape, dtype, number % 2)
        weight = drawn(shape[-1:], dtype, 1)
        summed = (residual.float() + x.float()).to(dtype)
        out = torch.empty_like(x)
        kernels.add_rms_norm(residual, x, weight, 0.1, out=out)
        assert torch.equal(residual, summed), shape
        wanted = functional.rms_norm(summed.double(), shape[-1:], weight.double(), eps=0.1)
        assert is_close(out, wanted, dtype), shape


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_norms_in_8_bits_are_off_by_half_a_unit(kernels, dtype):
    for number, shape in enumerate(SHAPES):
        x, weight = drawn(shape, dtype, number % 3), drawn(shape[-1:], dtype, number % 2)
        out, scale = kernels.rms_norm_fp8(x, weight, 0.1)
        wanted = functional.rms_norm(x.double(), shape[-1:], weight.double(), eps=0.1)
        torch.testing.assert_close(scale.double(), wanted.abs().amax(-1) / 448, rtol=1e-5, atol=0.0)
        quotient = wanted / scale.double()[..., None]
        assert ((out.double() - quotient).abs() <= 0.063 * quotient.abs() + 0.001).all(), shape
