"""Extents below 0: `n - taps + 1` at sizes that calls may have, though nobody measures there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pretuned.spec.expressions import ExpressionError
from pretuned.spec.model import Argument, KernelSpec
from pretuned.spec.sizes import sizes_of
from pretuned.spec.space import Problem, admitted, environment, specialisations


@dataclass(frozen=True, slots=True, kw_only=True)
class NegativeExtent:
    """An extent of an array that is below 0 at a problem which `requires` admits: at a size of 0."""

    path: str
    array: str
    extent: str
    value: int
    problem: Problem

    def __str__(self) -> str:
        return f"the extent {self.extent} of '{self.array}' is {self.value} at {self.problem}, which a call may have"

    @property
    def remedy(self) -> str:
        """What to write."""
        return f'write `requires = ["{self.extent} >= 0"]` into [constraints]'


def negative_extents(spec: KernelSpec) -> Iterator[NegativeExtent]:
    """Yield the first negative extent of each array, at sizes of 0: each dim alone, and all together."""
    found: set[str] = set()
    for problem in _smallest(spec):
        for place, argument in enumerate(spec.arguments):
            if argument.name not in found and (extent := _negative(spec, place, argument, problem)) is not None:
                found.add(argument.name)
                yield extent


def _smallest(spec: KernelSpec) -> Iterator[Problem]:
    least = {name: min(sizes_of(spec, name), default=1) for name in spec.free_dims}
    chosen = [{name} for name in least] + ([set(least)] if len(least) > 1 else [])
    for specialisation in specialisations(spec):
        for zeros in chosen:
            dims = tuple((name, 0 if name in zeros else size) for name, size in least.items())
            problem = Problem(specialisation=specialisation, dims=dims)
            if admitted(spec, problem):
                yield problem


def _negative(spec: KernelSpec, place: int, argument: Argument, problem: Problem) -> NegativeExtent | None:
    known = environment(spec, problem)
    for axis, extent in enumerate(argument.shape or ()):
        try:
            value = extent.evaluate(known)
        except ExpressionError:
            continue
        if value < 0:
            path = f"arguments[{place}].shape[{axis}]"
            return NegativeExtent(path=path, array=argument.name, extent=extent.python, value=value, problem=problem)
    return None
