"""What a configuration asks of a call, its parameters folded in: conditions on dims, and addresses of arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from pretuned.runtime.types import DTYPES
from pretuned.spec.expressions import Environment, Expression
from pretuned.spec.space import Configuration, DeviceFacts, Pairs, choices, names_dim, pairs
from pretuned.spec.tensor_maps import ADDRESS

if TYPE_CHECKING:
    from pretuned.spec.model import Argument, ImplementationSpec, KernelSpec


def least_alignment(spec: KernelSpec, known: Environment, argument: Argument) -> int:
    """Return the bytes that the address of an array is a multiple of at every call: its elements' or those demanded."""
    size = DTYPES[str(known.get(argument.dtype, argument.dtype))].size_bytes
    if not spec.constraints.requires:  # as a rule; and this is asked for every configuration
        return size
    asked = [one.nbytes.evaluate(known) for one in spec.constraints.addresses if one.argument == argument.whole]
    return math.lcm(size, *asked)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Guards:
    """What a configuration asks of a call: conditions on the dims, and bytes of alignment by argument.

    A configuration with fewer guards is legal wherever one with more is: `covers` says so.
    """

    where: tuple[str, ...] = ()
    align: tuple[tuple[str, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.where or self.align)

    def covers(self, other: Guards) -> bool:
        """Return whether every call that `other` admits is admitted here."""
        wanted = dict(other.align)
        return set(self.where) <= set(other.where) and all(wanted.get(name, 1) % size == 0 for name, size in self.align)


@lru_cache(maxsize=65536)
def _guards(where: tuple[Expression, ...], aligned: tuple[tuple[str, Expression, int], ...], values: Pairs) -> Guards:
    known = dict(values)
    folded = (expression.fold(known) for expression in where)
    kept = sorted({expression.python for expression in folded if not expression.constant})
    asked = ((name, expression.evaluate(known), size) for name, expression, size in aligned)
    align = tuple((name, asked_bytes) for name, asked_bytes, size in asked if asked_bytes > 1 and size % asked_bytes)
    return Guards(where=tuple(kept), align=align)


def guards(
    spec: KernelSpec, specialisation: Pairs, configuration: Configuration, device: DeviceFacts | None = None
) -> Guards:
    """Return the guards of `configuration`, its parameters folded in.

    An alignment that every array has is none, nor is one by a parameter of another implementation. Without `device`, a
    constraint that reads both a dim and the device stays open in the device.
    """
    known = choices(spec, specialisation) | dict(configuration.values)
    if device is not None:
        known |= device.environment()
    implementation = spec.all_implementations[configuration.implementation]
    where = tuple(e for e in implementation.constraints.where if names_dim(spec, e))
    aligned = tuple(
        (argument.name, align, least_alignment(spec, known, argument))
        for argument in spec.whole(spec.arrays)
        for align in _aligns(implementation, argument)
        if align.names <= known.keys() | DTYPES.keys()
    )
    return _guards(where, aligned, pairs(known))


def _aligns(implementation: ImplementationSpec, argument: Argument) -> Iterator[Expression]:
    """Yield what an implementation asks of an array's address, at most one expression."""
    mapped = any(one.array == argument.name for one in implementation.tensor_maps)
    if argument.align is not None:
        yield Expression(f"max({argument.align.python}, {ADDRESS.python})") if mapped else argument.align
    elif mapped:
        yield ADDRESS
