"""Where configurations are executed if only correctness counts: at awkward problems that a host can do.

Sizes are bounded by the elements of all arrays of a call together, constant dims counted: threads are fibers, and take
time as the elements do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pretuned.measure.launch import arrays
from pretuned.spec import space
from pretuned.spec.defaults import defaults
from pretuned.spec.expressions import Environment, Expression, ExpressionError
from pretuned.spec.lists import held
from pretuned.spec.model import KernelSpec
from pretuned.spec.sizes import fits_arguments, largest
from pretuned.spec.space import Configuration, DeviceFacts, Pairs, Problem, admitted, environment

ELEMENTS: Final = 600_000  # of all arrays of a call
MOST_ELEMENTS: Final = 1 << 24  # the same, where a configuration is legal at no smaller size
# Several tiles of any kernel and a tail in each direction; smaller where the arrays are larger than that.
PRIMES: Final[dict[int, tuple[int, ...]]] = {1: (100_003,), 2: (67, 2053), 3: (67, 131, 197)}
SMALL: Final[dict[int, tuple[int, ...]]] = {1: (37,), 2: (5, 37), 3: (3, 5, 37)}
MANY: Final = (17, 19, 23, 29)
MULTIPLES: Final = (1, 2, 4, 8, 16, 32, 64, 128)  # what guards ask of sizes
RARE_MULTIPLES: Final = tuple(2**power for power in range(8, 17))  # tried for what is legal nowhere else
REMAINDERS: Final = 64  # neighbouring sizes, among which there is every remainder that a guard is likely to ask for
AWKWARD: Final = 2  # odd problems of a configuration, besides one of round sizes
ROUND: Final = (16, 32, 64, 128)  # multiples, at which vectors and tiles without a tail run
TILE: Final = 129  # round sizes are larger than most tiles
LONG: Final = tuple(2**power for power in range(9, 18))  # what a block, or a cluster of blocks, has to itself
ODD_BESIDE, ROUND_BESIDE = (3, 1, 19), (16, 4, 1, 48)  # the other dims of a long problem, in the order of trial
FAR: Final = 2**31 + 4099  # elements: more than an int32 can count, and odd


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A configuration with the problems that it is executed at: a small one first, then from the most telling on.

    Without problems, `refusal` is what refuses it at all that were tried.
    """

    configuration: Configuration
    problems: tuple[Problem, ...]
    refusal: str = ""


class TrialSizes:
    """The problems of a specialisation that may be tried, whose arrays have about `elements` at most.

    `chosen` are sizes of the free dims chosen by hand, which are tried instead.
    """

    def __init__(
        self, spec: KernelSpec, specialisation: Pairs, elements: int = ELEMENTS, chosen: Iterable[Pairs] = ()
    ) -> None:
        self.spec = spec
        self.specialisation = specialisation
        self.elements = elements
        by_hand = [self._problem([dict(dims)[name] for name in spec.free_dims]) for dims in chosen]
        self.by_hand = bool(by_hand)
        self.chosen = [problem for problem in by_hand if problem is not None]
        count = len(spec.free_dims)
        self.small = list(self._ladder(SMALL.get(count), MULTIPLES, 1))
        self.odd = list(self._ladder(PRIMES.get(count), MULTIPLES, 1))
        self.even = list(self._ladder(PRIMES.get(count), ROUND, TILE))
        edges = (self._problem([size] * count) for size in (1, 0))  # as tuning does: one element, and none
        self.edges = [problem for problem in edges if problem is not None]

    @property
    def all(self) -> list[Problem]:
        """All of them, with the problems that tuning measures."""
        own = space.problems(self.spec, self.specialisation)
        usual = [*self.small, *self.odd, *self.even, *self.long_odd, *self.long_even, *self.edges]
        return list(dict.fromkeys([*self.chosen, *usual, *own]))

    def of(self, configuration: Configuration, device: DeviceFacts) -> Trial:
        """Return the trial of a configuration: its problems, or why there are none."""

        def legal(problems: Iterable[Problem]) -> Iterator[Problem]:
            return (problem for problem in problems if space.legal(self.spec, problem, configuration, device))

        if self.by_hand:
            return self._trial(configuration, list(legal(self.chosen)), self.chosen, device)
        first = list(itertools.islice(legal(self.small), 1))
        odd = [*itertools.islice(legal(self.odd), AWKWARD)]
        if not any(_ragged(problem) for problem in odd):
            odd += itertools.islice(legal(self.long_odd), 1)
        even = [*itertools.islice(legal(self.even), 1)] or [*itertools.islice(legal(self.long_even), 1)]
        further = [*odd, *even]
        found = [*first, *further, *(legal(self.edges) if first or further else ())]
        if not further:
            found += itertools.islice(legal(self.rare), 1)
        return self._trial(configuration, found, [*self.even, *self.odd, *self.small, *self.edges], device)

    def _trial(
        self, configuration: Configuration, found: Sequence[Problem], tried: Sequence[Problem], device: DeviceFacts
    ) -> Trial:
        refusal = "" if found else _refusal(self.spec, tried, configuration, device)
        return Trial(configuration=configuration, problems=tuple(dict.fromkeys(found)), refusal=refusal)

    @cached_property
    def rare(self) -> list[Problem]:
        """Problems for what is legal at no usual one, the smallest first.

        Of every remainder, where a guard may ask for one; of larger multiples; and the spec's own.
        """
        primes = SMALL.get(len(self.spec.free_dims))
        further = [*self._ladder(primes, RARE_MULTIPLES, 1), *space.problems(self.spec, self.specialisation)]
        where = [text for one in self.spec.all_implementations.values() for text in one.constraints.where]
        if any(space.names_dim(self.spec, expression) and "%" in str(expression) for expression in where):
            near = (self._near(self.small, distance) for distance in range(1, REMAINDERS))
            further += [problem for problem in near if problem is not None]
        sizes = {problem: elements(self.spec, problem) for problem in further}
        return [p for p in sorted(sizes, key=lambda p: (sizes[p], p)) if sizes[p] <= MOST_ELEMENTS]

    @cached_property
    def long_odd(self) -> list[Problem]:
        """Odd problems with one long dim, for what is legal at long rows alone.

        Those whose long dim is odd too come first, and the smallest of each; tensor maps refuse an odd row.
        """
        return [*self._long([size + 1 for size in LONG], ODD_BESIDE), *self._long(LONG, ODD_BESIDE)]

    @cached_property
    def long_even(self) -> list[Problem]:
        """The same with round sizes, and behind them larger ones, for what is legal beyond a length alone."""
        return [*self._long(LONG, ROUND_BESIDE), *self._long([size + ROUND[-1] for size in LONG], ROUND_BESIDE)]

    def _long(self, lengths: Sequence[int], beside: Sequence[int]) -> Iterator[Problem]:
        """Yield problems with one dim of each length and the others of each of `beside`, where arrays fit."""
        names = list(self.spec.free_dims)
        for length, name, size in itertools.product(lengths, names if len(names) > 1 else (), beside):
            sizes = [length if other == name else size for other in names]
            problem = self._problem(sizes) if elements(self.spec, self._at(sizes)) <= self.elements else None
            if problem is not None:
                yield problem

    def _ladder(self, primes: Sequence[int] | None, multiples: Sequence[int], least: int) -> Iterator[Problem]:
        """Yield problems near the primes, of ever rounder sizes from `least` on, each with its sizes in two orders."""
        count = len(self.spec.free_dims)
        wanted = [max(prime, least) for prime in primes or (MANY * math.ceil(count / len(MANY)))[:count]]
        seen = set()
        bases = [self._shrunk(wanted), self._shrunk(wanted[::-1])]
        for multiple, base in itertools.product(multiples, bases):
            problem = self._problem([multiple * (math.ceil(size / multiple) | 1) for size in base])  # odd multiples
            if problem is not None and problem not in seen:
                seen.add(problem)
                yield problem

    def _near(self, problems: Sequence[Problem], distance: int) -> Problem | None:
        """Return the first of `problems` with every size so much larger."""
        if not problems:
            return None
        first = dict(problems[0].dims)
        return self._problem([int(first[name]) + distance for name in self.spec.free_dims])

    def _shrunk(self, sizes: Sequence[int]) -> list[int]:
        """Return sizes in about these proportions whose arrays have no more than `elements`, if any are so small."""
        scale = 1.0
        while True:
            scaled = [max(1, int(size * scale)) for size in sizes]
            if max(scaled, default=1) == 1 or elements(self.spec, self._at(scaled)) <= self.elements:
                return scaled
            scale *= 0.7

    def _at(self, sizes: Sequence[int]) -> Problem:
        dims = {name: held(self.spec, name, size) for name, size in zip(self.spec.free_dims, sizes, strict=True)}
        return Problem(specialisation=self.specialisation, dims=space.pairs(dims))

    def _problem(self, sizes: Sequence[object]) -> Problem | None:
        problem = self._at([int(str(size)) for size in sizes])
        return problem if fits_arguments(self.spec, problem) and admitted(self.spec, problem) else None


def trials(
    spec: KernelSpec,
    specialisation: Pairs,
    device: DeviceFacts,
    *,
    sample: int | None = None,
    elements: int = ELEMENTS,
    chosen: Iterable[Pairs] = (),
) -> tuple[Trial, ...]:
    """Return a trial for every configuration of the space, or for `sample` of them, the defaults first.

    Each is tried where its sizes are most awkward, where they are round, with one element and with none, as far as it
    is legal there. A sample holds the default of every implementation, and others that are evenly spread over the order
    of the space. The host has no library calls, so these are left out. None where `requires` admits no size.
    """
    sizes = TrialSizes(spec, specialisation, elements, chosen)
    if not sizes.all:
        return ()
    return tuple(sizes.of(configuration, device) for configuration in _sampled(sizes, device, sample))


def far(spec: KernelSpec, specialisation: Pairs) -> Problem | None:
    """Return a problem whose largest array has more elements than an int32 counts, or None if no dim can grow.

    All dims grow alike, so that what a block does stays short; a dim that is passed as int32 ends at its largest.
    """
    names = list(spec.free_dims)
    low, high = 1, FAR
    while low < high:  # the smallest extent that is enough
        extent = (low + high) // 2
        if _largest(spec, specialisation, [extent] * len(names)) > 2**31:
            high = extent
        else:
            low = extent + 1
    extents = [min(low + 1 - low % 2, largest(spec, name)) for name in names]
    if not names or _largest(spec, specialisation, extents) < 2**31 - 1:
        return None
    problem = Problem(specialisation=specialisation, dims=tuple(sorted(zip(names, extents, strict=True))))
    return problem if fits_arguments(spec, problem) and admitted(spec, problem) else None


def elements(spec: KernelSpec, problem: Problem) -> int:
    """Return how many elements all arrays of a call have together."""
    return sum(buffer.size for buffer in arrays(spec, problem))


def _ragged(problem: Problem) -> bool:
    """Whether a size is no multiple of what vectors and tiles may ask for."""
    return any(isinstance(size, int) and size % ROUND[0] for _, size in problem.dims)


def _largest(spec: KernelSpec, specialisation: Pairs, extents: Sequence[int]) -> int:
    dims = tuple(sorted(zip(spec.free_dims, extents, strict=True)))
    return max((buffer.size for buffer in arrays(spec, Problem(specialisation=specialisation, dims=dims))), default=0)


def _refusal(spec: KernelSpec, tried: Sequence[Problem], configuration: Configuration, device: DeviceFacts) -> str:
    """Return which constraint refuses a configuration at most of the problems that were tried."""
    where = spec.all_implementations[configuration.implementation].constraints.where
    counts = [0] * len(where)
    for problem in tried:
        values = environment(spec, problem, configuration, device)
        refusing = (index for index, expression in enumerate(where) if not _holds(expression, values))
        for index in itertools.islice(refusing, 1):
            counts[index] += 1
    if not any(counts):
        return "`requires` admits no size that was tried"
    index = counts.index(max(counts))
    return f"where[{index}] '{where[index]}' refuses it at every size that was tried"


def _holds(expression: Expression, values: Environment) -> bool:
    try:
        return bool(expression.evaluate(values))
    except ExpressionError:
        return False


def _sampled(sizes: TrialSizes, device: DeviceFacts, sample: int | None) -> list[Configuration]:
    from pretuned.tune.space.points import Points  # noqa: PLC0415 - it imports NumPy, which most commands do without

    spec = sizes.spec
    points = Points.of(spec, sizes.specialisation, [*sizes.all, *sizes.rare], device)
    calls = {name for name, implementation in spec.all_implementations.items() if implementation.call is not None}
    own = [one for name in spec.all_implementations for one in defaults(spec, sizes.specialisation, name)]
    first = [configuration for configuration in own if configuration in points]
    tried = [configuration for configuration in first if configuration.implementation not in calls]
    taken = {points.index(configuration) for configuration in first}
    rest = [row for row in range(len(points)) if row not in taken]
    if sample is None or len(points) - len(calls) <= sample:
        others = (points[row] for row in rest)
        return [*tried, *(c for c in others if c.implementation not in calls)]
    wanted = max(0, sample - len(tried))
    return [*tried, *(points[rest[index * len(rest) // wanted]] for index in range(wanted))]
