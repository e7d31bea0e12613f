"""What the kernels compute, in complex128 and float64."""


def spin(x, alpha, shift, **_):
    assert type(alpha) is type(shift) is complex
    return alpha * x + shift


def stretch(x, alpha, **_):
    return alpha * x
