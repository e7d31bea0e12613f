"""What the two kernels compute. The largest number of float8_e4m3fn is 448."""

import numpy as np


def quantise(x, scale, **_):
    return np.clip(scale * x, -448.0, 448.0)


def dequantise(x, scale, **_):
    return scale * x
