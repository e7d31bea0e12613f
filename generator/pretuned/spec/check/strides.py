"""`strides` of arrays: names for what calls decide, above what is contiguous."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pretuned.runtime.text import closest
from pretuned.spec.check.names import PathFault, by_value, expression_faults, identifier, parameters
from pretuned.spec.expressions import Expression, ExpressionError
from pretuned.spec.model import Argument, KernelSpec
from pretuned.spec.parts import contiguous_stride
from pretuned.spec.strides import is_name

SAID: Final = (7, 11, 13, 17, 19, 23, 29, 31)  # sizes at which an expression has to be the contiguous stride


def stride_faults(spec: KernelSpec, path: str, argument: Argument) -> Iterator[PathFault]:
    """Yield the faults of `strides`."""
    path, entries, shape = f"{path}.strides", argument.strides or (), argument.shape or ()
    if len(entries) != len(shape):
        yield path, f"has {_entries(len(entries))}, and `shape` has {len(shape)}; a dim has one each"
        return
    if not entries:
        yield path, "an array without dims has no strides; leave it out"
        return
    if entries[-1].constant != 1:
        yield f"{path}[{len(entries) - 1}]", f"is {entries[-1]}; the elements of a row lie side by side: write 1"
        return
    for axis, entry in enumerate(entries[:-1]):
        if is_name(spec, entry):
            yield from _named(spec, f"{path}[{axis}]", argument, axis)
        else:
            yield from _contiguous(spec, f"{path}[{axis}]", argument, axis)
    if any(is_name(spec, entry) for entry in entries):
        yield from _beside(spec, path, argument)


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def _named(spec: KernelSpec, path: str, argument: Argument, axis: int) -> Iterator[PathFault]:
    name, entries = (argument.strides or ())[axis].python, (argument.strides or ())
    if faults := list(identifier(path, name)):
        yield from faults
        return
    taken = {*(one.name for one in spec.arrays), *parameters(spec), *spec.structs}
    place = spec.stride_names[name]
    if name in taken:
        yield path, f"'{name}' is the name of something else; a stride has a name of its own"
    elif (place.argument, place.axis) != (argument.name, axis):
        message = f"'{name}' is a stride of '{place.argument}' already; give this one a name of its own"
        yield path, f'{message}, and demand `requires = ["{name} == NAME"]` where they have to agree'
    elif all(one.name != name or one.role is not None for one in spec.arguments):
        remedy = f'write `{{ name = "{name}", dtype = "int64" }}` among `arguments`'
        yield path, f"the kernel is not passed '{name}'{closest(name, spec.dims) or f'; {remedy}'}"
    if fixed := [entry for entry in entries[:axis] if not is_name(spec, entry)]:
        message = f"'{fixed[0]}' is what contiguous elements have, and '{name}' below it says that they may not be"
        yield path, f"{message}; name both"


def _contiguous(spec: KernelSpec, path: str, argument: Argument, axis: int) -> Iterator[PathFault]:
    entry, wanted = (argument.strides or ())[axis], contiguous_stride(argument.shape or (), axis)
    faults = list(expression_faults(spec, path, entry, {*spec.dims, *by_value(spec)}))
    yield from faults
    if not faults and not _agree(spec, entry, wanted):
        message = f"'{entry}' is not '{wanted}', which contiguous elements have"
        yield path, f"{message}; name a stride that calls decide, as in `x_stride`, and pass the name to the kernel"


def _agree(spec: KernelSpec, one: Expression, other: Expression) -> bool:
    """Return whether two expressions have the same values, by values at several sizes."""
    names = sorted({*one.names, *other.names} - by_value(spec))
    chosen = {name: choice.values[-1] for name, choice in spec.specialisations.items() if choice.values}
    for turn in range(4):
        sizes = {name: SAID[(place + turn) % len(SAID)] * (turn + 1) for place, name in enumerate(names)}
        try:
            if one.evaluate({**chosen, **sizes}) != other.evaluate({**chosen, **sizes}):
                return False
        except ExpressionError:
            return False
    return True


def _beside(spec: KernelSpec, path: str, argument: Argument) -> Iterator[PathFault]:
    """Yield what an array whose rows lie apart cannot be."""
    zeroed = argument.init is not None or any(
        argument.name in one.init for one in spec.all_implementations.values() if one.call is None
    )
    if zeroed:
        message = f"`init` zeroes all that '{argument.name}' reaches over, and so what lies between its rows"
        yield path, f"{message}; leave it out, and zero the rows in the kernel"
    if argument.in_place:
        yield path, 'an output that is one of the inputs is contiguous; write `role = "inout"` instead of `in-place`'
    for implementation in spec.all_implementations.values():
        if implementation.call is not None:
            message = f"{implementation.call} would be passed rows that lie apart"
            yield path, f"{message}, and is verified with contiguous ones alone; write a template"
