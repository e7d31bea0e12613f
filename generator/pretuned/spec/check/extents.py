"""Extents below 0, as `n - taps + 1` may be: at sizes that are measured, and at 0, which calls may have as well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pretuned.spec.expressions import ExpressionError
from pretuned.spec.model import Argument, KernelSpec
from pretuned.spec.sizes import sizes_of
from pretuned.spec.space import Problem, admitted, all_problems, environment, specialisations


@dataclass(frozen=True, slots=True, kw_only=True)
class NegativeExtent:
    """An extent of an array that is below 0 at a problem which `requires` admits; `listed` where that is measured."""

    path: str
    array: str
    extent: str
    value: int
    problem: Problem
    listed: bool = False

    def __str__(self) -> str:
        where = "the spec lists" if self.listed else "a call may have"
        return f"the extent {self.extent} of '{self.array}' is {self.value} at {self.problem}, which {where}"

    @property
    def remedy(self) -> str:
        """What to write."""
        if self.listed:
            return "an array has 0 elements or more: mend the shape, or list other sizes"
        return f'write `requires = ["{self.extent} >= 0"]` into [constraints]'


def negative_extents(spec: KernelSpec) -> Iterator[NegativeExtent]:
    """Yield the first negative extent of each array: where it is measured, or at sizes of 0.

    At 0 is each dim alone, and all together.
    """
    found: set[str] = set()
    computed = [
        (place, argument)
        for place, argument in enumerate(spec.arguments)
        if not all(extent.python.isidentifier() for extent in argument.shape or ())
    ]
    listed = set(all_problems(spec)) if computed else set()
    for problem in [*sorted(listed, key=str), *_smallest(spec)]:
        for place, argument in computed:
            if argument.name not in found and (extent := _negative(spec, place, argument, problem)) is not None:
                found.add(argument.name)
                yield replace(extent, listed=problem in listed)


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
