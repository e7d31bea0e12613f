"""What the kernel computes, in NumPy."""


def move(x, **_):
    """Return x."""
    return x
