"""What the kernels of this folder compute."""


def scale_rows(x, w, **_):
    return x * w
