"""Kernels as Triton's tutorials write them (fused softmax, vector addition, layer norm), written anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import triton
import triton.language as tl

LONGEST = 65536  # elements of a row, which a program holds whole


@triton.jit
def _softmax(out, x, cols, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, block)
    inside = at < cols
    value = tl.load(x + row * cols + at, mask=inside, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(value - tl.max(value, axis=0))
    tl.store(out + row * cols + at, numerator / tl.sum(numerator, axis=0), mask=inside)


@triton.jit
def _rms_norm(out, x, weight, cols, eps, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, block)
    inside = at < cols
    value = tl.load(x + row * cols + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    factor = 1.0 / tl.sqrt(tl.sum(value * value, axis=0) / cols + eps)
    tl.store(out + row * cols + at, value * factor * scale, mask=inside)


@triton.jit
def _layer_norm(out, x, weight, bias, cols, eps, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, block)
    inside = at < cols
    value = tl.load(x + row * cols + at, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(inside, value - tl.sum(value, axis=0) / cols, 0.0)
    factor = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / cols + eps)
    scale = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    offset = tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * cols + at, centred * factor * scale + offset, mask=inside)


@triton.jit
def _axpby(out, x, y, a, b, n, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < n
    first, second = tl.load(x + at, mask=inside).to(tl.float32), tl.load(y + at, mask=inside).to(tl.float32)
    tl.store(out + at, a * first + b * second, mask=inside)


@triton.jit
def _convert(out, x, scale, n, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < n
    value = tl.load(x + at, mask=inside).to(tl.float32)
    tl.store(out + at, (value * scale).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _gated(out, gate, x, n, activation: tl.constexpr, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < n
    value, factor = tl.load(gate + at, mask=inside).to(tl.float32), tl.load(x + at, mask=inside).to(tl.float32)
    if activation == "silu":
        value = value * tl.sigmoid(value)
    elif activation == "gelu":
        value = 0.5 * value * (1.0 + tl.erf(0.7071067811865476 * value))
    elif activation == "gelu_tanh":
        value = value * tl.sigmoid(1.5957691216057308 * (value + 0.044715 * value * value * value))
    elif activation == "relu":
        value = tl.maximum(value, 0.0)
    else:
        value = tl.sigmoid(value)
    tl.store(out + at, value * factor, mask=inside)


def holds(values: Mapping[str, Any]) -> bool:
    """Return whether a program can hold a row."""
    return values["cols"] <= LONGEST


def _of_rows(x: torch.Tensor) -> tuple[int, dict[str, int]]:
    """Return the rows, and how the tutorials choose block and warps by the columns."""
    block = triton.next_power_of_2(x.shape[-1])
    return x.numel() // x.shape[-1], {"block": block, "num_warps": 4 if block < 2048 else 8 if block < 4096 else 16}


def softmax(x, out, **_):
    rows, options = _of_rows(x)
    _softmax[(rows,)](out, x, x.shape[-1], **options)
    return out


def rms_norm(x, weight, out, eps, **_):
    rows, options = _of_rows(x)
    _rms_norm[(rows,)](out, x, weight, x.shape[-1], eps, **options)
    return out


def layer_norm(x, weight, bias, out, eps, **_):
    rows, options = _of_rows(x)
    _layer_norm[(rows,)](out, x, weight, bias, x.shape[-1], eps, **options)
    return out


def axpby(x, y, a, b, out, **_):
    _axpby[(triton.cdiv(x.numel(), 1024),)](out, x, y, a, b, x.numel(), block=1024)
    return out


def convert(x, scale, out, **_):
    _convert[(triton.cdiv(x.numel(), 1024),)](out, x, scale, x.numel(), block=1024)
    return out


def gated(gate, x, activation, out, **_):
    n = gate.numel()
    _gated[(triton.cdiv(n, 1024),)](out, gate, x, n, activation=activation, block=1024)
    return out
