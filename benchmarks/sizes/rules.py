"""Rules that say what runs at a size that nobody measured, made from the same measurements so that they compare.

Each takes what is `Known` and gives a pick: from a problem, and which configurations are legal there, to the place of
one of them.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pretuned.config.project import MAX_CONFIGURATIONS
from pretuned.measure.launch import arrays
from pretuned.record.selections import PredictedChoice, Selection
from pretuned.spec.guards import guards as guards_of
from pretuned.spec.sizes import sizes_of
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.selecting import LISTED, by_dims
from pretuned.tune.selection import Predictor, ranking
from sizes.matrix import Matrix

Legal = npt.NDArray[np.bool_]
Pick = Callable[[Problem, Legal], int]

ROW_CHOICES, GAIN = 4, 0.0075  # of a row, with guards of their own; over the default
GOAL, MOST, DEPTH = 1.1, 10, 6  # Helion's: within 10% of the best, of at most 10 configurations, by a tree that deep


@dataclass(frozen=True, kw_only=True, eq=False)
class Known:
    """What a rule is made from: all candidates' times at tuned sizes, and at a few drawn problems, by their places."""

    matrix: Matrix
    tuned: Sequence[int]
    drawn: Sequence[int] = ()

    @property
    def places(self) -> list[int]:
        return [*self.tuned, *self.drawn]

    @cached_property
    def times(self) -> npt.NDArray[np.float64]:
        """(problems, configurations) in microseconds, infinite where one is illegal or failed."""
        return np.nan_to_num(self.matrix.times[self.places], nan=np.inf)

    @cached_property
    def selection(self) -> Selection:
        """Our selection, made from all of this."""
        return selected(self)

    @property
    def problems(self) -> list[Problem]:
        return [self.matrix.problems[at] for at in self.places]

    @property
    def dims(self) -> npt.NDArray[np.float64]:
        return np.array([[int(size) for _, size in problem.dims] for problem in self.problems], dtype=np.float64)


def default(known: Known) -> Pick:
    """The author's default, everywhere."""
    return lambda problem, _legal: known.matrix.default_at(problem)


def nearest(known: Known) -> Pick:
    """The best of the problem that is nearest by the ratios of sizes."""
    logs, times = np.log(np.maximum(known.dims, 1)), known.times

    def pick(problem: Problem, legal: Legal) -> int:
        place = np.log([max(1, int(size)) for _, size in problem.dims])
        near = times[np.argmin(((logs - place) ** 2).sum(axis=1))]
        return _best(np.where(legal, near, np.inf))

    return pick


def middles(known: Known) -> Pick:
    """Rows at tuned sizes, each for the sizes up to the middle of the next by ratio; the default beyond them.

    A row has its winner and the best of other guards, four in all, and then the default. That is what generated
    packages did before selections; the bounds are those of `isqrt(a * b)`.
    """
    matrix, spec = known.matrix, known.matrix.spec
    sizes = {name: sorted(set(dim.sizes or ())) for name, dim in spec.free_dims.items()}
    inner = {name: [max(math.isqrt(a * b), a + 1) for a, b in itertools.pairwise(of)] for name, of in sizes.items()}
    guards = [guards_of(spec, matrix.specialisation, c, matrix.facts) for c in matrix.configurations]
    rows = {}
    for at in known.tuned:
        times = np.nan_to_num(matrix.times[at], nan=np.inf)
        kept: list[int] = []
        for one in np.argsort(times, kind="stable").tolist():
            if times[one] > (1 - GAIN) * times[0] or len(kept) == ROW_CHOICES:
                break
            if not any(guards[other].covers(guards[one]) or guards[other] == guards[one] for other in kept):
                kept.append(one)
        rows[tuple(int(size) for _, size in matrix.problems[at].dims)] = [*kept, 0]

    def pick(problem: Problem, legal: Legal) -> int:
        dims = {name: int(size) for name, size in problem.dims}
        if any(not sizes[name][0] <= size <= sizes[name][-1] for name, size in dims.items()):
            return 0
        answering = tuple(sizes[name][bisect_right(inner[name], dims[name])] for name in sorted(dims))
        row = rows.get(answering)
        if row is None:
            called = [dims[name] for name in sorted(dims)]
            row = rows[min(rows, key=lambda one: math.dist(np.log(one), np.log(called)))]
        return next((one for one in row if legal[one]), 0)

    return pick


def interpolated(known: Known) -> Pick:
    """The least of every candidate's time, interpolated between tuned sizes: multilinear in logarithms.

    Beyond the sizes the slope of the last two goes on. A corner at which a candidate is illegal takes no part.
    """
    matrix = known.matrix
    names = sorted(matrix.spec.free_dims)
    grid = [sorted({dict(matrix.problems[at].dims)[name] for at in known.tuned}) for name in names]
    times = {matrix.problems[at].dims: np.log(matrix.times[at]) for at in known.tuned}

    def pick(problem: Problem, legal: Legal) -> int:
        corners = []
        for name, sizes in zip(names, grid, strict=True):
            size = max(1, int(dict(problem.dims)[name]))
            if len(sizes) == 1:
                corners.append([(sizes[0], 1.0)])
                continue
            at = min(max(np.searchsorted(sizes, size) - 1, 0), len(sizes) - 2)
            low, high = sizes[at], sizes[at + 1]
            share = math.log(size / low) / math.log(high / low)
            corners.append([(low, 1 - share), (high, share)])
        total, weights = np.zeros(len(legal)), np.zeros(len(legal))
        for corner in itertools.product(*corners):
            weight = math.prod(share for _, share in corner)
            logs = times.get(tuple(zip(names, (size for size, _ in corner), strict=True)))
            if logs is not None:
                here = ~np.isnan(logs)
                total[here] += weight * logs[here]
                weights[here] += weight
        with np.errstate(divide="ignore", invalid="ignore"):
            predicted = np.where((weights > 0.01) & legal, total / weights, np.inf)
        return _best(predicted)

    return pick


def helion(known: Known) -> Pick:
    """Helion's ahead-of-time heuristic, with the options that it has unless told otherwise.

    Configurations are added, each the one that brings most problems within 10% of their best, until all are or there
    are 10. A tree of depth 6 at most, split where labels' entropy falls most, then gives the label that is most common
    in a leaf. Features are the dims and the sizes of the arrays. An illegal label runs the default. After
    `heuristic_generator.py` and `decision_tree_backend.py` of pytorch/helion, written anew.
    """
    times = known.times
    chosen = _covering(times / times.min(axis=1, keepdims=True))
    labels = times[:, chosen].argmin(axis=1)
    features = np.array([_features(known.matrix, problem) for problem in known.problems], dtype=np.float64)
    tree = _tree(features, labels, 0)

    def pick(problem: Problem, legal: Legal) -> int:
        node, here = tree, _features(known.matrix, problem)
        while isinstance(node, tuple):
            feature, threshold, left, right = node
            node = left if here[feature] <= threshold else right
        return chosen[node] if legal[chosen[node]] else 0

    return pick


def _covering(slowdowns: npt.NDArray[np.float64]) -> list[int]:
    chosen: list[int] = []
    current = np.full(len(slowdowns), np.inf)
    while len(chosen) < MOST and not (current <= GOAL).all():
        within = (np.minimum(current[:, None], slowdowns) <= GOAL).sum(axis=0)
        within[chosen] = -1
        chosen.append(int(within.argmax()))
        current = np.minimum(current, slowdowns[:, chosen[-1]])
    return chosen


def _features(matrix: Matrix, problem: Problem) -> list[int]:
    return [*(int(size) for _, size in problem.dims), *(buffer.size for buffer in arrays(matrix.spec, problem))]


Node = int | tuple[int, float, "Node", "Node"]


def _tree(features: npt.NDArray[np.float64], labels: npt.NDArray[np.int64], depth: int) -> Node:
    usual = int(np.bincount(labels).argmax())
    if depth == DEPTH or len(set(labels.tolist())) == 1:
        return usual
    best, split = 1e-12, None
    whole = _entropy(labels)
    for feature in range(features.shape[1]):
        for threshold in np.unique(features[:, feature])[:-1]:
            left = features[:, feature] <= threshold
            share = left.mean()
            gain = whole - share * _entropy(labels[left]) - (1 - share) * _entropy(labels[~left])
            if gain > best:
                best, split = gain, (feature, float(threshold), left)
    if split is None:
        return usual
    feature, threshold, left = split
    below, above = _tree(features[left], labels[left], depth + 1), _tree(features[~left], labels[~left], depth + 1)
    return feature, threshold, below, above


def _entropy(labels: npt.NDArray[np.int64]) -> float:
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    return float(-(shares * np.log2(shares)).sum())


def ours(known: Known) -> Pick:
    """The selection of `pretuned.tune.selection`: at most 8 configurations, by the costs that are predicted."""
    return _picking(known.selection, known.matrix)


def bold(known: Known) -> Pick:
    """The same without margins: whatever is predicted to be the fastest runs, by however little."""
    return _picking(replace(known.selection, margins=(0, 0)), known.matrix)


def alone(known: Known) -> Pick:
    """The same with costs that come near to the times of their own configurations, whatever they decide."""
    return _picking(selected(known, refined=False), known.matrix)


def _picking(selection: Selection, matrix: Matrix) -> Pick:
    places = {configuration: at for at, configuration in enumerate(matrix.configurations)}

    def pick(problem: Problem, legal: Legal) -> int:
        ranked = ranking(selection, matrix.spec, problem, matrix.facts)
        return next((places[one] for one in ranked if legal[places[one]]), matrix.default_at(problem))

    return pick


def hindsight(known: Known) -> Pick:
    """The best of what our selection ships, by the times at that very problem: what a perfect rule would lose."""
    matrix = known.matrix
    shipped = [matrix.configurations.index(choice.configuration) for choice in known.selection.choices]
    places = {problem: at for at, problem in enumerate(matrix.problems)}
    times = np.nan_to_num(matrix.times[:, shipped], nan=np.inf)
    return lambda problem, _legal: shipped[int(times[places[problem]].argmin())]


def selected(known: Known, *, refined: bool = True) -> Selection:
    """Return the selection that is made from what is known, with costs as they were fitted if they are not `refined`.

    As when tuning: all candidates are known at the tuned sizes and a third of the drawn problems, those of the
    shortlist at the others too.
    """
    matrix = known.matrix
    places = {configuration: at for at, configuration in enumerate(matrix.configurations)}
    predictor = Predictor(
        matrix.spec, matrix.specialisation, matrix.facts, lambda configuration: matrix.resources[places[configuration]]
    )
    whole = _measured(matrix, [*known.tuned, *known.drawn[::3]], matrix.configurations)
    shortlist = predictor.shortlist(whole, by_dims(matrix.spec, LISTED))
    times = whole | _measured(matrix, [at for at in known.drawn if matrix.problems[at] not in whole], shortlist)
    chosen = predictor.choose(times, MAX_CONFIGURATIONS)
    costs = predictor.deciding(times, chosen) if refined else predictor.costs(times, chosen)
    sizes = {name: sizes_of(matrix.spec, name) for name in matrix.spec.free_dims}
    return Selection(
        kernel=matrix.kernel,
        device=matrix.device,
        specialisation=matrix.specialisation,
        choices=tuple(
            PredictedChoice(configuration=one, candidate="", cubin="", cost=costs.get(one, ())) for one in chosen
        ),
        margins=predictor.margins(times, costs),
        reach=tuple((name, (min(sizes[name]), max(sizes[name]))) for name in sorted(sizes)),
        problems=len(times),
        space="",
        verification="",
        compiler="",
        driver="",
        date="",
    )


def _measured(
    matrix: Matrix, places: Sequence[int], configurations: Sequence[Configuration]
) -> dict[Problem, dict[Configuration, float]]:
    columns = {configuration: matrix.configurations.index(configuration) for configuration in configurations}
    return {
        matrix.problems[at]: {
            configuration: float(matrix.times[at, column])
            for configuration, column in columns.items()
            if not np.isnan(matrix.times[at, column])
        }
        for at in places
    }


def _best(times: npt.NDArray[np.float64]) -> int:
    """The place of the least; the default's where nothing is known."""
    return int(times.argmin()) if np.isfinite(times).any() else 0


RULES: Mapping[str, Callable[[Known], Pick]] = {
    "the default": default,
    "middles of tuned sizes": middles,
    "nearest": nearest,
    "interpolation of all": interpolated,
    "Helion's tree": helion,
    "selection (ours)": ours,
    "the same without margins": bold,
    "the same, costs fitted alone": alone,
    "the best of what ships": hindsight,
}
OF_OURS = ("selection (ours)", "the same without margins", "the same, costs fitted alone", "the best of what ships")
