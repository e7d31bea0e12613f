"""What tuning passes for scalars: no two of one type the same, so that two parameters that are swapped show.

A kernel whose `alpha` and `beta` stand in the wrong order computes the same as a right one while both are 1. So the
second of two floating scalars of one type with one `value` is passed as three quarters of it, to the kernel and to the
reference alike: less than the value, so that a share, a rate of decay or a probability stays below 1, and of its sign.
Integers may be sizes, and 0 may mean that something is left out: these are passed as they are, and `pretuned check`
warns of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pretuned.runtime.types import DTYPES

if TYPE_CHECKING:
    from pretuned.spec.model import Argument, KernelSpec

SHARE: Final = 0.75


def tuning_values(spec: KernelSpec) -> dict[str, float]:
    """Return what tuning passes for each scalar that is neither a dim nor a specialisation, by name."""
    found: dict[str, float] = {}
    taken: set[tuple[str, float]] = set()
    for argument in spec.scalars:
        value = argument.value
        assert value is not None  # the loader demands one
        while (argument.dtype, value) in taken and DTYPES[argument.dtype].floating and math.isfinite(value) and value:
            value *= SHARE
        taken.add((argument.dtype, value))
        found[argument.name] = value
    return found


def alike(spec: KernelSpec) -> Iterator[tuple[Argument, Argument]]:
    """Yield each scalar that tuning passes the same value as an earlier one of its type, with that one."""
    values, first = tuning_values(spec), dict[tuple[str, float], "Argument"]()
    for argument in spec.scalars:
        key = argument.dtype, values[argument.name]
        if key in first:
            yield argument, first[key]
        first.setdefault(key, argument)
