"""The reference of the kernel beside it."""

import numpy as np


def total(x, **_):
    return np.asarray(x, np.float64).sum(keepdims=True)
