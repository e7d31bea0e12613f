"""Arguments, and what the table is keyed by: specialisations and dims."""

from __future__ import annotations

from collections.abc import Iterator

from pretuned.config.toml import spelled
from pretuned.runtime.text import closest
from pretuned.runtime.types import DTYPES
from pretuned.spec.addresses import Alignment
from pretuned.spec.check.arrays import address_faults, in_place_faults, leading_faults, optional_faults
from pretuned.spec.check.dtypes import unknown_dtype
from pretuned.spec.check.kinds import comparison_faults, mixed
from pretuned.spec.check.lists import beyond, list_faults
from pretuned.spec.check.names import PathFault, by_value, dtype_faults, expression_faults, identifier, parameters
from pretuned.spec.check.scalars import scalar_faults
from pretuned.spec.check.strides import stride_faults
from pretuned.spec.expressions import Expression
from pretuned.spec.faults import unknown_key
from pretuned.spec.model import Argument, KernelSpec
from pretuned.spec.parts import Dim, FillRange, Specialisation
from pretuned.spec.places import linear, place_of
from pretuned.spec.scalars import holds
from pretuned.spec.sizes import largest
from pretuned.spec.space import dtypes_of


def key_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield the faults of [specialisations], [dims] and `requires`."""
    for name, choice in spec.specialisations.items():
        yield from _specialisation(spec, name, choice)
    for name, dim in spec.dims.items():
        yield from _dim(spec, name, dim)
    for index, expression in enumerate(spec.constraints.requires):
        path = f"constraints.requires[{index}]"
        if isinstance(expression, Alignment):
            yield from address_faults(spec, path, expression)
        elif limited := sorted(expression.names & parameters(spec)):
            yield path, f"'{limited[0]}' is a parameter; what limits parameters belongs in `where`"
        else:
            yield from expression_faults(
                spec, path, expression, {*spec.dims, *spec.specialisations, *spec.stride_names}
            )


def _specialisation(spec: KernelSpec, name: str, choice: Specialisation) -> Iterator[PathFault]:
    path = f"specialisations.{name}"
    if choice.from_ is not None:
        if choice.dtypes or choice.values or choice.alike:
            yield path, "has `from`, so its types follow from another; leave `dtypes`, `values` and `alike` out"
        yield from _mapped(spec, path, choice.from_, choice.mapping)
        return
    for key in sorted(choice.mapping):
        yield f"{path}.{key}", unknown_key(key, Specialisation)
    yield from _dtypes(spec, name, choice)
    if (choice.dtypes is None) == (choice.values is None):
        if not choice.mapping or choice.dtypes:  # a misspelt key has been named
            yield path, 'must have one of `dtypes = ["float32", ...]`, `values = [false, true]` or `from = "T"`'
        return
    floats = any(isinstance(value, float) for value in choice.values or ())
    if message := "has floats; a keyword is an integer, a bool or a text" if floats else mixed(choice.values or ()):
        yield f"{path}.values", message


def _dtypes(spec: KernelSpec, name: str, choice: Specialisation) -> Iterator[PathFault]:
    """Yield the faults of the types of a specialisation."""
    path = f"specialisations.{name}"
    if choice.alike and choice.values:
        yield f"{path}.alike", "only types are alike, and this is a keyword with `values`; leave `alike` out"
    for index, dtype in enumerate(choice.dtypes or ()):
        if dtype not in DTYPES:
            yield f"{path}.dtypes[{index}]", unknown_dtype(dtype)
    if choice.dtypes and not any(argument.dtype == name for argument in spec.required_inputs):
        left_out = [one.name for one in spec.arrays if one.dtype == name and one.optional]
        which = f"a call may leave out '{left_out[0]}', and no other input" if left_out else "no input"
        message = f"{which} has dtype '{name}', so it cannot be read off a call; give an `in` argument"
        yield path, f'{message} `dtype = "{name}"`, or let it follow from a keyword with texts, `from = "KEYWORD"`'


def _mapped(spec: KernelSpec, path: str, source: str, mapping: dict[str, object]) -> Iterator[PathFault]:
    followed = {name: names for name, choice in spec.specialisations.items() if (names := _names_in(choice))}
    if source not in followed:
        message = f"'{source}' is not a specialisation with `dtypes`, or with `values` that are texts"
        yield f"{path}.from", f"{message}{closest(source, followed)}"
        return
    if spec.specialisations[source].alike:
        message = f"the types of '{source}' are alike, so nothing can follow from which of them a call has"
        yield f"{path}.from", f"{message}; leave `alike` out of '{source}'"
        return
    for name in followed[source]:
        if name not in mapping:
            yield path, f'says nothing for {name}; add `{name} = "..."`'
    for key, value in sorted(mapping.items()):
        if key not in followed[source]:
            kind = "dtypes" if spec.specialisations[source].dtypes else "values"
            yield f"{path}.{key}", f"'{key}' is not one of {source}'s {kind}{closest(key, followed[source])}"
        elif not isinstance(value, str) or value not in DTYPES:
            yield f"{path}.{key}", unknown_dtype(str(value))


def _names_in(choice: Specialisation) -> tuple[str, ...]:
    """Return what a type may follow: the types of a specialisation, or the texts of a keyword."""
    return choice.dtypes or tuple(value for value in choice.values or () if isinstance(value, str))


def _dim(spec: KernelSpec, name: str, dim: Dim) -> Iterator[PathFault]:
    path = f"dims.{name}"
    if dim.constant:
        if dim.sizes:
            listed = ", ".join(map(str, dim.values or dim.sizes))
            yield f"{path}.sizes", f"a constant dim is matched exactly; write `values = [{listed}]` in its place"
        elif not dim.values:
            yield path, "a constant dim is matched exactly; write `values = [64, 128]`"
    elif not dim.sizes and not spec.problems:
        hint = "; or add `constant = true` to match `values` exactly" if dim.values else ""
        yield path, f"needs the sizes to measure; write `sizes = [1024, 65536]`{hint}"
    elif dim.values:
        yield f"{path}.values", "a dim has `sizes`, or `values` with `constant = true`; not both"
    for key, sizes in (("sizes", dim.sizes), ("values", dim.values)):
        for index, size in enumerate(sizes or ()):
            if size > largest(spec, name):
                message = f"{size} does not fit the type of the argument '{name}'; pass it as int64"
                message = beyond(spec, name, size) or message
                yield f"{path}.{key}[{index}]", message
    yield from _told(spec, path, name, dim)


def _told(spec: KernelSpec, path: str, name: str, dim: Dim) -> Iterator[PathFault]:
    """Yield a fault for a dim that a call tells nowhere, or twice."""
    if not dim.keyword:
        if place_of(spec, name) is None and all(name not in {one.count, *one.own} for one in spec.lists):
            giving = [one.name for one in spec.inputs for e in one.shape or () if (linear(e) or ("",))[0] == name]
            which = f"a call may leave out '{giving[0]}', and no other" if giving else "no"
            message = f"{which} array's shape gives '{name}', so it cannot be read off a call"
            yield path, f"{message}; name it in the shape of an `in` argument, alone or as in `2 * {name}`"
        return
    if dim.constant:
        remedy = f"write `{name} = {{ values = {spelled(dim.values or [2, 4])} }}` in [specialisations] instead"
        yield f"{path}.keyword", f"a keyword that is matched exactly is a specialisation; {remedy}"
    for argument in spec.inputs:
        if any(extent.python == name for extent in argument.shape or ()):
            yield f"{path}.keyword", f"the shape of '{argument.name}' gives '{name}' already; leave `keyword` out"
            return


def argument_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield the faults of `arguments`."""
    seen: set[str] = set()
    tunable = parameters(spec)
    for index, argument in enumerate(spec.arguments):
        path = f"arguments[{index}]"
        yield from identifier(f"{path}.name", argument.name, allowed=("out",) if argument.role == "out" else ())
        if argument.name in seen:
            yield f"{path}.name", f"a second argument named '{argument.name}'; names must differ"
        elif argument.name in tunable:
            yield f"{path}.name", f"'{argument.name}' is a parameter of the space; rename one"
        seen.add(argument.name)
        if argument.role is None:
            yield from scalar_faults(spec, index)
        else:
            yield from _array(spec, path, argument)
    if not spec.outputs:
        yield "arguments", 'no argument is written; give one `role = "out"` or `role = "inout"`'


def _array(spec: KernelSpec, path: str, argument: Argument) -> Iterator[PathFault]:
    yield from dtype_faults(f"{path}.dtype", argument.dtype, spec)
    if argument.name in spec.dims or argument.name in spec.specialisations:
        yield (
            f"{path}.name",
            f"'{argument.name}' is also a dim or a specialisation, and those are not arrays; rename one",
        )
    for key in ("value", "default"):
        if getattr(argument, key) is not None:
            yield f"{path}.{key}", f"only a scalar has a {key}; an array has `fill`"
    if argument.fill is not None and argument.role == "out":
        yield f"{path}.fill", "an output is poisoned, not filled; leave it out"
    elif isinstance(argument.fill, FillRange):
        yield from _fill(spec, f"{path}.fill", argument.dtype, argument.fill)
    if argument.init is not None and argument.role != "out":
        yield f"{path}.init", 'only an output (`role = "out"`) or scratch is initialised'
    if argument.in_place:
        yield from in_place_faults(spec, path, argument)
    if argument.optional:
        yield from optional_faults(spec, path, argument)
    yield from leading_faults(spec, path, argument)
    yield from list_faults(spec, path, argument)
    if argument.strides is not None and argument.count is None:
        yield from stride_faults(spec, path, argument)
    yield from _layout(spec, path, argument)


def _fill(spec: KernelSpec, path: str, dtype: str, fill: FillRange) -> Iterator[PathFault]:
    stated = []
    for key, bound in zip(("from", "to"), fill.bounds, strict=True):
        if isinstance(bound, Expression):
            yield from expression_faults(spec, f"{path}.{key}", bound, {*spec.dims, *by_value(spec)})
        stated.append(bound.constant if isinstance(bound, Expression) else bound)
    for name in sorted(dtypes_of(spec, dtype)):
        record = DTYPES[name]
        if record.kind == "bool":
            yield path, "booleans are filled with both; leave it out"
            return
        for key, value in zip(("from", "to"), stated, strict=True):
            if record.range is not None and isinstance(value, float):
                yield f"{path}.{key}", f"is {value}; {name} is {record.values}"
            elif value is not None and not holds(record.part, value):
                yield f"{path}.{key}", f"{value} is not a value of {name}: {record.values}"
    low, high = stated
    if low is not None and high is not None and low > high:
        yield path, f"goes from {low} to {high}; write the lesser first"


def _layout(spec: KernelSpec, path: str, argument: Argument) -> Iterator[PathFault]:
    if argument.shape is None:
        yield path, 'an array needs its shape; write `shape = ["n"]`'
    for axis, extent in enumerate(argument.shape or ()):
        known = {*spec.dims, *by_value(spec)}
        for name in sorted(extent.type_names & known):
            yield f"{path}.shape[{axis}]", f"sizeof({name}) in '{extent}': '{name}' is not a type"
        for name in sorted(extent.names - known):
            yield f"{path}.shape[{axis}]", f"shape names '{name}', which is not a dim{closest(name, spec.dims)}"
        yield from comparison_faults(spec, f"{path}.shape[{axis}]", extent, extent.names)
        if extent.constant is not None and extent.constant < 0:
            yield f"{path}.shape[{axis}]", f"is {extent}; a size is at least 0"
    if argument.align is not None:
        known = {*parameters(spec), *spec.specialisations, *spec.constant_dims}
        yield from expression_faults(spec, f"{path}.align", argument.align, known)
        if argument.align.constant is not None and argument.align.constant < 1:
            yield f"{path}.align", f"is {argument.align}; an alignment is at least 1 byte"
