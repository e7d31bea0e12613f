"""Lists of arrays: which of them are there at a problem, with which extents, and how C++ is passed them.

A list is passed as a struct by value that holds the address of each array, then null pointers: nothing is allocated or
copied for it, and it is as safe in graphs and on streams as any number. The extents that arrays have of their own go
the same way, then zeros.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pretuned.runtime.structs import Struct
from pretuned.runtime.types import DTYPES
from pretuned.spec.expressions import Environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pretuned.runtime.records import Value
    from pretuned.spec.model import Argument, KernelSpec

LIST: Final = "List"  # what C++ calls both, and what templates print for its declaration
ADDRESS: Final = "uint64"
DECLARATION: Final = (
    f"template <typename T, int most> struct {LIST} {{ T of[most]; "
    "__device__ const T& operator[](int place) const { return of[place]; } };"
)
_SHARES: Final = (5, 2, 0, 7, 3)  # of a dim that arrays have while tuning, in turn: uneven, and some of them empty


def divided(total: int, count: int) -> tuple[int, ...]:
    """Return the extents of `count` arrays while tuning, whose sum is `total`."""
    shares = [_SHARES[place % len(_SHARES)] for place in range(count)]
    ends = [total * sum(shares[:place]) // max(1, sum(shares)) for place in range(count + 1)]
    return tuple(after - before for before, after in pairwise(ends))


def count_of(argument: Argument, values: Mapping[str, Value]) -> int:
    """Return how many arrays a list has at a problem, at most what it may have; 1 for any other array."""
    return 1 if argument.count is None else min(int(values[argument.count]), argument.most)


def held(spec: KernelSpec, dim: str, size: int) -> int:
    """Return the size nearest to `size` that a dim may have, if it is the number of arrays in lists; else `size`."""
    most = [one.most for one in spec.lists if one.count == dim]
    return max(1, min(size, *most)) if most else size


def surroundings(argument: Argument, values: Environment) -> Environment:
    """Return what the shape of an array reads at a problem: of a list, the extents of its own."""
    if not argument.own:
        return values
    count = count_of(argument, values)
    return {**values, **{name: divided(int(values[name]), count)[argument.place] for name in argument.own}}


def extents(spec: KernelSpec, dim: str, values: Mapping[str, Value]) -> tuple[int, ...]:
    """Return the extents that the arrays of lists have of a dim at a problem."""
    return divided(int(values[dim]), count_of(owner_of(spec, dim), values))


def owner_of(spec: KernelSpec, dim: str) -> Argument:
    """Return the list whose arrays tell their extents of a dim: the first input that has it."""
    return next(one for one in owners(spec, dim) if one.role != "out")


def owners(spec: KernelSpec, dim: str) -> Sequence[Argument]:
    """Return the lists whose arrays have extents of their own of a dim."""
    return [one for one in spec.lists if dim in one.own]


def table_of(argument: Argument, dtype: str) -> Struct:
    """Return the struct that a list is passed as, or the extents of a list's arrays; `dtype` are its elements."""
    if argument.role is None:
        return Struct(f"{LIST}<{DTYPES[dtype].cuda}, {argument.most}>", [("of", dtype, argument.most)])
    const = "const " if argument.role == "in" else ""
    return Struct(f"{LIST}<{const}{DTYPES[dtype].cuda}*, {argument.most}>", [("of", ADDRESS, argument.most)])
