"""What the kernels of this folder compute."""

import numpy as np


def grid_sum(x):
    return x.sum(keepdims=True)


def cluster_rows(x):
    return x.sum(axis=1)


def early(x):
    return x**2 + np.roll(x, -1) ** 2
