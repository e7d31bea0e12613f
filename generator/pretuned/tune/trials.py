"""Where configurations are executed if only correctness counts: at awkward problems that a host can do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pretuned.measure.launch import arrays
from pretuned.spec import space
from pretuned.spec.buckets import fits_arguments, largest
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, DeviceFacts, Pairs, Problem, admitted

# About 130,000 elements whatever the number of dims: several tiles of any kernel and a tail in each direction.
PRIMES: Final[dict[int, tuple[int, ...]]] = {1: (100_003,), 2: (67, 2053), 3: (67, 131, 197)}
MANY: Final = (17, 19, 23, 29)
MULTIPLES: Final = (1, 2, 4, 8, 16, 32, 64, 128)  # what guards ask of sizes
AWKWARD: Final = 2  # odd problems of a configuration, besides one of round sizes and one of single elements
ROUND: Final = (16, 32, 64, 128)  # multiples, at which vectors and tiles without a tail run
TILE: Final = 129  # round sizes are larger than most tiles
FAR: Final = 2**31 + 4099  # elements: more than an int32 can count, and odd


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A configuration with the problems that it is executed at."""

    configuration: Configuration
    problems: tuple[Problem, ...]


def trials(
    spec: KernelSpec, specialisation: Pairs, device: DeviceFacts, *, sample: int | None = None
) -> tuple[Trial, ...]:
    """Return a trial for every configuration of the space, or for `sample` of them.

    Each is tried where its sizes are most awkward, where they are round, and with single elements, as far as it is
    legal there. One that is legal nowhere here has no problems. A sample holds the default of every implementation, and
    others that are evenly spread over the order of the space. The host has no library calls, so these are left out.
    """
    odd, even = list(_ladder(spec, specialisation, MULTIPLES, 1)), list(_ladder(spec, specialisation, ROUND, TILE))
    single = _problem(spec, specialisation, [1] * len(spec.free_dims))
    found = []
    for configuration in _sampled(spec, [*odd, *even, *space.problems(spec, specialisation)], device, sample):

        def legal(problem: Problem, configuration: Configuration = configuration) -> bool:
            return space.legal(spec, problem, configuration, device)

        problems = [*list(filter(legal, odd))[:AWKWARD], *list(filter(legal, even))[:1]]
        if single is not None and legal(single):
            problems.append(single)
        found.append(Trial(configuration=configuration, problems=tuple(dict.fromkeys(problems))))
    return tuple(found)


def far(spec: KernelSpec, specialisation: Pairs) -> Problem | None:
    """Return a problem whose largest array has more elements than an int32 counts, or None if no dim can grow.

    All dims grow alike, so that what a block does stays short; a dim that is passed as int32 ends at its largest.
    """
    names = list(spec.free_dims)
    low, high = 1, FAR
    while low < high:  # the smallest extent that is enough
        extent = (low + high) // 2
        if _elements(spec, specialisation, [extent] * len(names)) > 2**31:
            high = extent
        else:
            low = extent + 1
    extents = [min(low + 1 - low % 2, largest(spec, name)) for name in names]
    if not names or _elements(spec, specialisation, extents) < 2**31 - 1:
        return None
    return _problem(spec, specialisation, extents)


def _elements(spec: KernelSpec, specialisation: Pairs, extents: Sequence[int]) -> int:
    dims = tuple(sorted(zip(spec.free_dims, extents, strict=True)))
    return max((buffer.size for buffer in arrays(spec, Problem(specialisation=specialisation, dims=dims))), default=0)


def _ladder(spec: KernelSpec, specialisation: Pairs, multiples: Sequence[int], least: int) -> Iterator[Problem]:
    """Yield problems near the primes, of ever rounder sizes from `least` on, each with its sizes in two orders."""
    count = len(spec.free_dims)
    primes = PRIMES.get(count) or MANY * math.ceil(count / len(MANY))
    seen = set()
    for multiple in multiples:
        sizes = [multiple * (math.ceil(max(prime, least) / multiple) | 1) for prime in primes[:count]]  # odd multiples
        for turned in (sizes, sizes[::-1]):
            problem = _problem(spec, specialisation, turned)
            if problem is not None and problem not in seen:
                seen.add(problem)
                yield problem


def _problem(spec: KernelSpec, specialisation: Pairs, sizes: Sequence[int]) -> Problem | None:
    dims = tuple(sorted(zip(spec.free_dims, sizes, strict=True)))
    problem = Problem(specialisation=specialisation, dims=dims)
    return problem if fits_arguments(spec, problem) and admitted(spec, problem) else None


def _sampled(
    spec: KernelSpec, problems: Sequence[Problem], device: DeviceFacts, sample: int | None
) -> list[Configuration]:
    from pretuned.tune.space.points import Points  # noqa: PLC0415 - it imports NumPy, which most commands do without

    points = Points.of(spec, problems[0].specialisation, problems, device)
    calls = {name for name, implementation in spec.all_implementations.items() if implementation.call is not None}
    if sample is None or len(points) - len(calls) <= sample:
        return [configuration for configuration in points if configuration.implementation not in calls]
    own = [space.default_of(spec, name) for name in spec.all_implementations]
    first = [configuration for configuration in own if configuration in points]
    taken = {points.index(configuration) for configuration in first}
    defaults = [configuration for configuration in first if configuration.implementation not in calls]
    rest = [row for row in range(len(points)) if row not in taken]
    wanted = max(0, sample - len(defaults))
    return [*defaults, *(points[rest[index * len(rest) // wanted]] for index in range(wanted))]
