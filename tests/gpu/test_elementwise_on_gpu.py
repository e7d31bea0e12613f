"""The bundled element-wise kernels, as installed, beside PyTorch in float64, on arrays that begin anywhere."""

import math

import pytest

torch = pytest.importorskip("torch")
functional = torch.nn.functional
pytestmark = pytest.mark.gpu
ACTIVATIONS = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda gate: functional.gelu(gate, approximate="tanh"),
    "relu": functional.relu,
    "sigmoid": torch.sigmoid,
}
SHAPES = [(0,), (1,), (7,), (3, 1031), (2, 5, 4096), (4097, 1000), (16, 1, 262144)]
TOLERANCES = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 8e-3}


@pytest.fixture(scope="module")
def kernels():
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    return pytest.importorskip("pretuned.kernels", reason="pretuned is not installed, so nothing is baked")


def drawn(shape, dtype, shift):
    """Random numbers that begin so many elements behind an aligned address."""
    memory = torch.randn(math.prod(shape) + shift, device="cuda").mul_(2).to(dtype)
    return memory[shift:].view(shape)


def exact(activation, grad_out, gate, x):
    """Return the value and its gradients by gate and x, all in float64."""
    gate, x = (one.double().requires_grad_() for one in (gate, x))
    out = ACTIVATIONS[activation](gate) * x
    return out.detach(), *torch.autograd.grad(out, (gate, x), grad_out.double())


def is_close(found, wanted, dtype):
    limit = TOLERANCES[dtype]
    return bool(((found.double() - wanted).abs() <= limit * (wanted.abs() + wanted.square().mean().sqrt())).all())


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_gate_and_its_gradients_are_those_of_pytorch(kernels, activation, dtype):
    torch.manual_seed(0)
    for number, shape in enumerate(SHAPES):
        for shifts in ((0, 0, 0), (1, 1, 1), (number % 3, 1, 2)):
            grad_out, gate, x = (drawn(shape, dtype, shift) for shift in shifts)
            wanted, *gradients = exact(activation, grad_out, gate, x)
            out = drawn(shape, dtype, shifts[0])
            kernels.gated(gate, x, activation=activation, out=out)
            assert is_close(out, wanted, dtype), shape
            found = kernels.gated_backward(grad_out, gate, x, activation=activation)
            for one, other in zip(found, gradients, strict=True):
                assert one.shape == other.shape
                assert is_close(one, other, dtype), shape


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_infinities_and_nan_become_what_they_do_in_pytorch(kernels, activation, dtype):
    values = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0], dtype=dtype, device="cuda")
    subnormal = torch.finfo(dtype).smallest_normal / 8
    gate = torch.cat([values, torch.full_like(values, subnormal)]).repeat_interleave(3)
    x = torch.tensor([1.0, -2.0, 0.5], dtype=dtype, device="cuda").repeat(14)
    grad_out = torch.full_like(x, 2.0)
    wanted, *gradients = exact(activation, grad_out, gate, x)
    found = (
        kernels.gated(gate, x, activation=activation),
        *kernels.gated_backward(grad_out, gate, x, activation=activation),
    )
    for one, other in zip(found, (wanted, *gradients), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-2, atol=1e-6, equal_nan=True)


def test_a_large_gate_opens_or_closes(kernels):
    gate = torch.tensor([50.0, 1e4, 1e20, 3e38, -50.0, -1e4, -1e20, -3e38], device="cuda")
    ones = torch.ones_like(gate)
    for activation in ACTIVATIONS:
        out = kernels.gated(gate, ones, activation=activation)
        grad_gate, grad_x = kernels.gated_backward(ones, gate, ones, activation=activation)
        wanted = torch.ones(4) if activation == "sigmoid" else gate[:4].cpu()
        torch.testing.assert_close(out[:4].cpu(), wanted)
        torch.testing.assert_close(grad_gate[:4].cpu(), torch.full((4,), 0.0 if activation == "sigmoid" else 1.0))
        for closed in (out[4:], grad_gate[4:]):
            torch.testing.assert_close(closed, torch.zeros(4, device="cuda"))
        assert torch.equal(grad_x, out)


def test_digits_do_not_cancel_where_an_activation_is_small(kernels):
    gate = torch.linspace(-8, 8, 100_003, device="cuda")
    for activation, limit in (("silu", 2e-6), ("gelu", 1e-5), ("gelu_tanh", 2e-5), ("sigmoid", 2e-6)):
        found = kernels.gated(gate, torch.ones_like(gate), activation=activation).double()
        wide = gate.double()
        if activation == "gelu":
            wanted = wide * torch.special.erfc(-wide / math.sqrt(2)) / 2
        elif activation == "gelu_tanh":
            wanted = wide * torch.sigmoid(math.sqrt(8 / math.pi) * (wide + 0.044715 * wide**3))
        else:
            wanted = ACTIVATIONS[activation](wide)
        assert bool(((found - wanted).abs() <= limit * wanted.abs() + 1e-30).all()), activation


@pytest.mark.parametrize("to", ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_a_conversion_is_rounded_as_pytorch_rounds(kernels, dtype, to):
    torch.manual_seed(0)
    wanted_type = getattr(torch, to)
    largest = torch.finfo(wanted_type).max
    special = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 448.0, 464.0, 1e-3, 57344.0, 65504.0])
    for number, shape in enumerate(SHAPES):
        for scale in (1.0, 300.5, 1e-3):
            x = drawn(shape, dtype, number % 4)
            x.view(-1)[:10] = special[: x.numel()].to(x)
            product = x.float() * scale
            wanted = product.clamp(-largest, largest).to(wanted_type) if "float8" in to else product.to(wanted_type)
            memory = torch.empty(x.numel() + number % 3, dtype=wanted_type, device="cuda")
            out = memory[number % 3 :].view(shape)
            kernels.convert(x, scale, to=to, out=out)
            torch.testing.assert_close(out.float(), wanted.float(), rtol=0, atol=0, equal_nan=True)
            made = kernels.convert(x, scale, to=to)
            assert made.dtype == wanted_type
            torch.testing.assert_close(made.float(), wanted.float(), rtol=0, atol=0, equal_nan=True)
