"""Liger's kernels, called below their autograd functions; its wheel is pure Python over PyTorch and Triton."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

COLS = 4096  # of the matrices that arrays are taken for where columns do not matter


def _ops(name):
    return import_module(f"liger_kernel.ops.{name}")


def softmax(x, **_):
    return _ops("softmax")._softmax_forward(x)[0]


def rms_norm(x, weight, eps, **_):
    return _ops("rms_norm").rms_norm_forward(x, weight, eps, 0.0, "llama", None)[0]


def add_rms_norm(x, residual, weight, eps, **_):
    found = _ops("fused_add_rms_norm").fused_add_rms_norm_forward(x, residual, weight, eps, 0.0, "llama")
    return {"out": found[0], "residual": found[1]}


def layer_norm(x, weight, bias, eps, **_):
    return _ops("layer_norm").layer_norm_forward(x, weight, bias, eps)[0]


def rms_norm_backward(grad_out, x, weight, rms, **_):
    ops = _ops("rms_norm")
    block, warps = ops.calculate_settings(x.shape[-1])
    mode = ops._CASTING_MODE_LLAMA.value
    return ops.rms_norm_backward(grad_out, x, weight, rms.reshape(-1), 0.0, mode, block, warps, False, None)


def layer_norm_backward(grad_out, x, weight, mean, deviation, **_):
    return _ops("layer_norm").layer_norm_backward(grad_out, x, weight, weight, mean.reshape(-1), deviation.reshape(-1))


def cross_entropy(logits, target, loss, ignore_index, **_):
    """Launch Liger's kernel for the loss alone; where rows go without a gradient it leaves the logits as they are."""
    ops, (rows, cols) = _ops("cross_entropy"), logits.shape
    left_out = dict.fromkeys(("weight_ptr", "z_loss_ptr", "token_accuracy_ptr", "predicted_tokens_ptr", "softcap"))
    ops.liger_cross_entropy_kernel[(rows,)](
        X_ptr=logits,
        X_stride=cols,
        Y_ptr=target,
        Y_stride=1,
        loss_ptr=loss,
        loss_stride=1,
        token_accuracy_stride=0,
        predicted_tokens_stride=0,
        n_cols=cols,
        n_non_ignore=rows,
        sum_non_ignore_weight=rows,
        ignore_index=ignore_index,
        weight_sum=0.0,
        lse_square_scale=0.0,
        label_smoothing=0.0,
        reduction="none",
        RETURN_Z_LOSS=False,
        RETURN_TOKEN_ACCURACY=False,
        RETURN_PREDICTED_TOKENS=False,
        BLOCK_SIZE=min(ops.MAX_FUSED_SIZE, ops.triton.next_power_of_2(cols)),
        HAS_WEIGHT=False,
        HAS_SOFTCAPPING=False,
        HAS_GRADIENTS=False,
        num_warps=32,
        **left_out,
    )
    return {"loss": loss}


def gates(values: Mapping[str, Any]) -> bool:
    """Return whether it has a kernel of this activation, and an array of so many elements is a matrix."""
    return values["activation"] in {"silu", "gelu_tanh"} and values["n"] % COLS == 0


def gated(gate, x, activation, **_):
    """Launch its SwiGLU or GeGLU; their gradients overwrite what they read, and so cannot be launched again."""
    name = "swiglu" if activation == "silu" else "geglu"
    return getattr(_ops(name), f"{name}_forward")(gate.view(-1, COLS), x.view(-1, COLS))[-1].view(-1)
