"""What hgemm computes, in NumPy."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def hgemm(a: Array, b: Array, **_: object) -> Array:
    """Return the matrix product of a, shape (m, k), and b, shape (k, n)."""
    product: Array = a @ b
    return product
