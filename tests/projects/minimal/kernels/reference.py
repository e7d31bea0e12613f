"""The kernel in NumPy."""


def scale(x, factor, **_):
    return factor * x
