"""All configurations that ship for a problem, not only those that are chosen, by `using` and beside PyTorch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
kernels = pytest.importorskip("pretuned.kernels", reason="pretuned is not installed, so nothing is baked")
functional = torch.nn.functional

pytestmark = pytest.mark.gpu
TOLERANCES = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 2e-2}
ROWS = [(5, 1000), (3, 33001), (2, 131072), (3, 150007), (2, 262144)]
ROWS += [(2003, 1175), (1201, 8192), (307, 35001), (197, 131077)]
SHAPES = [(3, 5, 7, 16), (18, 2, 3, 5), (2, 67, 31, 33), (40, 3, 33, 34), (1, 128, 8, 64), (5, 9, 130, 70)]
ELEMENTS = {"uint8": 1, "float16": 2, "float32": 4, "float64": 8, "complex128": 16}


def drawn(shape, dtype, shift):
    """Random numbers that begin so many elements behind an aligned address."""
    count = torch.Size(shape).numel() + shift
    return torch.randn(count, device="cuda").to(dtype)[shift:].view(shape)


def asked(name, problem):
    """Yield each configuration that ships for some device and can run the problem, with overrides that ask for it."""
    for device in kernels.DEVICES:
        found = kernels.explain(name, device=device, **problem)
        for one in [found, *(other for other in found.alternatives if not other.refused)]:
            configuration = {"implementation": one.implementation, **one.configuration}
            yield one, kernels.using(device=device, **{name: configuration})


def norm(name, x, weight, bias):
    """Return a call of ours with `out`, and what it is to give."""
    wide, shape = x.double(), x.shape[-1:]
    if name == "row_softmax":
        return lambda out: kernels.row_softmax(x, out=out), torch.softmax(wide, -1)
    if name == "layer_norm":
        wanted = functional.layer_norm(wide, shape, weight.double(), bias.double(), eps=0.1)
        return lambda out: kernels.layer_norm(x, weight, bias, 0.1, out=out), wanted
    if name == "add_rms_norm":
        residual = torch.randn_like(x)
        wanted = functional.rms_norm((residual + x).double(), shape, weight.double(), eps=0.1)
        return lambda out: kernels.add_rms_norm(residual.clone(), x, weight, 0.1, out=out), wanted
    wanted = functional.rms_norm(wide, shape, weight.double(), eps=0.1)
    return lambda out: kernels.rms_norm(x, weight, 0.1, out=out), wanted


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", ["row_softmax", "rms_norm", "layer_norm", "add_rms_norm"])
def test_a_row_is_right_by_every_configuration_that_ships(name, dtype):
    torch.manual_seed(0)
    element, ran = getattr(torch, dtype), set()
    for number, shape in enumerate(ROWS):
        x = drawn(shape, element, number % 5)
        weight, bias = (drawn(shape[1:], element, number * k % 5) for k in (2, 3))
        call, wanted = norm(name, x, weight, bias)
        limit = TOLERANCES[dtype] * (wanted.abs() + wanted.square().mean().sqrt())
        limit += torch.finfo(element).smallest_normal * torch.finfo(element).eps  # how far apart subnormals are
        for one, override in asked(name, {"T": dtype, "rows": shape[0], "cols": shape[1]}):
            out = torch.full_like(x, torch.nan)
            with override:
                call(out)
            assert bool(((out.double() - wanted).abs() <= limit).all()), (shape, one)
            ran.add(one.implementation)
    assert "shared" in ran
    assert name == "row_softmax" or "streamed" in ran


@pytest.mark.parametrize("order", ["acbd", "cbad", "adcb", "dcba"])
@pytest.mark.parametrize("dtype", ELEMENTS)
def test_bits_come_through_by_every_configuration_that_ships(dtype, order):
    torch.manual_seed(0)
    element, ran = getattr(torch, dtype), []
    for number, shape in enumerate(SHAPES):
        count, shift = torch.Size(shape).numel(), number % 3
        bits = torch.randint(0, 256, ((count + shift) * ELEMENTS[dtype],), dtype=torch.uint8, device="cuda")
        whole = bits.view(-1, ELEMENTS[dtype])[shift:].view(*shape, ELEMENTS[dtype])
        axes = ["abcd".index(axis) for axis in order]
        wanted, x = whole.permute(*axes, 4).contiguous(), bits.view(element)[shift:].view(shape)
        for one, override in asked("permute", dict(zip("abcd", shape, strict=True)) | {"T": dtype, "order": order}):
            out = torch.zeros_like(wanted)
            with override:
                kernels.permute(x, order=order, out=out.view(element).squeeze(-1))
            assert torch.equal(out, wanted), (shape, one)
            ran.append(one.configuration)
    assert any(one["across"] == one["high"] == 0 for one in ran)  # elements that go there directly
