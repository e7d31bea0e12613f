"""What the kernels compute, in NumPy: the tuner compares every candidate with it. Arrays come in float64."""

import numpy as np

Arrays = dict[str, np.ndarray]


def rms_norm(x: np.ndarray, weight: np.ndarray, eps: float, **_: object) -> Arrays:
    """Return y and rstd of each row; x is of shape (rows, cols), weight (cols,)."""
    rstd = 1 / np.sqrt((x * x).sum(axis=1) / x.shape[1] + eps)
    return {"y": x * rstd[:, None] * weight, "rstd": rstd}


def rms_norm_backward(grad_y: np.ndarray, x: np.ndarray, weight: np.ndarray, rstd: np.ndarray, **_: object) -> Arrays:
    """Return the gradient by x and weight; grad_y and x are of shape (rows, cols), weight (cols,), rstd (rows,)."""
    normalised, scaled = x * rstd[:, None], grad_y * weight
    mean = (scaled * normalised).sum(axis=1, keepdims=True) / x.shape[1]
    return {"grad_x": (scaled - normalised * mean) * rstd[:, None], "grad_weight": (grad_y * normalised).sum(axis=0)}
