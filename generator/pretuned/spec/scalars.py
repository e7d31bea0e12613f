"""What tuning passes for scalars: no two of one type the same, so that two parameters that are swapped show.

A kernel whose `alpha` and `beta` stand in the wrong order computes the same as a right one while both are 1. So the
second of two floating scalars of one type with one `value` is passed as three quarters of it, to the kernel and to the
reference alike: less than the value, so that a share, a rate of decay or a probability stays below 1, and of its sign.
Integers may be sizes, and 0 may mean that something is left out: these are passed as they are, and `pretuned check`
warns of them. So are expressions, which have their value at the problem.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pretuned.config.toml import spelled
from pretuned.runtime.records import Value
from pretuned.runtime.types import DTYPES
from pretuned.spec.expressions import Expression, ExpressionError
from pretuned.spec.space import Problem, dtype_of, dtypes_of, environment
from pretuned.spec.structs import layouts
from pretuned.spec.values import TuningValue

if TYPE_CHECKING:
    from pretuned.spec.model import Argument, KernelSpec

PassedNumber = float | complex
PassedValue = PassedNumber | dict[str, PassedNumber | tuple[PassedNumber, ...]]  # of a struct by field
SHARE: Final = 0.75
_INTEGER_BITS: Final = 64  # of TOML


def holds(dtype: str, value: PassedNumber) -> bool:
    """Whether a scalar of `dtype` holds `value`; only a bool is one, and no integer type takes a float."""
    if dtype == "bool" or isinstance(value, bool):
        return dtype == "bool" and isinstance(value, bool)
    if (integers := DTYPES[dtype].range) is not None:
        return isinstance(value, int) and integers[0] <= value <= integers[1]
    return DTYPES[dtype].packs(value) and (not isinstance(value, int) or math.frexp(value)[1] <= _INTEGER_BITS)


def tuning_values(spec: KernelSpec) -> dict[str, TuningValue]:
    """Return what tuning passes for each scalar that is neither a dim nor a specialisation, by name."""
    found: dict[str, TuningValue] = {}
    taken: set[tuple[str, PassedNumber | Expression]] = set()
    for argument in spec.scalars:
        value, dtypes = argument.passed, dtypes_of(spec, argument.dtype)
        assert value is not None  # the loader demands one
        if isinstance(value, int | float | complex) and all(DTYPES[dtype].floating for dtype in dtypes):
            while value and cmath.isfinite(value) and any((dtype, value) in taken for dtype in dtypes):
                value *= SHARE
        if not isinstance(value, dict):
            taken.update((dtype, value) for dtype in dtypes)
        found[argument.name] = value
    return found


def passed_values(spec: KernelSpec, problem: Problem) -> dict[str, PassedValue]:
    """Return `tuning_values` at a problem; raises ExpressionError for what has no value there that its type holds."""
    found, known, structs = dict[str, PassedValue](), environment(spec, problem), layouts(spec)
    dtypes = {argument.name: dtype_of(spec, argument.dtype, problem.specialisation) for argument in spec.scalars}
    for name, value in tuning_values(spec).items():
        if isinstance(value, dict):
            fields = {field: dtype for field, dtype, _ in structs[dtypes[name]].fields}
            found[name] = {
                field: tuple(_number(dtype, one, known) for one in held)
                if isinstance(held := value[field], tuple)
                else _number(dtype, held, known)
                for field, dtype in fields.items()
            }
        else:
            found[name] = _number(dtypes[name], value, known)
    return found


def _number(dtype: str, value: PassedNumber | Expression, known: Mapping[str, Value]) -> PassedNumber:
    if not isinstance(value, Expression):
        return value
    found = value.evaluate(known)
    number = found if dtype == "bool" else int(found)
    if not holds(dtype, number):
        raise ExpressionError(f"{value.quoted} is {spelled(found)}, and {dtype} is {DTYPES[dtype].values}")
    return number


def derived_values(spec: KernelSpec, values: Mapping[str, Value]) -> dict[str, float]:
    """Return the derived arguments under `values`; raises ExpressionError for one that its type does not hold."""
    found = dict[str, float]()
    for argument in spec.arguments:
        if argument.name in spec.derived:
            number = spec.derived[argument.name].evaluate(values)
            found[argument.name] = number if argument.dtype == "bool" else int(number)
            if not holds(argument.dtype, found[argument.name]):
                dtype = DTYPES[argument.dtype]
                raise ExpressionError(f"'{argument.name}' is {spelled(number)}, and {dtype.name} is {dtype.values}")
    return found


def alike(spec: KernelSpec) -> Iterator[tuple[Argument, Argument]]:
    """Yield each scalar that tuning passes the same value as an earlier one of its type, with that one."""
    values, first = tuning_values(spec), dict[tuple[str, PassedNumber | Expression], "Argument"]()
    for argument in spec.scalars:
        value = values[argument.name]
        keys = [] if isinstance(value, dict) else [(dtype, value) for dtype in dtypes_of(spec, argument.dtype)]
        if earlier := [first[key] for key in keys if key in first]:
            yield argument, earlier[0]
        for key in keys:
            first.setdefault(key, argument)
