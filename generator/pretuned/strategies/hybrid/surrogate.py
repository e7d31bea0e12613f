"""A Gaussian process over configurations: what to expect of one that was not measured, and how sure the expectation is.

Theory of operation. Two configurations are alike as far as their parameters are: the covariance of x and y is
exp(-sum over parameters of weight * distance), where the distance of two values of one parameter is 0 for the same, and
else DIFFERENT for being another value at all and the rest for how far apart they stand among the sorted values. A value
thus says something about its neighbours, and a flag or a cliff is not taken for a smooth slope. The exponential keeps
the process rough, as times over launch shapes are.

The weights, which say what matters and what does not, and the noise maximise the marginal likelihood (Rasmussen and
Williams, Gaussian Processes for Machine Learning, equation 5.8, the scale of the covariance profiled out) under a weak
prior, by sign-based steps (Rprop) of a fixed number: the cost is known, and the same data gives the same model. At most
SUBSET rows take part in that, the faster half and a spread of the others; predictions use all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
import numpy.typing as npt

DIFFERENT: Final = 0.3  # of the distance between the first and the last value
SUBSET: Final = 160  # rows; beyond, the weights change little and the cost is cubic
STEPS: Final = 20
NOISE: Final = 0.01  # expected of the variance, before the data says
PRIORS: Final = (0.2, 0.1)  # precision of the logarithms of the weights around 1, and of the noise's around NOISE
JITTER: Final = 1e-6

Floats = npt.NDArray[np.float64]
Levels = npt.NDArray[np.intp]  # (configurations, parameters), each column from 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Surrogate:
    """A fitted process. `tables[j]` holds the weighted distances between the values of parameter j."""

    tables: tuple[Floats, ...]
    noise: float
    scale: float  # of the covariance, in squared units of what was fitted
    mean: float
    known: Levels
    inverse: Floats  # of the covariance of the known, noise included
    weights: Floats  # inverse @ (values - mean)

    @classmethod
    def fit(
        cls, known: Levels, values: Floats, sizes: npt.NDArray[np.intp], ordered: npt.NDArray[np.bool_] | None = None
    ) -> Self:
        """Fit `values`, (rows,), at `known`; `sizes` is the number of values of each parameter.

        `ordered` says which parameters have values in an order; all if None.
        """
        in_order = np.ones(len(sizes), dtype=np.bool_) if ordered is None else ordered
        distances = [_distances(int(size), ordered=bool(one)) for size, one in zip(sizes, in_order, strict=True)]
        mean = float(values.mean())
        spread = float(values.std()) or 1.0
        scaled = (values - mean) / spread
        chosen = _subset(values)
        weights, noise = _weigh(known[chosen], scaled[chosen], distances)
        tables = tuple(weight * distance for weight, distance in zip(weights, distances, strict=True))
        covariance = _covariance(tables, known, known).astype(np.float64)
        inverse = np.linalg.inv(covariance + (noise + JITTER) * np.eye(len(known))).astype(np.float64)
        solved = inverse @ scaled
        scale = max(float(scaled @ solved) / len(values), 1e-9) * spread**2
        return cls(
            tables=tables,
            noise=noise,
            scale=scale,
            mean=mean,
            known=known,
            inverse=inverse,
            weights=solved * spread,
        )

    def expecting(self, levels: Levels) -> Self:
        """Return the process as if `levels` had come out as expected: it expects the same, and is surer near them.

        The inverse grows by blocks (Rasmussen and Williams, equation A.12): it is not computed anew.
        """
        if not len(levels):
            return self
        across = _covariance(self.tables, self.known, levels).astype(np.float64)
        among = _covariance(self.tables, levels, levels).astype(np.float64)
        solved = self.inverse @ across
        corner = np.linalg.inv(among + (self.noise + JITTER) * np.eye(len(levels)) - across.T @ solved)
        side = -solved @ corner
        inverse = np.block([[self.inverse - side @ solved.T, side], [side.T, corner]])
        weights = np.concatenate([self.weights, np.zeros(len(levels))])
        return replace(self, known=np.concatenate([self.known, levels]), inverse=inverse, weights=weights)

    def predict(self, levels: Levels) -> tuple[Floats, Floats]:
        """Return mean and standard deviation at `levels`, (rows,) each."""
        covariance = _covariance(self.tables, levels, self.known)
        explained = np.einsum("ij,ij->i", covariance @ self.inverse.astype(np.float32), covariance)
        variance = np.maximum(1.0 - explained.astype(np.float64), JITTER) * self.scale
        return covariance.astype(np.float64) @ self.weights + self.mean, np.sqrt(variance)

    def covariance(self, levels: Levels) -> Floats:
        """Return the covariance of `levels` among each other given what is known, (rows, rows), without noise."""
        known = _covariance(self.tables, levels, self.known).astype(np.float64)
        prior = _covariance(self.tables, levels, levels).astype(np.float64)
        return np.asarray((prior - known @ self.inverse @ known.T) * self.scale)


def _distances(size: int, *, ordered: bool = True) -> Floats:
    """Return the distances between the values of one parameter, (size, size); all alike without an order."""
    place = np.arange(size) / max(size - 1, 1)
    apart = np.abs(place[:, None] - place[None, :])
    if not ordered:
        return np.asarray((apart > 0).astype(np.float64))
    return np.asarray(DIFFERENT * (apart > 0) + (1.0 - DIFFERENT) * apart)


def _covariance(tables: tuple[Floats, ...], left: Levels, right: Levels) -> npt.NDArray[np.float32]:
    """Return the covariance of two sets of configurations, of scale 1; one product of matrices and one exponential."""
    looked_up = np.concatenate([table[left[:, j]] for j, table in enumerate(tables)], axis=1).astype(np.float32)
    hot = np.zeros((len(right), looked_up.shape[1]), dtype=np.float32)
    starts = np.cumsum([0, *(len(table) for table in tables)])[:-1]
    hot[np.arange(len(right))[:, None], right + starts] = 1.0
    return np.asarray(np.exp(-(looked_up @ hot.T)))


def _subset(values: Floats) -> npt.NDArray[np.intp]:
    """Return at most SUBSET rows: the smallest values, and a spread of the others."""
    order = np.argsort(values, kind="stable")
    if len(order) <= SUBSET:
        return np.asarray(np.sort(order))
    spread = np.linspace(SUBSET // 2, len(order) - 1, SUBSET // 2).astype(np.intp)
    return np.asarray(np.sort(np.concatenate([order[: SUBSET // 2], order[spread]])))


def _weigh(known: Levels, scaled: Floats, distances: list[Floats]) -> tuple[Floats, float]:
    """Return the weight of each parameter, and the noise, that explain `scaled` best."""
    count, rows = len(distances), len(known)
    apart = np.stack([table[np.ix_(known[:, j], known[:, j])].ravel() for j, table in enumerate(distances)])
    centre = np.append(np.zeros(count), np.log(NOISE))
    precision = np.append(np.full(count, PRIORS[0]), PRIORS[1])
    low, high = np.append(np.full(count, -5.0), np.log(1e-4)), np.append(np.full(count, 3.0), np.log(0.5))
    logs = centre + np.append(np.zeros(count), np.log(2.0))
    step, before = np.full(count + 1, 0.4), np.zeros(count + 1)
    best, found = np.inf, logs
    for _ in range(STEPS):
        weights, noise = np.exp(logs[:-1]), np.exp(logs[-1])
        covariance = np.exp(-(weights @ apart)).reshape(rows, rows)
        noisy = covariance + (noise + JITTER) * np.eye(rows)
        inverse = np.linalg.inv(noisy)
        solved = inverse @ scaled
        scale = max(float(scaled @ solved) / rows, 1e-9)
        off = logs - centre
        loss = 0.5 * (rows * np.log(scale) + np.linalg.slogdet(noisy)[1] + precision @ off**2)
        if loss < best:
            best, found = float(loss), logs
        blame = inverse - np.outer(solved, solved) / scale
        slope = np.append(-0.5 * weights * (apart @ (blame * covariance).ravel()), 0.5 * noise * np.trace(blame))
        sign = np.sign(slope + precision * off)
        step = np.where(sign * before > 0, np.minimum(1.3 * step, 1.0), np.where(sign * before < 0, 0.5 * step, step))
        logs, before = np.clip(logs - sign * step, low, high), sign
    return np.exp(found[:-1]), float(np.exp(found[-1]))
