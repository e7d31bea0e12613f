"""What the kernels of this folder compute, in NumPy."""


def stream(x, a, **_):
    return a * x
