"""What the bundled kernels compute, in NumPy: the tuner compares every candidate with these.

Floating arrays come in float64, whatever type the kernel works in; scalars and dims come by name as well, and those
that a function has no use for go into `_`.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def axpby(x: Array, y: Array, a: float, b: float, **_: object) -> Array:
    """Return a * x + b * y, shape (n,)."""
    return a * x + b * y


def reduce_sum(x: Array, **_: object) -> Array:
    """Return the sum of x of shape (n,), as an array of shape (1,); 0 where n is 0."""
    total: Array = x.sum(keepdims=True)
    return total


def row_softmax(x: Array, **_: object) -> Array:
    """Return exp(x) divided by its sum along each row, shape (rows, cols); x is shifted lest it overflow.

    Rows that hold NaN or +inf, and rows of nothing but -inf, become NaN.
    """
    with np.errstate(invalid="ignore"):
        result: Array = np.exp(x - x.max(axis=1, keepdims=True, initial=-np.inf))
        result /= result.sum(axis=1, keepdims=True)
    return result


def transpose(x: Array, **_: object) -> Array:
    """Return x of shape (rows, cols) with its axes exchanged."""
    return np.ascontiguousarray(x.T)


def sgemm(a: Array, b: Array, **_: object) -> Array:
    """Return the matrix product of a, shape (m, k), and b, shape (k, n)."""
    product: Array = a @ b
    return product
