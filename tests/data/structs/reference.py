"""What the kernel computes; the struct comes as an object with its fields."""

import numpy as np


def smooth(x, p, scale, **_):
    padded = np.pad(x, p.shift)
    y = p.bias + sum(weight * padded[k * p.shift : k * p.shift + p.n] for k, weight in enumerate(p.weights))
    return scale * (np.maximum(y, 0) if p.clamp else y)
