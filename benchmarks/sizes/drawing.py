"""Problems to judge a rule at: drawn by strata and by a seed, and by nothing that the tuner draws its own with.

Inside the tuned sizes: `aligned` (multiples of 64, or of 16 where the range is narrow), `any`, `edge` (the middle
between two tuned sizes, by ratio, and next to it), `prime`, `guard` (odd multiples of 2, 4 or 8, and one more or less
than a multiple of a tile), `tuned`. Beyond: `2% beyond`, `far beyond` (1.5 to 2 times), `far outside` (up to 4 times),
each of one dim or more, larger or smaller.

Where a spec lists joint sizes, ranges lie around a point between two of its problems, by ratio, and one problem in ten
has one dim at its least size.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence

from pretuned.spec import space
from pretuned.spec.model import KernelSpec
from pretuned.spec.sizes import fits_arguments, sizes_of
from pretuned.spec.space import Pairs, Problem

INSIDE = {"aligned": 7, "any": 4, "edge": 5, "prime": 3, "guard": 4, "tuned": 1}  # of 24
OUTSIDE = {"2% beyond": 2, "far beyond": 2, "far outside": 2}
ATTEMPTS = 400  # for a problem, before its stratum is left
LARGER = 0.6  # of what lies beyond: larger than all sizes
AROUND = 1.5  # from a point between two joint problems, as a factor of each dim
LEAST = 0.1  # of the problems between joint ones: one dim has its least size


def draw(
    spec: KernelSpec,
    specialisation: Pairs,
    strata: Mapping[str, int],
    seed: int,
    *,
    multiples: Mapping[str, int] | None = None,
) -> list[tuple[str, Problem]]:
    """Return (stratum, problem): distinct admitted problems, so many of each of `strata`, fewer where there are none.

    `multiples` gives what a dim must be a multiple of.
    """
    rng = random.Random(f"{seed}:{spec.name}:{specialisation}")
    listed = space.joint_sizes(spec, dict(specialisation))
    sizes = {name: list(sizes_of(spec, name, dict(specialisation))) for name in spec.free_dims}
    found: dict[Problem, str] = {}
    for stratum, count in strata.items():
        for _ in range(count):
            for _ in range(ATTEMPTS):
                dims = _joint(rng, stratum, listed, sizes) if listed else _dims(rng, stratum, sizes)
                for name, factor in (multiples or {}).items():
                    dims[name] = max(1, round(dims[name] / factor)) * factor
                problem = Problem(specialisation=specialisation, dims=tuple(sorted(dims.items())))
                if problem not in found and fits_arguments(spec, problem) and space.admitted(spec, problem):
                    found[problem] = stratum
                    break
    return [(stratum, problem) for problem, stratum in found.items()]


def shares(count: int, strata: Mapping[str, int] = INSIDE) -> dict[str, int]:
    """Return `strata` scaled to about `count` problems in all."""
    whole = sum(strata.values())
    return {name: max(1, round(count * share / whole)) for name, share in strata.items()}


def is_inside(spec: KernelSpec, problem: Problem) -> bool:
    """Return whether every dim lies within its tuned sizes."""
    sizes = {name: sizes_of(spec, name, dict(problem.specialisation)) for name, _ in problem.dims}
    return all(sizes[name][0] <= int(size) <= sizes[name][-1] for name, size in problem.dims)


def _dims(rng: random.Random, stratum: str, sizes: Mapping[str, list[int]]) -> dict[str, int]:
    if stratum in _BEYOND:
        dims = {name: _any(rng, of if stratum != "far outside" else _lower(of)) for name, of in sizes.items()}
        name = rng.choice(list(dims))
        dims[name] = _scaled(sizes[name], _factor(rng, stratum), larger=rng.random() < LARGER)
        return dims
    return {name: _STYLES[stratum](rng, of) for name, of in sizes.items()}


def _joint(
    rng: random.Random, stratum: str, listed: list[dict[str, int]], sizes: Mapping[str, list[int]]
) -> dict[str, int]:
    if stratum in _BEYOND:
        name, larger = rng.choice(list(sizes)), rng.random() < LARGER
        one = other = (max if larger else min)(listed, key=lambda problem: problem[name])
    else:
        one, other = rng.choice(listed), rng.choice(listed)
    share = rng.random()
    centre = {dim: one[dim] ** share * other[dim] ** (1 - share) for dim in sizes}
    near = {dim: [_within(sizes[dim], round(size * by)) for by in (1 / AROUND, AROUND)] for dim, size in centre.items()}
    if stratum in _BEYOND:
        dims = {dim: _any(rng, of) for dim, of in near.items()}
        dims[name] = _scaled(sizes[name], _factor(rng, stratum), larger=larger)
        return dims
    dims = {dim: _STYLES[stratum](rng, of) for dim, of in near.items()}
    if rng.random() < LEAST:
        name = rng.choice(list(sizes))
        dims[name] = sizes[name][0]
    return dims


_BEYOND = {"2% beyond": (1.01, 1.03), "far beyond": (1.5, 2.0), "far outside": (3.0, 4.0)}


def _lower(sizes: list[int]) -> list[int]:
    """The smaller half of a range, so that what is far outside in one dim stays measurable."""
    return [sizes[0], max(sizes[0], math.isqrt(sizes[0] * sizes[-1]))]


def _factor(rng: random.Random, stratum: str) -> float:
    least, most = _BEYOND[stratum]
    return math.exp(rng.uniform(math.log(least), math.log(most)))


def _scaled(sizes: Sequence[int], factor: float, *, larger: bool) -> int:
    return max(1, round(sizes[-1] * factor if larger else sizes[0] / factor))


def _any(rng: random.Random, sizes: Sequence[int]) -> int:
    return round(math.exp(rng.uniform(math.log(sizes[0]), math.log(sizes[-1]))))


def _within(sizes: list[int], size: int) -> int:
    return min(max(size, sizes[0]), sizes[-1])


def _aligned(rng: random.Random, sizes: list[int]) -> int:
    step = 64 if sizes[-1] >= 2 * sizes[0] >= 128 else 16
    return _within(sizes, round(_any(rng, sizes) / step) * step)


def _edge(rng: random.Random, sizes: list[int]) -> int:
    """At the middle of two tuned sizes in about half of the dims, aligned elsewhere."""
    pairs = list(itertools.pairwise(sizes))
    if not pairs or rng.random() < 0.4:
        return _aligned(rng, sizes)
    return _within(sizes, math.isqrt(math.prod(rng.choice(pairs))) + rng.choice((-1, 0, 0, 1)))


def _prime(rng: random.Random, sizes: list[int]) -> int:
    size = _any(rng, sizes)
    return next((n for n in range(size, max(2, sizes[0] - 1), -1) if _is_prime(n)), _within(sizes, size))


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))


def _guard(rng: random.Random, sizes: list[int]) -> int:
    step = rng.choice((2, 4, 8, 32, 64, 128, 256))
    whole = round(_any(rng, sizes) / step)
    return _within(sizes, (whole | 1) * step if step <= 8 else max(1, whole) * step + rng.choice((-1, 1, 4)))


_STYLES: Mapping[str, Callable[[random.Random, list[int]], int]] = {
    "aligned": _aligned,
    "any": _any,
    "edge": _edge,
    "prime": _prime,
    "guard": _guard,
    "tuned": lambda rng, sizes: rng.choice(sizes),
}
