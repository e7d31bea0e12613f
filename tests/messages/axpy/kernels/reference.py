def axpy(x, y, a, **_):
    return a * x + y
