"""The sizes of a spec, and their ends.

Below the first and above the last measured size a call is *beyond*: there a winner is used only where it has also
beaten the default at the dim's probe on that side.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pretuned.config.toml import INT64_MAX
from pretuned.runtime.types import DTYPES
from pretuned.spec.space import Problem, admitted

if TYPE_CHECKING:
    from pretuned.spec.model import KernelSpec

BEYOND_RATIO: Final = 4  # of a problem beyond the outermost size to that size: one usual step of such lists


def sizes_of(spec: KernelSpec, dim: str) -> tuple[int, ...]:
    """Return the sorted, distinct sizes of a free dim."""
    return tuple(sorted(set(spec.free_dims[dim].sizes or ())))


def problems_beyond(spec: KernelSpec, problem: Problem) -> Iterator[tuple[str, Problem]]:
    """Yield (direction, problem) beyond each outermost size that `problem` stands at; a direction reads `n<` or `n>`.

    A dim with one size has one bucket, which has no beyond.
    """
    dims = dict(problem.dims)
    for name in spec.free_dims:
        sizes = sizes_of(spec, name)
        if len(sizes) == 1:
            continue
        beyond: list[tuple[str, int]] = []
        if dims[name] == sizes[0] and sizes[0] > 1:
            beyond.append((f"{name}<", max(1, sizes[0] // BEYOND_RATIO)))
        if dims[name] == sizes[-1]:
            beyond.append((f"{name}>", sizes[-1] * BEYOND_RATIO))
        for direction, size in beyond:
            moved = Problem(specialisation=problem.specialisation, dims=tuple(sorted((dims | {name: size}).items())))
            if fits_arguments(spec, moved) and admitted(spec, moved):
                yield direction, moved


def largest(spec: KernelSpec, dim: str) -> int:
    """Return the largest size of `dim` that its argument's type holds, where it is passed by value."""
    types = (DTYPES[argument.dtype] for argument in spec.arguments if argument.name == dim and argument.dtype in DTYPES)
    return min((dtype.range[1] for dtype in types if dtype.range is not None), default=INT64_MAX)


def fits_arguments(spec: KernelSpec, problem: Problem) -> bool:
    """Return whether every dim passed by value fits the argument's type (an int32 ends at 2 ** 31 - 1)."""
    return all(isinstance(size, int) and size <= largest(spec, name) for name, size in problem.dims)
