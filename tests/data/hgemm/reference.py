"""What scaled computes, in NumPy."""


def scaled(a, b, bias, alpha, **_):
    """Return alpha * (a @ b) + bias."""
    return alpha * (a @ b) + bias
