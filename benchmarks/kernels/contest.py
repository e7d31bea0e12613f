"""What is compared: a kernel's arrays, what it must compute, and who else computes it.

Every function here takes a call's arrays and values by the names of the kernel's spec: those that it has no use for go
into `_`. A peer writes into the outputs that it is given, where its library can; else it returns what it made. One that
makes some of the outputs alone returns them by name.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from figures import ALIGNED, KINDS, RAGGED, TUNED
from pretuned.measure.launch import arrays
from pretuned.spec import space
from pretuned.spec.model import KernelSpec
from pretuned.spec.sizes import fits_arguments
from pretuned.spec.space import Pairs, Problem

LARGEST_BYTES = 2 << 30  # of the arrays of a call
# Matrices of 64 MB and more in float16, with short rows and with long ones.
MATRICES = (
    {"rows": 16384, "cols": 2048},
    {"rows": 4096, "cols": 8192},
    {"rows": 1024, "cols": 32768},
    {"rows": 256, "cols": 131072},
    {"rows": 128, "cols": 262144},
)
LONG, LONG_AIM = 16_384, 0.90  # columns
USUAL = {"float32", "float16", "bfloat16"}  # types that come first
ATTEMPTS = 100  # to draw a ragged problem that may be called


class Computes(Protocol):
    """Computes with a call's arrays and values; returns outputs, by name or the only one."""

    def __call__(self, **given: Any) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A problem to compare at: `kind` says how it was chosen; `shift`, by how many elements arrays are misaligned."""

    problem: Problem
    kind: str
    shift: int = 0
    compiled: bool = False  # peers that compile for seconds take part

    @property
    def name(self) -> str:
        return f"{self.problem}{f', misaligned by {self.shift}' if self.shift else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Who else computes it; `takes` says for which values of dims and specialisations it can.

    `compiled`: by torch.compile for each shape. `jit`: it compiles kernels of its own when it is called.
    """

    name: str
    call: Computes
    compiled: bool = False
    jit: bool = False
    takes: Callable[[Mapping[str, Any]], bool] = lambda _: True

    @property
    def compiles(self) -> bool:
        return self.compiled or self.jit

    def at(self, case: Case) -> bool:
        """Return whether it takes part."""
        return self.takes(values_of(case.problem)) and (case.compiled or not self.compiled)

    def entered(self) -> Computes:
        """Return its call, compiled for the shapes that it meets where it is a compiler's."""
        if not self.compiled:
            return self.call
        import torch  # noqa: PLC0415 - only where it is called

        compiled: Computes = torch.compile(self.call, dynamic=False)
        return compiled


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """A kernel among its peers. `exact` computes in float64, `bound` says what bounds it: copy, read, or flops.

    `large` are the sizes of 64 MB and more, where `aim` is the share of the ceiling that is aimed at; with whole `rows`
    that are long, `LONG_AIM`. `values` are passed instead of tuning's; `saved` computes what peers have kept from
    another call, such as a norm's statistics for its gradient.
    """

    kernel: str
    bound: str
    exact: Computes
    peers: Sequence[Peer]
    large: Sequence[Mapping[str, int]] = ()
    ragged: int = 6  # problems of each specialisation
    tuned: int = 10
    misaligned: bool = True
    aim: float = 0.93
    rows: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)
    saved: Computes = lambda **_: {}
    flops: Callable[[Mapping[str, Any]], float] | None = field(default=None)


def cases(contest: Contest, spec: KernelSpec, seed: int, compiled: int) -> Iterator[Case]:
    """Yield the cases of a kernel, those of all its specialisations in turn; `compiled` of each kind compile peers."""
    tuned = list(space.all_problems(spec))
    known = sorted(
        dict.fromkeys(problem.specialisation for problem in tuned), key=lambda one: not USUAL & {*dict(one).values()}
    )
    columns = [list(_of_one(contest, spec, one, [p for p in tuned if p.specialisation == one], seed)) for one in known]
    left = dict.fromkeys(KINDS, compiled)
    for turn in range(max(map(len, columns), default=0)):
        for column in columns[turn % len(columns) :] + columns[: turn % len(columns)]:
            if turn < len(column):
                case = column[turn]
                left[case.kind] -= 1
                yield Case(
                    problem=case.problem,
                    kind=case.kind,
                    shift=case.shift,
                    compiled=left[case.kind] >= 0,
                )


def bytes_of(spec: KernelSpec, problem: Problem) -> int:
    """Return the bytes of a call's arrays, each once; those that are read and written, twice."""
    return sum(one.nbytes * (2 if one.role == "inout" else 1) for one in arrays(spec, problem))


def _of_one(
    contest: Contest, spec: KernelSpec, specialisation: Pairs, tuned: list[Problem], seed: int
) -> Iterator[Case]:
    """Yield the cases of one specialisation, of each kind in turn, so that a budget that ends leaves some of all."""
    rng = random.Random(f"{seed}:{spec.name}:{specialisation}")
    mixed = [problem for problem in rng.sample(tuned, len(tuned)) if _fits(spec, problem)]
    kinds = {
        "tuned": [Case(problem=problem, kind=TUNED) for problem in mixed[: contest.tuned]],
        "ragged": list(_ragged(contest, spec, specialisation, mixed, rng)),
        "large": list(_large(contest, spec, specialisation, mixed, rng)),
    }
    while any(kinds.values()):
        for found in kinds.values():
            if found:
                yield found.pop(0)


def _ragged(
    contest: Contest, spec: KernelSpec, specialisation: Pairs, tuned: Sequence[Problem], rng: random.Random
) -> Iterator[Case]:
    """Yield problems within the tuned sizes, by their logarithm: every other odd, every third misaligned."""
    if not tuned:
        return
    most = max(bytes_of(spec, problem) for problem in tuned)
    sizes = {name: sorted({dict(problem.dims)[name] for problem in tuned}) for name, _ in tuned[0].dims}
    found: set[Problem] = set()
    for _ in range(ATTEMPTS * contest.ragged):
        if len(found) == contest.ragged:
            return
        drawn = {name: _between(rng, of) if name in spec.free_dims else rng.choice(of) for name, of in sizes.items()}
        if len(found) % 2:
            drawn |= {name: drawn[name] | 1 for name in spec.free_dims if len(sizes[name]) > 1}
        problem = Problem(specialisation=specialisation, dims=tuple(sorted(drawn.items())))
        if problem not in found and bytes_of(spec, problem) <= most and _fits(spec, problem):
            found.add(problem)
            yield Case(problem=problem, kind=RAGGED, shift=1 if contest.misaligned and len(found) % 3 == 0 else 0)


def _between(rng: random.Random, sizes: Sequence[int]) -> int:
    """Return a size between the least and the greatest; the only one where there is one."""
    return round(math.exp(rng.uniform(math.log(max(1, sizes[0])), math.log(max(1, sizes[-1])))))


def _large(
    contest: Contest, spec: KernelSpec, specialisation: Pairs, tuned: Sequence[Problem], rng: random.Random
) -> Iterator[Case]:
    """Yield each large size as it is, and beside it a ragged one, misaligned every other time.

    Dims that a size does not name are as small as they were tuned.
    """
    least = {name: min(dict(problem.dims)[name] for problem in tuned) for name, _ in (tuned[0].dims if tuned else ())}
    for place, named in enumerate(contest.large):
        ragged = least | {name: size + rng.randrange(1, max(2, size // 8), 2) for name, size in named.items()}
        sizes = least | named
        for kind, dims, shift in ((ALIGNED, sizes, 0), (RAGGED, ragged, place % 2 if contest.misaligned else 0)):
            problem = Problem(specialisation=specialisation, dims=tuple(sorted(dims.items())))
            if _fits(spec, problem):
                yield Case(problem=problem, kind=kind, shift=shift)


def _fits(spec: KernelSpec, problem: Problem) -> bool:
    return fits_arguments(spec, problem) and space.admitted(spec, problem) and bytes_of(spec, problem) <= LARGEST_BYTES


def values_of(problem: Problem) -> dict[str, Any]:
    """Return dims and specialisations by name."""
    return dict(problem.dims) | dict(problem.specialisation)
