"""What the kernel computes, in NumPy, and how its results are judged."""

import numpy as np


def pack_pixels(x, **_):
    """Return q and scale of every pixel: x has shape (pixels, channels)."""
    scale = x.max(axis=1) / 255
    steps = np.where(scale > 0, scale, 1)
    return {"q": np.rint(x / steps[:, None]), "scale": scale}


def close(name, out, ref, **_):
    """Allow the neighbouring integer in q, where x / scale lies near a half; judge the scale as usual."""
    if name == "scale":
        return bool(np.allclose(out, ref, rtol=1e-6, atol=0))
    far = int((np.abs(out.astype(int) - ref) > 1).sum())
    return f"{far} of {out.size} integers are off by more than 1" if far else None
