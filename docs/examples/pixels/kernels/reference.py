"""What the kernel computes, in NumPy."""

import numpy as np


def pack_pixels(x, **_):
    """Return q and scale of every pixel: x has shape (pixels, channels)."""
    scale = x.max(axis=1) / 255
    steps = np.where(scale > 0, scale, 1)
    return {"q": np.rint(x / steps[:, None]), "scale": scale}
