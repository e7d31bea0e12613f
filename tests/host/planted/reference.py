import numpy as np


def planted(x, **_):
    tiles = np.pad(x, (0, -len(x) % 64)).reshape(-1, 64)
    sums = tiles.reshape(-1, 2, 32).sum(axis=2, keepdims=True).repeat(32, axis=2).reshape(-1, 64)
    return (tiles[:, ::-1] + sums).ravel()[: len(x)]
