"""How far a result may be from its reference: the spec's tolerances, looked up by the output's element type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pretuned.runtime.types import DTYPES
from pretuned.spec.space import Pairs, dtype_of

if TYPE_CHECKING:
    from pretuned.spec.model import Argument, KernelSpec


def tolerances(spec: KernelSpec, argument: Argument, specialisation: Pairs) -> tuple[float, float | None]:
    """Return (rtol, atol) for one output: |out - ref| <= atol + rtol * |ref|.

    A type that the spec's `rtol` leaves out has that of its record, and a type without rounding 0. `atol` is None
    where the spec says nothing for the type: then it follows from the reference, see `Stage.tolerance`. What is
    given as one number holds for floating types alone: an index must not be off by what its neighbour's sum may be.
    """
    dtype = dtype_of(spec, argument.dtype, specialisation)
    rtol, atol = (_given(given, dtype) for given in (spec.verify.rtol, spec.verify.atol))
    return float(DTYPES[dtype].rtol if rtol is None else rtol), None if atol is None else float(atol)


def _given(given: float | dict[str, float] | None, dtype: str) -> float | None:
    if isinstance(given, dict):
        return given.get(dtype)
    return given if DTYPES[dtype].floating else None
