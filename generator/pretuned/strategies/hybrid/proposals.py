"""What the hybrid search tries next: most of a batch by the surrogate, the rest by steps from the best and by chance.

Theory of operation. The surrogate models log times. Those of the slowest quarter are drawn in, and failures stand
beyond them, since a search needs to know where the fast ones are, not how slow the others are. The surrogate's part
is chosen one by one for the expected improvement, as sure as if those before, and those still under way, had come out
as expected: no question is asked many times. The steps go one parameter away from the best three, most promising
first. Where nothing is left around these, they start from the next best: even where the surrogate errs, they still
climb.

The first rows are spread out: each is, of a few that are drawn at random, the one that is least like those before
it (Mitchell, Spectrally Optimal Sampling for Distribution Ray Tracing, 1991). So fewer regions go unseen than among
rows drawn at random, and yet not all rows are at the space's edges, as the least alike of all would be.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from pretuned.strategies.hybrid.surrogate import DIFFERENT, Floats, Levels, Surrogate

FIRST: Final = 32  # rows before the surrogate is asked
DRAWN: Final = 10  # rows, of which the least alike to the others is one of the first
LEAST: Final = 8  # of them, that must not have failed
EARLY: Final = 256  # rows; until then batches are half as large and without surprises, since early results teach most
ELITE: Final = 3  # rows whose surroundings are tried first
CLIMBED: Final = 16  # rows whose surroundings are tried, where those of better ones are exhausted
STEPS_SHARE, SURPRISE_SHARE = 0.2, 0.125  # of a batch; the rest is the surrogate's
POOL: Final = 4000  # rows that the surrogate judges: the surroundings of the best, and a sample of all others
SHORTLIST: Final = 400  # rows of these, among which a batch is chosen one by one
SLOW_QUARTER: Final = 0.75
SLOW_SPAN: Final = 0.2  # of the span of the faster ones, into which the slower are drawn

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Known:
    """A space and what was measured of it: `seen` rows with their `times_us`, inf for failures.

    Rows `under_way` were asked for, and have no time that counts. `ordered` says which columns of `levels` have values
    in an order.
    """

    levels: Levels
    sizes: npt.NDArray[np.intp]
    ordered: npt.NDArray[np.bool_]
    seen: Rows
    times_us: Floats
    under_way: Rows

    @classmethod
    def of(
        cls,
        codes: npt.NDArray[np.int16],
        times_us: Mapping[int, float],
        nominal: Sequence[int] = (),
        under_way: Collection[int] = (),
    ) -> Self:
        """Return what is known: `codes` without columns that never vary, each from 0, and the times by row."""
        varies = (codes != codes[:1]).any(axis=0)
        varying = codes[:, varies].astype(np.intp)
        ordered = ~np.isin(np.flatnonzero(varies), np.array(nominal, dtype=np.intp))
        levels = varying - varying.min(axis=0, initial=np.iinfo(np.int16).max)
        seen = np.array(sorted(times_us.keys() - under_way), dtype=np.intp)
        times = np.array([times_us[int(row)] for row in seen], dtype=np.float64)
        sizes = levels.max(axis=0, initial=0) + 1
        going = np.array(sorted(under_way), dtype=np.intp)
        return cls(levels=levels, sizes=sizes, ordered=ordered, seen=seen, times_us=times, under_way=going)

    @property
    def asked(self) -> Rows:
        """The rows that were measured or are under way."""
        return np.concatenate([self.seen, self.under_way])

    @property
    def unseen(self) -> npt.NDArray[np.bool_]:
        """Which rows were neither measured nor are under way."""
        mask = np.ones(len(self.levels), dtype=np.bool_)
        mask[self.asked] = False
        return mask

    @property
    def enough(self) -> bool:
        """Whether there is something to learn from."""
        return len(self.asked) >= FIRST and int(np.isfinite(self.times_us).sum()) >= LEAST

    @property
    def costs(self) -> Floats:
        """What the surrogate learns about each seen row: its log time, with the slow and the failed drawn in."""
        timed = np.isfinite(self.times_us)
        logs = np.log(np.maximum(self.times_us[timed], np.finfo(np.float64).tiny))
        limit = float(np.quantile(logs, SLOW_QUARTER))
        span = SLOW_SPAN * (limit - float(logs.min())) or 1.0
        costs = np.full(len(timed), limit + span)
        costs[timed] = np.where(logs <= limit, logs, limit + span * np.tanh((logs - limit) / (2 * span)))
        return costs

    @property
    def order(self) -> Rows:
        """The seen rows, fastest first."""
        return self.seen[np.argsort(self.times_us, kind="stable")]

    def apart(self, rows: Rows, others: Sequence[int]) -> Floats:
        """Return how far each of `rows` is from the nearest of `others`: the sum over parameters; inf without any."""
        between = np.zeros((len(rows), len(others)))
        for values, size, ordered in zip(self.levels.T, self.sizes, self.ordered, strict=True):
            left, right = values[rows][:, None], values[list(others)][None]
            if ordered:
                between += DIFFERENT * (left != right) + (1.0 - DIFFERENT) * np.abs(left - right) / max(size - 1, 1)
            else:
                between += left != right
        return np.asarray(between.min(axis=1, initial=np.inf))

    def changes(self, row: int) -> Rows:
        """Return in how many parameters each configuration differs from that of `row`."""
        return np.asarray((self.levels != self.levels[row]).sum(axis=1))


class Batch:
    """Distinct rows up to a number, in the order in which they were asked for."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows: dict[int, None] = {}

    def take(self, rows: Iterable[int], most: int) -> None:
        """Add of `rows` the first `most` that are new."""
        for row in rows:
            if most <= 0 or len(self.rows) >= self.size:
                return
            if row not in self.rows:
                self.rows[int(row)] = None
                most -= 1


def room(asked: int, batch: int, left: int) -> int:
    """Return how many rows to ask for behind so many, of those that are `left`: after the first, half a batch early."""
    return min(left, math.ceil(batch / 2) if 0 < asked < EARLY else batch)


def start(known: Known, wanted: list[int], size: int, seed: int) -> list[int]:
    """Return `wanted` and rows that are spread out, `size` in all where the space has so many left."""
    generator = np.random.default_rng([seed, len(known.asked)])
    batch = Batch(size)
    batch.take(wanted, size)
    others = generator.permutation(np.setdiff1d(np.flatnonzero(known.unseen), wanted))
    for at in range(0, len(others), DRAWN):
        if len(batch.rows) == size:
            break
        drawn = others[at : at + DRAWN]
        batch.take([drawn[np.argmax(known.apart(drawn, [*known.asked, *batch.rows]))]], 1)
    batch.take(others, size)
    return list(batch.rows)


def propose(known: Known, size: int, seed: int) -> tuple[list[int], float]:
    """Return the rows to try next, at most `size`, and what the surrogate's part of them is expected to gain."""
    early = len(known.asked) < EARLY
    steps, surprises = round(STEPS_SHARE * size), 0 if early else round(SURPRISE_SHARE * size)
    generator = np.random.default_rng([seed, len(known.asked)])
    costs, unseen = known.costs, known.unseen
    model = Surrogate.fit(known.levels[known.seen], costs, known.sizes, known.ordered)
    model = model.expecting(known.levels[known.under_way])
    near = np.min([known.changes(row) for row in known.order[:ELITE]], axis=0) <= 2  # noqa: PLR2004 - parameters away
    pool = _pool(unseen, near, generator)
    mean, deviation = model.predict(known.levels[pool])
    expected = np.full(len(known.levels), np.inf)
    expected[pool] = mean

    batch = Batch(size)
    improving = _improving(model, known.levels, pool, mean, deviation, float(costs.min()))
    chosen = dict(islice(improving, size - steps - surprises))
    batch.take(chosen, size)
    for row in known.order[:CLIMBED]:
        around = np.flatnonzero((known.changes(row) == 1) & unseen)
        most = min(math.ceil(steps / ELITE), size - surprises - len(batch.rows))
        batch.take(around[np.argsort(expected[around], kind="stable")], most)
    batch.take(generator.permutation(np.flatnonzero(unseen))[: 2 * size], surprises)
    batch.take(pool[np.argsort(mean, kind="stable")], size)
    return list(batch.rows), sum(chosen.values())


def _pool(unseen: npt.NDArray[np.bool_], near: npt.NDArray[np.bool_], generator: np.random.Generator) -> Rows:
    """Return at most POOL unseen rows, of which two thirds may be near the best."""
    around, others = np.flatnonzero(unseen & near), np.flatnonzero(unseen & ~near)
    if len(around) + len(others) > POOL:
        around = generator.permutation(around)[: POOL * 2 // 3]
        others = generator.permutation(others)[: POOL - len(around)]
    return np.sort(np.concatenate([around, others]))


def _improving(
    model: Surrogate, levels: Levels, pool: Rows, mean: Floats, deviation: Floats, best: float
) -> Iterable[tuple[int, float]]:
    """Yield rows of `pool` with their expected improvements, the largest first.

    Each is as if those before had come out as expected, so their sum is about what all of them are expected to gain.
    """
    order = np.argsort(-expected_improvement(mean, deviation, best), kind="stable")[:SHORTLIST]
    rows, mean = pool[order], mean[order]
    covariance = model.covariance(levels[rows])
    noise = model.noise * model.scale
    free = np.ones(len(rows), dtype=np.bool_)
    for _ in range(len(rows)):
        deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
        improvement = np.where(free, expected_improvement(mean, deviation, best), -1.0)
        chosen = int(np.argmax(improvement))
        yield int(rows[chosen]), float(improvement[chosen])
        free[chosen] = False
        best = min(best, float(mean[chosen]))
        column = covariance[:, chosen].copy()
        covariance -= np.outer(column, column) / (max(column[chosen], 1e-12) + noise)


def expected_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return by how much each is expected to fall below `best`, for normal distributions.

    The cumulative distribution is the approximation of Page (Applied Statistics 26, 1977), within 1.8e-4.
    """
    sigmas = (best - mean) / deviation
    below = 0.5 * (1.0 + np.tanh(0.7978845608 * (sigmas + 0.044715 * sigmas**3)))
    density = np.exp(-0.5 * sigmas**2) / math.sqrt(2 * math.pi)
    return np.asarray(deviation * (sigmas * below + density))
