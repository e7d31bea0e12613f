import numpy as np


def topk_softmax(scores, topk, normalise, first, **_):
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    probabilities = shifted / shifted.sum(axis=1, keepdims=True)
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, :topk]
    taken = np.take_along_axis(probabilities, order, axis=1)
    if normalise:
        taken = taken / taken.sum(axis=1, keepdims=True)
    weights, places = np.zeros((len(scores), 8)), np.full((len(scores), 8), -1)
    weights[:, :topk], places[:, :topk] = taken, order + first
    return {"weights": weights, "places": places}
