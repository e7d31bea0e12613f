"""What the kernel computes. Sums are rounded towards zero where the arrays hold integers."""

import numpy as np


def blend(x, alpha, last, gain, half, **_):
    y = alpha * x.astype(np.float64)
    y[last : last + 1] += gain + half
    return np.trunc(y) if x.dtype.kind == "i" else np.clip(y, -57344, 57344)
