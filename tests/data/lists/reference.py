import numpy as np


def grouped(a, b, rows, **_):
    assert tuple(len(x) for x in a) == rows
    return [x @ y for x, y in zip(a, b, strict=True)]


def concatenate(x, **_):
    return np.concatenate(x)


def descend(p, g, rate, **_):
    steps = list(zip(p, g, strict=True))
    return {"p": [x - rate * y for x, y in steps], "squares": [(y * y).sum().reshape(1) for _, y in steps]}
