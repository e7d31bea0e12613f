"""What the kernel computes, in complex128."""

import numpy as np


def rotate(x, z, **_):
    y = x * z + z / x
    return {"y": y, "size": np.abs(y)}
