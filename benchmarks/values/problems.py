"""Problems to judge results at: sizes from 0 on, log-uniform, of few elements, in turn for every specialisation."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

from pretuned.measure.launch import arrays
from pretuned.spec import space
from pretuned.spec.expressions import ExpressionError
from pretuned.spec.model import KernelSpec
from pretuned.spec.sizes import fits_arguments
from pretuned.spec.space import Pairs, Problem

ATTEMPTS = 200  # for a problem that `requires` admits
BEYOND = 2.0  # times the largest size of the spec that a dim may have
NOTHING, ONE = 0.02, 0.03  # shares of dims that are 0 and 1 besides


def drawn(spec: KernelSpec, count: int, seed: int, elements: int) -> Iterator[Problem]:
    """Yield problems whose arrays have no more than so many elements together, those of `edges` first.

    Each problem is drawn by its place alone, so more of them begin with the same ones.
    """
    specialisations = list(space.specialisations(spec))
    first = [problem for one in specialisations for problem in edges(spec, one)][: count // 2]
    yield from first
    for place in range(len(first), count):
        rng = random.Random(f"{seed}:{spec.name}:{place}")
        for _ in range(ATTEMPTS):
            problem = _drawn(spec, specialisations[place % len(specialisations)], rng, elements)
            if _admitted(spec, problem):
                yield problem
                break


def edges(spec: KernelSpec, specialisation: Pairs) -> list[Problem]:
    """Return the problems of one specialisation all of whose dims are 0 or 1, as far as there are such ones."""
    names = list(spec.free_dims)
    sizes = itertools.product((0, 1), repeat=len(names))
    found = [Problem(specialisation=specialisation, dims=space.pairs(dict(zip(names, s, strict=True)))) for s in sizes]
    return [problem for problem in found if _admitted(spec, problem)]


def _drawn(spec: KernelSpec, specialisation: Pairs, rng: random.Random, elements: int) -> Problem:
    most = {name: min(elements, round(BEYOND * max(_listed(spec, name), default=1024))) for name in spec.free_dims}
    dims = {name: _size(rng, most[name]) for name in spec.free_dims}
    while True:
        problem = Problem(specialisation=specialisation, dims=space.pairs(dims))
        found = _elements(spec, problem)
        if found <= elements:
            return problem
        largest = max(dims, key=lambda name: dims[name])
        dims[largest] = int(dims[largest] * min(2 / 3, max(1 / 3, elements / found)))


def _listed(spec: KernelSpec, name: str) -> list[int]:
    return [*(spec.dims[name].sizes or ()), *(problem[name] for problem in space.joint_sizes(spec))]


def _size(rng: random.Random, largest: int) -> int:
    chance = rng.random()
    if chance < NOTHING + ONE:
        return int(chance >= NOTHING)
    return round(math.exp(rng.uniform(0, math.log(largest))))


def _elements(spec: KernelSpec, problem: Problem) -> int:
    try:
        return sum(buffer.size for buffer in arrays(spec, problem))
    except ExpressionError:
        return 0  # of which `requires` has to say that it is none


def _admitted(spec: KernelSpec, problem: Problem) -> bool:
    try:
        return space.admitted(spec, problem) and fits_arguments(spec, problem) and _elements(spec, problem) >= 0
    except ExpressionError:
        return False
