import numpy as np


def inputs(generator, n, **_):
    return {"x": generator.integers(-8, 9, n)}


def groups(x, tile, **_):
    """Return what tiles of `tile` threads give."""
    tiles = x.reshape(-1, tile)
    odd = tiles & 1
    sums = [np.where(odd == bit, tiles, 0).sum(axis=1, keepdims=True) for bit in (0, 1)]
    counts = [(odd == bit).sum(axis=1, keepdims=True) for bit in (0, 1)]
    ranks = np.broadcast_to(np.arange(tile), tiles.shape)
    later = np.concatenate([tiles[:, 1:], tiles[:, -1:]], axis=1)
    whole = np.ones_like(tiles)
    blocks = 64 // tile
    expected = [
        tiles.sum(axis=1, keepdims=True) * whole,
        tiles.max(axis=1, keepdims=True) * whole,
        tiles[:, :1] * whole,
        later,
        tiles[:, np.arange(tile) ^ (tile // 2)],
        (tiles > 0).sum(axis=1, keepdims=True) * whole,
        ((tiles > 5).any(axis=1, keepdims=True) + 2 * (tiles > -9).all(axis=1, keepdims=True)) * whole,
        (np.arange(len(tiles)) % blocks * 1000 + blocks)[:, None] * whole,
        tiles.cumsum(axis=1),
        tiles.cumsum(axis=1) - tiles,
        np.where(odd == 1, sums[1] + 100 * counts[1], sums[0] + 100 * counts[0]),
        x.reshape(-1, 64)[:, ::-1].reshape(tiles.shape) + ranks,
    ]
    return np.stack([one.ravel() for one in expected], axis=1)
