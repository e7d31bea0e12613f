"""What the kernels compute, in NumPy. Floating arrays come in float64."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def quantise_int8(x: Array) -> dict[str, Array]:
    """Return x / scale rounded to integers, and scale, the largest magnitude of each row over 127."""
    scale = np.abs(x).max(axis=1, initial=0) / 127
    return {"q": np.rint(x / np.where(scale > 0, scale, 1)[:, None]), "scale": scale}


def quantise_fp8(x: Array) -> dict[str, Array]:
    """Return x / scale, which the kernel rounds to float8, and scale, the largest magnitude of each row over 448."""
    scale = np.abs(x).max(axis=1, initial=0) / 448
    return {"q": x / np.where(scale > 0, scale, 1)[:, None], "scale": scale}


def scan(x: Array) -> Array:
    """Return the cumulative sums of each row."""
    sums: Array = np.cumsum(x, axis=1)
    return sums


def silu_and_mul(x: Array) -> Array:
    """Return silu of the left half of each row times its right half."""
    gate, up = np.split(x, 2, axis=1)
    product: Array = gate / (1 + np.exp(-gate)) * up
    return product


def silu_and_mul_backward(grad_out: Array, x: Array) -> Array:
    """Return the gradient of silu_and_mul by x."""
    gate, up = np.split(x, 2, axis=1)
    sigmoid = 1 / (1 + np.exp(-gate))
    halves = grad_out * up * sigmoid * (1 + gate * (1 - sigmoid)), grad_out * gate * sigmoid
    gradient: Array = np.concatenate(halves, axis=1)
    return gradient


def topk_softmax(logits: Array, topk: int) -> dict[str, Array]:
    """Return the topk largest of each row's softmax, largest first, and their columns; of equal ones the first."""
    ids = np.argsort(-logits, axis=1, kind="stable")[:, :topk]
    weights = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
    weights /= weights.sum(axis=1, keepdims=True)
    return {"weights": np.take_along_axis(weights, ids, axis=1), "ids": ids}


def ragged_rows(generator: np.random.Generator, n: int, nonzeros: int) -> dict[str, Array]:
    """Return where each of n rows of `nonzeros` elements in all begins, and the end of the last one."""
    cuts = np.sort(generator.integers(0, nonzeros, max(0, n - 1), endpoint=True))
    return {"offsets": np.concatenate([[0], cuts, [nonzeros]])[: n + 1]}


def spmv(values: Array, columns: Array, offsets: Array, x: Array) -> Array:
    """Return the product of a matrix in CSR and the vector x."""
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return np.bincount(rows, weights=values * x[columns], minlength=len(offsets) - 1)


def rotary(x: Array, cos_sin: Array, positions: Array | None, n: int, half: int, interleaved: bool) -> Array:
    """Return x, shape (n, heads, 2 * half), with pair k of each head turned: cosines are in cos_sin[:, :half]."""
    angles = cos_sin[np.arange(n) if positions is None else positions][:, None, :]
    cos, sin = angles[..., :half], angles[..., half:]
    first, second = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(0, half), slice(half, None))
    a, b = x[..., first], x[..., second]
    out = np.empty_like(x)
    out[..., first], out[..., second] = a * cos - b * sin, b * cos + a * sin
    return out


def add_rms_norm(x: Array, residual: Array, weight: Array, eps: float) -> dict[str, Array]:
    """Return residual + x, and the RMS norm of that along each row, times the weights."""
    residual = residual + x
    mean = (residual * residual).sum(axis=1, keepdims=True) / max(1, x.shape[1])
    return {"residual": residual, "x": residual / np.sqrt(mean + eps) * weight}


def unit_vector(x: Array) -> Array:
    """Return x over its length."""
    vector: Array = x / np.sqrt((x * x).sum())
    return vector


def standardise(x: Array) -> Array:
    """Return x less its mean, over its standard deviation."""
    standard: Array = (x - x.mean()) / x.std()
    return standard


class Filter(Protocol):
    """A filter of 5 by 5, row by row."""

    weights: Sequence[float]


def convolution(image: Array, filter: Filter) -> Array:  # noqa: A002 - the argument's name
    """Return the sums of products of the filter and each part of the image that it covers."""
    parts = np.lib.stride_tricks.sliding_window_view(image, (5, 5))
    sums: Array = np.einsum("ijkl,kl->ij", parts, np.reshape(filter.weights, (5, 5)))
    return sums


def transpose_tma(x: Array) -> Array:
    """Return x with rows and columns swapped."""
    return x.T


def grouped_gemm(a: Sequence[Array], b: Sequence[Array]) -> list[Array]:
    """Return the products of matrices."""
    return [x @ y for x, y in zip(a, b, strict=True)]
