"""Kernels that go through their arrays element by element."""

from __future__ import annotations

from functools import cache

import torch
from torch.nn import functional

import liger_peers
import triton_peers
from ceiling import on_torchs_stream
from contest import Contest, Peer


def exact(x, y, a, b, **_):
    return a * x.double() + b * y.double()


def eager(x, y, a, b, out, **_):
    torch.mul(x, a, out=out)
    return out.add_(y, alpha=b)


def compiled(x, y, a, b, out, **_):
    return out.copy_((a * x.float() + b * y.float()).to(out.dtype))


@cache
def _elementwise():
    import cupy  # noqa: PLC0415 - only on a GPU

    return cupy.ElementwiseKernel(
        "T x, T y, float32 a, float32 b", "T out", "out = a * (float)x + b * (float)y", "axpby"
    )


def elementwise(x, y, a, b, out, **_):
    import cupy  # noqa: PLC0415 - only on a GPU

    on_torchs_stream(_elementwise())(cupy.asarray(x), cupy.asarray(y), a, b, cupy.asarray(out))
    return out


def exact_convert(x, scale, **_):
    return scale * x.double()


def eager_convert(x, scale, out, **_):
    return out.copy_(x if scale == 1 else x * scale)


def compiled_convert(x, scale, out, **_):
    return out.copy_(x.float() * scale)


def activated(gate, activation):
    """Return the activation of each element, as PyTorch has it."""
    if activation in {"gelu", "gelu_tanh"}:
        return functional.gelu(gate, approximate="tanh" if activation == "gelu_tanh" else "none")
    return functional.silu(gate) if activation == "silu" else getattr(torch, activation)(gate)


def exact_gated(gate, x, activation, **_):
    return activated(gate.double(), activation) * x.double()


def eager_gated(gate, x, activation, out, **_):
    return torch.mul(activated(gate, activation), x, out=out)


def compiled_gated(gate, x, activation, out, **_):
    return out.copy_(activated(gate.float(), activation) * x.float())


CUDA_OF = {  # of `g`, a gate in float32
    "silu": "g / (1 + expf(-g))",
    "gelu": "0.5f * g * (1 + erff(0.70710678f * g))",
    "gelu_tanh": "0.5f * g * (1 + tanhf(0.79788456f * (g + 0.044715f * g * g * g)))",
    "relu": "fmaxf(g, 0)",
    "sigmoid": "1 / (1 + expf(-g))",
}


@cache
def _elementwise_gated(activation):
    import cupy  # noqa: PLC0415 - only on a GPU

    return cupy.ElementwiseKernel(
        "T gate, T x", "T out", f"float g = (float)gate; out = {CUDA_OF[activation]} * (float)x", f"gated_{activation}"
    )


def elementwise_gated(gate, x, activation, out, **_):
    import cupy  # noqa: PLC0415 - only on a GPU

    on_torchs_stream(_elementwise_gated(activation))(cupy.asarray(gate), cupy.asarray(x), cupy.asarray(out))
    return out


def sloped(gate, activation):
    """Return the activation of each element and its slope, by formulas that a compiler fuses."""
    if activation == "relu":
        return gate.relu(), (gate > 0).to(gate.dtype)
    if activation == "gelu":
        below = 0.5 * torch.special.erfc(-gate * 0.5**0.5)
        return gate * below, below + gate * torch.exp(-0.5 * gate * gate) * (2 * torch.pi) ** -0.5
    outer = (8 / torch.pi) ** 0.5 if activation == "gelu_tanh" else 1.0
    cubic = 0.044715 if activation == "gelu_tanh" else 0.0
    share = torch.sigmoid(outer * gate * (1 + cubic * gate * gate))
    slope = share * (1 - share) * outer * (1 + 3 * cubic * gate * gate)
    return (share, slope) if activation == "sigmoid" else (gate * share, share + gate * slope)


def exact_gated_backward(grad_out, gate, x, activation, **_):
    outer, (value, slope) = grad_out.double(), sloped(gate.double(), activation)
    return {"grad_gate": outer * x.double() * slope, "grad_x": outer * value}


def kept(gate, activation, **_):
    """Return what autograd of PyTorch keeps of a forward call, besides its inputs."""
    return {"value": activated(gate, activation)}


def eager_gated_backward(grad_out, gate, x, activation, value, grad_gate, grad_x, **_):
    """Launch what autograd of PyTorch launches."""
    torch.mul(grad_out, value, out=grad_x)
    inner, aten = grad_out * x, torch.ops.aten
    if activation == "silu":
        aten.silu_backward.grad_input(inner, gate, grad_input=grad_gate)
    elif activation == "relu":
        aten.threshold_backward.grad_input(inner, value, 0, grad_input=grad_gate)
    elif activation == "sigmoid":
        aten.sigmoid_backward.grad_input(inner, value, grad_input=grad_gate)
    else:
        how = "tanh" if activation == "gelu_tanh" else "none"
        aten.gelu_backward.grad_input(inner, gate, approximate=how, grad_input=grad_gate)
    return grad_gate, grad_x


def compiled_gated_backward(grad_out, gate, x, activation, grad_gate, grad_x, **_):
    outer, (value, slope) = grad_out.float(), sloped(gate.float(), activation)
    return grad_gate.copy_(outer * x.float() * slope), grad_x.copy_(outer * value)


CONTESTS = (
    Contest(
        kernel="axpby",
        bound="copy",
        exact=exact,
        peers=(
            Peer(name="torch", call=eager),
            Peer(name="torch.compile", call=compiled, compiled=True),
            Peer(name="Triton", jit=True, call=triton_peers.axpby),
            Peer(name="CuPy", call=elementwise, takes=lambda v: v["T"] in {"float32", "float16"}),
        ),
        large=({"n": 1 << 25}, {"n": 1 << 27}),
    ),
    Contest(
        kernel="convert",
        bound="copy",
        exact=exact_convert,
        peers=(
            Peer(name="torch", call=eager_convert),
            Peer(name="torch.compile", call=compiled_convert, compiled=True),
            Peer(name="Triton", jit=True, call=triton_peers.convert),
        ),
        large=({"n": 1 << 26}, {"n": 1 << 28}),
        ragged=2,  # of 15 specialisations each
        tuned=4,
        values={"scale": 1.0},  # of more than float8 can hold PyTorch makes NaN
    ),
    Contest(
        kernel="gated",
        bound="copy",
        exact=exact_gated,
        peers=(
            Peer(name="torch", call=eager_gated),
            Peer(name="torch.compile", call=compiled_gated, compiled=True),
            Peer(name="Triton", jit=True, call=triton_peers.gated),
            Peer(name="Liger", jit=True, call=liger_peers.gated, takes=liger_peers.gates),
            Peer(name="CuPy", call=elementwise_gated, takes=lambda v: v["T"] in {"float32", "float16"}),
        ),
        large=({"n": 1 << 25}, {"n": 1 << 27}),
        ragged=2,  # of 15 specialisations each
        tuned=4,
    ),
    Contest(
        kernel="gated_backward",
        bound="copy",
        exact=exact_gated_backward,
        peers=(
            Peer(name="torch", call=eager_gated_backward),
            Peer(name="torch.compile", call=compiled_gated_backward, compiled=True),
        ),
        large=({"n": 1 << 25}, {"n": 1 << 26}),
        ragged=2,
        tuned=4,
        saved=kept,
    ),
)
