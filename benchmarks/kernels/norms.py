"""Norms of rows."""

from __future__ import annotations

import torch
from torch.nn import functional

import liger_peers
import triton_peers
from contest import MATRICES, Contest, Peer

FP8_MOST = 448.0  # the largest number of float8_e4m3fn


def exact_rms_norm(x, weight, eps, **_):
    wide = x.double()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.double()


def eager_rms_norm(x, weight, eps, **_):
    return functional.rms_norm(x, weight.shape, weight, eps)


def compiled_rms_norm(x, weight, eps, out, **_):
    return out.copy_(functional.rms_norm(x, weight.shape, weight, eps))


def exact_layer_norm(x, weight, bias, eps, **_):
    return functional.layer_norm(x.double(), weight.shape, weight.double(), bias.double(), eps)


def eager_layer_norm(x, weight, bias, eps, **_):
    return functional.layer_norm(x, weight.shape, weight, bias, eps)


def compiled_layer_norm(x, weight, bias, eps, out, **_):
    return out.copy_(functional.layer_norm(x, weight.shape, weight, bias, eps))


def statistics(x, eps, **_):
    """Return what a norm's forward pass keeps of each row."""
    wide = x.float()
    mean = wide.mean(-1, keepdim=True)
    return {
        "rms": torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps),
        "mean": mean,
        "deviation": torch.rsqrt((wide - mean).square().mean(-1, keepdim=True) + eps),
    }


def gradients(grad_out, weight, normalised, factor, *, centred):
    """Return the gradients by x and weight, and by bias where the norm is of centred rows."""
    scaled = grad_out * weight
    grad_x = scaled - normalised * (scaled * normalised).mean(-1, keepdim=True)
    if centred:
        grad_x = grad_x - scaled.mean(-1, keepdim=True)
    return grad_x * factor, (grad_out * normalised).sum(0), grad_out.sum(0)


def exact_rms_backward(grad_out, x, weight, eps, **_):
    wide = x.double()
    factor = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    grad_x, grad_weight, _ = gradients(grad_out.double(), weight.double(), wide * factor, factor, centred=False)
    return {"grad_x": grad_x, "grad_weight": grad_weight}


def eager_rms_backward(grad_out, x, weight, rms, **_):
    return torch.ops.aten._fused_rms_norm_backward(grad_out, x, weight.shape, rms, weight, [True, True])


def compiled_rms_backward(grad_out, x, weight, rms, grad_x, grad_weight, **_):
    found = gradients(grad_out.float(), weight.float(), x.float() * rms, rms, centred=False)
    return grad_x.copy_(found[0]), grad_weight.copy_(found[1])


def exact_layer_backward(grad_out, x, weight, eps, **_):
    wide = x.double()
    centred = wide - wide.mean(-1, keepdim=True)
    factor = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    found = gradients(grad_out.double(), weight.double(), centred * factor, factor, centred=True)
    return dict(zip(("grad_x", "grad_weight", "grad_bias"), found, strict=True))


def eager_layer_backward(grad_out, x, weight, mean, deviation, **_):
    bias, keep = weight, [True, True, True]  # whose values are not used
    return torch.ops.aten.native_layer_norm_backward(grad_out, x, weight.shape, mean, deviation, weight, bias, keep)


def compiled_layer_backward(grad_out, x, weight, mean, deviation, **outputs):
    normalised = (x.float() - mean) * deviation
    found = gradients(grad_out.float(), weight.float(), normalised, deviation, centred=True)
    names = "grad_x", "grad_weight", "grad_bias"
    return tuple(outputs[name].copy_(one) for name, one in zip(names, found, strict=True))


def exact_add(x, residual, weight, eps, **_):
    added = residual + x  # rounded, as it is kept
    return {"residual": added, "out": exact_rms_norm(added, weight, eps)}


def eager_add(x, residual, weight, eps, **_):
    residual.add_(x)
    return {"residual": residual, "out": functional.rms_norm(residual, weight.shape, weight, eps)}


def compiled_add(x, residual, weight, eps, out, **_):
    residual.copy_(residual + x)
    out.copy_(functional.rms_norm(residual, weight.shape, weight, eps))
    return {"residual": residual, "out": out}


def exact_fp8(x, weight, eps, **_):
    found = exact_rms_norm(x, weight, eps)
    scale = found.abs().amax(-1) / FP8_MOST
    return {"out": found / scale[..., None], "scale": scale}


def eager_fp8(x, weight, eps, out, scale, **_):
    found = functional.rms_norm(x.float(), weight.shape, weight.float(), eps)
    torch.div(found.abs().amax(-1), FP8_MOST, out=scale)
    return out.copy_(found / scale[..., None]), scale


CONTESTS = (
    Contest(
        kernel="rms_norm",
        bound="copy",
        exact=exact_rms_norm,
        peers=(
            Peer(name="torch", call=eager_rms_norm),
            Peer(name="torch.compile", call=compiled_rms_norm, compiled=True),
            Peer(name="Triton", jit=True, call=triton_peers.rms_norm, takes=triton_peers.holds),
            Peer(name="Liger", jit=True, call=liger_peers.rms_norm, takes=triton_peers.holds),
        ),
        large=MATRICES,
        rows=True,
    ),
    Contest(
        kernel="layer_norm",
        bound="copy",
        exact=exact_layer_norm,
        peers=(
            Peer(name="torch", call=eager_layer_norm),
            Peer(name="torch.compile", call=compiled_layer_norm, compiled=True),
            Peer(name="Triton", jit=True, call=triton_peers.layer_norm, takes=triton_peers.holds),
            Peer(name="Liger", jit=True, call=liger_peers.layer_norm, takes=triton_peers.holds),
        ),
        large=MATRICES,
        rows=True,
    ),
    Contest(
        kernel="rms_norm_backward",
        bound="copy",
        exact=exact_rms_backward,
        peers=(
            Peer(name="torch", call=eager_rms_backward),
            Peer(name="torch.compile", call=compiled_rms_backward, compiled=True),
            Peer(name="Liger", jit=True, call=liger_peers.rms_norm_backward, takes=triton_peers.holds),
        ),
        large=MATRICES[:3],
        rows=True,
        saved=statistics,
    ),
    Contest(
        kernel="layer_norm_backward",
        bound="copy",
        exact=exact_layer_backward,
        peers=(
            Peer(name="torch", call=eager_layer_backward),
            Peer(name="torch.compile", call=compiled_layer_backward, compiled=True),
            Peer(name="Liger", jit=True, call=liger_peers.layer_norm_backward, takes=triton_peers.holds),
        ),
        large=MATRICES[:3],
        rows=True,
        saved=statistics,
    ),
    Contest(
        kernel="add_rms_norm",
        bound="copy",
        exact=exact_add,
        peers=(
            Peer(name="torch", call=eager_add),
            Peer(name="torch.compile", call=compiled_add, compiled=True),
            Peer(name="Liger", jit=True, call=liger_peers.add_rms_norm, takes=triton_peers.holds),
        ),
        large=MATRICES,
        rows=True,
    ),
    Contest(
        kernel="rms_norm_fp8",
        bound="copy",
        exact=exact_fp8,
        peers=(
            Peer(name="torch", call=eager_fp8),
            Peer(name="torch.compile", call=eager_fp8, compiled=True),
        ),
        large=MATRICES,
        rows=True,
    ),
)
