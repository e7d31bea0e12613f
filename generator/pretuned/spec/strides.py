"""Strides that calls decide: `strides = ["x_stride", 1]` names how far apart the rows of an array lie, in elements.

Named strides are those of the first dims; below them elements are contiguous. Where no call is at hand, all of an array
is: each name then has the value that follows from the shape.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pretuned.spec.expressions import Environment, Expression, ExpressionError
from pretuned.spec.parts import contiguous_stride

if TYPE_CHECKING:
    from pretuned.spec.model import Argument, KernelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """Rows at the next multiple of `unit` elements (None: of their own length) and so many units further.

    The first name that is padded has `least` units, each further one `step` more than that before.
    """

    unit: int | None
    least: int
    step: int


# A stride that is as odd as can be, and one that a configuration with wide accesses admits; both first with all strides
# different, since a kernel may take one array's for another's.
ODD: Final = tuple(Padding(unit=1, least=least, step=step) for least, step in ((3, 2), (3, 0), (1, 0), (2, 0)))
EVEN: Final = tuple(
    Padding(unit=unit, least=1, step=step)
    for unit, step in itertools.product((*(2**power for power in range(1, 11)), None), (1, 0))
)


def is_name(spec: KernelSpec, entry: Expression) -> bool:
    """Return whether an entry of `strides` is a name of its own, not one of a dim or a specialisation."""
    return entry.python in spec.stride_names


def names_of(spec: KernelSpec, argument: Argument) -> tuple[str, ...]:
    """Return the names of an array's strides, the outermost first."""
    return tuple(name for name, one in spec.stride_names.items() if one.argument == argument.name)


def contiguous(spec: KernelSpec, values: Environment) -> dict[str, int]:
    """Return the strides of contiguous arrays by name, as far as `values` give their shapes."""
    found = {}
    for name, one in spec.stride_names.items():
        with contextlib.suppress(ExpressionError):
            found[name] = max(0, one.contiguous.evaluate(values))
    return found


def padded(spec: KernelSpec, values: Environment, padding: Padding) -> dict[str, int]:
    """Return the strides of arrays whose rows lie apart, by name; raises ExpressionError for a shape without value."""
    found: dict[str, int] = {}
    for argument in spec.arrays:
        names = names_of(spec, argument)
        for axis in reversed(range(len(names))):
            shape = argument.shape or ()
            if axis == len(names) - 1:
                least = max(1, contiguous_stride(shape, axis).evaluate(values))
            else:
                least = max(1, shape[axis + 1].evaluate(values)) * found[names[axis + 1]]
            unit = least if padding.unit is None else padding.unit
            found[names[axis]] = (-(-least // unit) + padding.least + padding.step * len(found)) * unit
    return found


def span(extents: Sequence[int], strides: Sequence[int]) -> int:
    """Return how many elements an array reaches over, from its first to its last."""
    return (
        0 if 0 in extents else 1 + sum((extent - 1) * stride for extent, stride in zip(extents, strides, strict=True))
    )


def tried(spec: KernelSpec, values: Environment, turn: int) -> Iterator[dict[str, int]]:
    """Yield strides that a condition is tried with: of contiguous arrays, and of one padding or another by `turn`."""
    yield contiguous(spec, values)
    with contextlib.suppress(ExpressionError):
        yield padded(spec, values, (*ODD, *EVEN)[turn % (len(ODD) + len(EVEN))])
