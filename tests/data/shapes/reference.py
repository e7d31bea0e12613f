"""References for the kernels of this folder."""

import itertools

import numpy as np


def silu_and_mul(x, d):
    return x[:, :d] / (1 + np.exp(-x[:, :d])) * x[:, d:]


def row_sums(offsets, values):
    return np.array([values[begin:end].sum() for begin, end in itertools.pairwise(offsets)])


def offsets(generator, n, nonzeros):
    cuts = np.sort(generator.integers(0, nonzeros, max(0, n - 1), endpoint=True))
    return {"offsets": np.concatenate([[0], cuts, [nonzeros]])[: n + 1]}


def topk_softmax(logits, topk):
    order = np.argsort(-logits, axis=1, kind="stable")[:, :topk]
    shares = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
    shares = shares / shares.sum(axis=1, keepdims=True)
    return {"weights": np.take_along_axis(shares, order, axis=1), "ids": order}


def ramp(n, start):
    return start + np.arange(n)


def repeated(x, times):
    return np.repeat(x, times)


def halves(x, d):
    return x[:, :d] + x[:, d : 2 * d]


def arranged(x, mode):
    return 2 * (x if mode == "NHD" else x.T)
