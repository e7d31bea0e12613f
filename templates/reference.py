"""What the bundled kernels compute, in NumPy: the tuner compares every candidate with these.

Floating arrays come in float64, whatever type the kernel works in; scalars and dims come by name as well, and those
that a function has no use for go into `_`.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
HALF_INFINITY = 65520  # from which on numbers round to infinity in float16
LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
PLACES = np.arange(-12, 12, 1 / 4096)  # what is between two of them is off by 2e-9
BELOW = np.array([math.erfc(-place / math.sqrt(2)) / 2 for place in PLACES])  # of a normally distributed number


def add_rms_norm(x: Array, residual: Array, weight: Array, eps: float, **_: object) -> dict[str, Array]:
    """Return residual + x, and its rms_norm, both of x's shape (..., cols)."""
    summed = residual + x
    return {"out": rms_norm(summed, weight, eps), "residual": summed}


def axpby(x: Array, y: Array, a: float, b: float, **_: object) -> Array:
    """Return a * x + b * y, shape (n,)."""
    return a * x + b * y


def column_argmax(x: Array, **_: object) -> NDArray[np.int64]:
    """Return the place of the largest element of each column of x, or of its first NaN, shape (cols,)."""
    return row_argmax(x.T)


def column_max(x: Array, **_: object) -> Array:
    """Return the largest element of each column of x, shape (cols,): NaN if it has one, -inf if it has none at all."""
    return row_max(x.T)


def column_sum(x: Array, **_: object) -> Array:
    """Return the sum of each column of x, shape (cols,); 0 for columns without elements."""
    return row_sum(x.T)


def convert(x: Array, scale: float, to: str, **_: object) -> Array:
    """Return scale * x; where `to` is a float8 type, no further from 0 than the largest number of that."""
    product = scale * x
    return np.clip(product, -LARGEST[to], LARGEST[to]) if to in LARGEST else product


def cross_entropy(logits: Array, target: NDArray[np.int64], ignore_index: int, **_: object) -> dict[str, Array]:
    """Return the loss of each row of logits, shape (rows, cols), and logsumexp, both of shape (rows,).

    The loss is 0 where the target is `ignore_index`, and NaN where it is outside of the row otherwise. Both are NaN for
    rows that hold NaN or +inf.
    """
    rows, cols = logits.shape
    largest = logits.max(axis=1, initial=np.finfo(np.float32).min)
    with np.errstate(invalid="ignore", divide="ignore"):
        logsumexp: Array = largest + np.log(np.exp(logits - largest[:, None]).sum(axis=1))
    within = (target >= 0) & (target < cols)
    chosen = np.full(rows, np.nan)
    chosen[within] = logits[np.flatnonzero(within), target[within]]
    with np.errstate(invalid="ignore"):
        loss = np.where(target == ignore_index, 0.0, logsumexp - chosen)
    return {"loss": loss, "logsumexp": logsumexp}


def cross_entropy_backward(  # what `cross_entropy` is passed and returns, and the gradient of its loss
    logits: Array, target: NDArray[np.int64], logsumexp: Array, grad_loss: Array, ignore_index: int, **_: object
) -> Array:
    """Return the gradient of logits, shape (rows, cols): exp(logits - logsumexp), less 1 at the target, by grad_loss.

    It is 0 in rows whose target is `ignore_index`, and NaN where a target is outside of the row otherwise.
    """
    within = (target >= 0) & (target < logits.shape[1])
    with np.errstate(over="ignore"):
        gradient: Array = np.exp(logits - logsumexp[:, None])
    gradient[np.flatnonzero(within), target[within]] -= 1
    gradient *= np.where(within, grad_loss, np.nan)[:, None]
    gradient[target == ignore_index] = 0
    return gradient


def targets(generator: np.random.Generator, rows: int, cols: int) -> dict[str, NDArray[np.int64]]:
    """Return a column for each of `rows` rows, shape (rows,), or -100 for one in 8, and where there are no columns."""
    target = generator.integers(0, max(1, cols), rows)
    target[(generator.random(rows) < 1 / 8) | (cols == 0)] = -100
    return {"target": target}


def layer_norm(x: Array, weight: Array, bias: Array, eps: float, **_: object) -> Array:
    """Return weight * (x - mean) / sqrt(variance + eps) + bias along the last axis; weight and bias have its length.

    The variance is the mean of (x - mean)**2. Rows that hold NaN or infinities become NaN.
    """
    centred = _centred(x)
    with np.errstate(invalid="ignore"):
        return centred * _factor(centred, eps) * weight + bias


def layer_norm_backward(grad_out: Array, x: Array, weight: Array, eps: float, **_: object) -> dict[str, Array]:
    """Return the gradients of sum(grad_out * layer_norm(x, weight, bias, eps)) by x, weight and bias.

    That by x is NaN in rows that hold NaN or infinities, also where one stands in grad_out * weight.
    """
    centred = _centred(x)
    factor = _factor(centred, eps)
    with np.errstate(invalid="ignore"):
        normalised, scaled = centred * factor, grad_out * weight
        grad_x = (_centred(scaled) - normalised * _mean(scaled * normalised)) * factor
        return {
            "grad_x": np.where(np.isfinite(_mean(scaled)), grad_x, np.nan),
            "grad_weight": _sum_of_rows(grad_out * normalised),
            "grad_bias": _sum_of_rows(grad_out),
        }


def gated(gate: Array, x: Array, activation: str, **_: object) -> Array:
    """Return activation(gate) * x, of their shape."""
    with np.errstate(invalid="ignore"):
        return _activated(gate, activation)[0] * x


def gated_backward(grad_out: Array, gate: Array, x: Array, activation: str, **_: object) -> dict[str, Array]:
    """Return the gradients of sum(grad_out * gated(gate, x, activation)) by gate and x."""
    value, slope = _activated(gate, activation)
    with np.errstate(invalid="ignore"):
        return {"grad_gate": grad_out * (x * slope), "grad_x": grad_out * value}


def gemv(a: Array, x: Array, **_: object) -> Array:
    """Return the product of the matrix a, shape (rows, cols), and the vector x, shape (cols,)."""
    product: Array = a @ x
    return product


def reduce_argmax(x: Array, **_: object) -> NDArray[np.int64]:
    """Return the place of the largest element of x of shape (n,), the first of equal ones, in shape (1,)."""
    return row_argmax(x[None])


def reduce_max(x: Array, **_: object) -> Array:
    """Return the largest element of x of shape (n,), as an array of shape (1,); -inf where n is 0."""
    return row_max(x[None])


def reduce_sum(x: Array, **_: object) -> Array:
    """Return the sum of x of shape (n,), as an array of shape (1,); 0 where n is 0."""
    return row_sum(x[None])


def row_argmax(x: Array, **_: object) -> NDArray[np.int64]:
    """Return the place of the largest element of each row of x, or of its first NaN, shape (rows,)."""
    places: NDArray[np.int64] = x.argmax(axis=1) if x.shape[1] else np.zeros(x.shape[0], np.int64)
    return places


def row_max(x: Array, **_: object) -> Array:
    """Return the largest element of each row of x, shape (rows,): NaN if it has one, -inf if it has none at all."""
    largest: Array = x.max(axis=1, initial=-np.inf)
    return largest


def rms_norm(x: Array, weight: Array, eps: float, **_: object) -> Array:
    """Return weight * x / sqrt(mean(x**2) + eps) along the last axis, whose length weight has.

    A row that holds NaN becomes NaN; one with an infinity 0, and NaN where the infinities are.
    """
    with np.errstate(invalid="ignore"):
        result: Array = x * _factor(x, eps) * weight
    return result


def rms_norm_backward(grad_out: Array, x: Array, weight: Array, eps: float, **_: object) -> dict[str, Array]:
    """Return the gradients of sum(grad_out * rms_norm(x, weight, eps)) by x and weight."""
    factor = _factor(x, eps)
    normalised, scaled = x * factor, grad_out * weight
    return {
        "grad_x": (scaled - normalised * _mean(scaled * normalised)) * factor,
        "grad_weight": _sum_of_rows(grad_out * normalised),
    }


def rms_norm_fp8(x: Array, weight: Array, eps: float, **_: object) -> dict[str, Array]:
    """Return rms_norm divided by a scale for each row, which is its largest magnitude / 448, and these scales.

    Zeros have the scale 0, and stay zeros. Rows that hold NaN or infinities become NaN, as does their scale. Where no
    |x * weight| is above 2e-36, the scale is that of 2e-36, whose inverse float32 can hold.
    """
    with np.errstate(invalid="ignore"):
        product = x * weight
        largest = np.abs(product).max(axis=-1, initial=0.0)
        largest = np.where(np.isfinite(largest), np.where(largest > 0, np.maximum(largest, 2e-36), 0), np.nan)
        out = product / np.where(largest == 0, 1, largest)[..., None] * 448
        return {"out": out, "scale": largest * _factor(x, eps)[..., 0] / 448}


def row_softmax(x: Array, **_: object) -> Array:
    """Return exp(x) divided by its sum along each row, shape (rows, cols); x is shifted lest it overflow.

    Rows that hold NaN or +inf, and rows of nothing but -inf, become NaN.
    """
    with np.errstate(invalid="ignore"):
        result: Array = np.exp(x - x.max(axis=1, keepdims=True, initial=-np.inf))
        result /= result.sum(axis=1, keepdims=True)
    return result


def scan(x: NDArray[Any], exclusive: bool, T: str, **_: object) -> NDArray[Any]:  # noqa: N803 - the specialisation's name
    """Return the sums of x[:, 0] to x[:, i], or of what is before x[:, i], shape (rows, n); integers wrap around.

    What float16 cannot hold is infinite.
    """
    sums = np.cumsum(x, axis=1, dtype=x.dtype)
    if exclusive:
        sums = np.concatenate([np.zeros_like(sums[:, :1]), sums[:, :-1]], axis=1)
    return np.where(np.abs(sums) >= HALF_INFINITY, np.copysign(np.inf, sums), sums) if T == "float16" else sums


def skinny_gemm(x: Array, weight: Array, **_: object) -> Array:
    """Return x, shape (m, k), times the transposed weight, shape (n, k), as torch.nn.functional.linear does."""
    product: Array = x @ weight.T
    return product


def row_sum(x: Array, **_: object) -> Array:
    """Return the sum of each row of x, shape (rows,); 0 for rows without elements."""
    total: Array = x.sum(axis=1)
    return total


def transpose(x: Array, **_: object) -> Array:
    """Return x of shape (..., rows, cols) with its last two axes exchanged."""
    return np.ascontiguousarray(np.swapaxes(x, -1, -2))


def permute(x: Array, order: str, **_: object) -> Array:
    """Return x, whose axes are a, b, c and d, with these in the order of the letters."""
    return np.ascontiguousarray(np.transpose(x, ["abcd".index(axis) for axis in order]))


def sgemm(a: Array, b: Array, **_: object) -> Array:
    """Return the matrix product of a, shape (m, k), and b, shape (k, n)."""
    product: Array = a @ b
    return product


def _activated(gate: Array, activation: str) -> tuple[Array, Array]:
    """Return the activation of each element, and its derivative there; NaN where the formulas have 0 * inf."""
    with np.errstate(all="ignore"):
        if activation == "relu":
            return np.where(gate < 0, 0, gate), np.where(gate <= 0, 0.0, 1.0)
        if activation == "gelu":
            below, density = _normal(gate)
            return gate * below, below + gate * density
        rise = np.ones_like(gate)
        logit = gate
        if activation == "gelu_tanh":  # (1 + tanh(u)) / 2 is the logistic function of 2 u
            outer = np.sqrt(8 / np.pi)
            logit, rise = outer * (gate + 0.044715 * gate * gate * gate), outer * (1 + 3 * 0.044715 * gate * gate)
        share = 1 / (1 + np.exp(-logit))
        ratio = np.exp(-np.abs(logit))  # of the smaller of share and 1 - share to the larger: no digits cancel
        slope = ratio / (1 + ratio) ** 2 * rise
        return (share, slope) if activation == "sigmoid" else (gate * share, share + gate * slope)


def _normal(x: Array) -> tuple[Array, Array]:
    """Return the chance that a normally distributed number is less than x, by a table, and the density there."""
    density: Array = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    return np.interp(x, PLACES, BELOW, left=0), density


def _centred(x: Array) -> Array:
    """Return x without its mean along the last axis; NaN where that is infinite or NaN."""
    with np.errstate(invalid="ignore"):
        return x - _mean(x)


def _mean(x: Array) -> Array:
    """Return the mean along the last axis, kept as one of length 1; 0 of nothing."""
    with np.errstate(invalid="ignore"):
        mean: Array = x.sum(axis=-1, keepdims=True) / max(1, x.shape[-1])
    return mean


def _factor(x: Array, eps: float) -> Array:
    """Return what makes the mean of the squares of x along the last axis 1, but for eps."""
    with np.errstate(all="ignore"):
        factor: Array = 1 / np.sqrt(_mean(x * x) + eps)
    return factor


def _sum_of_rows(x: Array) -> Array:
    """Return the sum over all axes but the last."""
    total: Array = x.sum(axis=tuple(range(x.ndim - 1)))
    return total
