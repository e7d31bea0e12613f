"""Arguments that are passed by value: dims, specialisations, and the numbers that a call brings."""

from __future__ import annotations

import cmath
from collections.abc import Iterator
from typing import Final

from pretuned.config.toml import spelled
from pretuned.runtime.text import closest
from pretuned.runtime.types import DTYPES
from pretuned.spec import space
from pretuned.spec.check.let import derived_argument_faults
from pretuned.spec.check.lists import each_faults
from pretuned.spec.check.names import PathFault, by_value, dtype_faults, expression_faults
from pretuned.spec.check.structs import struct_argument_faults
from pretuned.spec.expressions import Expression, ExpressionError
from pretuned.spec.model import Argument, KernelSpec
from pretuned.spec.scalars import holds, passed_values
from pretuned.spec.space import dtypes_of
from pretuned.spec.values import TuningValue

DIM_DTYPES: Final = ("int32", "int64", "uint32", "uint64")


def scalar_faults(spec: KernelSpec, index: int) -> Iterator[PathFault]:
    """Yield the faults of an argument that has no role, by its place."""
    path, argument = f"arguments[{index}]", spec.arguments[index]
    for key in ("shape", "strides", "align", "fill", "init", "count"):
        if getattr(argument, key) is not None:
            yield path, f'has `{key}` but no role; write `role = "in"`, "out" or "inout" for an array'
            return
    if argument.optional:
        yield f"{path}.optional", f"'{argument.name}' is a number; one that a call may leave out has a `default`"
    if argument.in_place:
        yield f"{path}.in-place", 'only an output (`role = "out"`) can be one of the inputs; leave it out'
    if argument.each is not None:
        yield from each_faults(spec, path, argument)
        return
    if "most" in argument.model_fields_set:
        yield f"{path}.most", "only a list has one, and what has `each`; leave it out"
    if argument.dtype in spec.structs:
        yield from struct_argument_faults(spec, path, argument)
        yield from _order(spec, path, argument)
    else:
        yield from _number(spec, path, argument)


def _number(spec: KernelSpec, path: str, argument: Argument) -> Iterator[PathFault]:
    if faults := list(dtype_faults(f"{path}.dtype", argument.dtype, spec)):
        yield from faults
    elif argument.dtype in spec.specialisations and spec.specialisations[argument.dtype].alike:
        message = f"the types of '{argument.dtype}' are alike, so the kernel cannot know which of them a number has"
        yield f"{path}.dtype", f"{message}; leave `alike` out of '{argument.dtype}'"
    elif argument.name in {*spec.dims, *spec.specialisations, *spec.stride_names}:
        yield from _key(spec, path, argument)
    elif argument.name in spec.let:
        yield from derived_argument_faults(spec, path, argument)
    elif argument.passed is None:
        needs = "; a scalar needs the value that tuning passes, as in `value = 1.0`"
        yield path, f"'{argument.name}' is not a dim{closest(argument.name, spec.dims) or needs}"
    else:
        yield from list(_value(spec, f"{path}.value", argument.dtype, argument.value)) or _finite(path, argument)
        yield from _value(spec, f"{path}.default", argument.dtype, argument.default)
        yield from _order(spec, path, argument)


def _finite(path: str, argument: Argument) -> Iterator[PathFault]:
    """Yield that tuning would pass a number which hides what a kernel makes of it."""
    passed = argument.passed
    if isinstance(passed, float | complex) and not cmath.isfinite(passed):
        remedy = "write a finite `value`, as in `value = 1.5`, which tuning passes"
        yield f"{path}.value", f"tuning would pass {spelled(passed)}, with which wrong results look right; {remedy}"


def _value(spec: KernelSpec, path: str, name: str, value: TuningValue | None) -> Iterator[PathFault]:
    if isinstance(value, dict):
        yield path, f"is a table, and '{name}' is one number"
    elif isinstance(value, Expression):
        yield from expression_faults(spec, path, value, {*spec.dims, *by_value(spec)})
    elif value is not None:
        for dtype in dtypes_of(spec, name):
            if not holds(dtype, value):
                yield path, f"{spelled(value)} is not a value of {dtype}"


def _order(spec: KernelSpec, path: str, argument: Argument) -> Iterator[PathFault]:
    """Yield that a number must be given behind one that may be left out, which no call could do by position."""
    before = spec.scalars[: spec.scalars.index(argument)] if argument in spec.scalars else ()
    if argument.default is None and (optional := [one.name for one in before if one.default is not None]):
        remedy = f"give it a `default` as well, or put it before '{optional[0]}', here and in the kernel"
        yield path, f"'{argument.name}' has no `default`, and '{optional[0]}' before it has one; {remedy}"


def _key(spec: KernelSpec, path: str, argument: Argument) -> Iterator[PathFault]:
    """A dim or a specialisation that the kernel is also passed."""
    for key in ("value", "default"):
        if getattr(argument, key) is not None:
            yield f"{path}.{key}", f"'{argument.name}' takes its value from the call's problem; leave `{key}` out"
    choice = spec.specialisations.get(argument.name)
    if choice is None:
        if argument.dtype not in DIM_DTYPES:
            kind = "stride" if argument.name in spec.stride_names else "dim"
            yield f"{path}.dtype", f"a {kind} is passed as int32, int64, uint32 or uint64, not '{argument.dtype}'"
    elif choice.values is None:
        yield f"{path}.name", f"'{argument.name}' is a type, and a type is not passed by value; rename the argument"
    elif argument.dtype not in DTYPES:
        yield f"{path}.dtype", f"'{argument.name}' is a specialisation, which is passed as one type: int32, bool, ..."
    else:
        for value in choice.values:
            if isinstance(value, str):
                yield f"{path}.name", f"'{argument.name}' is a text, and a text is not passed by value; leave it out"
                return
            if not holds(argument.dtype, value):
                yield (
                    f"{path}.dtype",
                    f"{spelled(value)}, a value of '{argument.name}', is not a value of {argument.dtype}",
                )


def scalar_value_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield the first problem at which tuning has no value for a scalar; of a spec that is sound otherwise."""
    if not any(isinstance(argument.value, Expression) for argument in spec.scalars):
        return
    for problem in space.all_problems(spec):
        try:
            passed_values(spec, problem)
        except ExpressionError as error:
            yield "arguments", f"the value of a scalar cannot be passed at {problem}: {error}"
            return
