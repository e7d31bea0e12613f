import numpy as np


def histogram(counts, data, bins, **_):
    return counts + np.bincount(np.clip(data, 0, bins - 1), minlength=bins).astype(np.int32)
