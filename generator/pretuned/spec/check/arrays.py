"""What arguments say of arrays beside dtype and shape: in place, optional, with leading dims, at addresses."""

from __future__ import annotations

from collections.abc import Iterator

from pretuned.runtime.text import closest
from pretuned.spec import space
from pretuned.spec.addresses import MOST_BYTES, Alignment
from pretuned.spec.check.names import PathFault, expression_faults, parameters
from pretuned.spec.expressions import ExpressionError, LeadingDims, has_value_everywhere
from pretuned.spec.model import Argument, KernelSpec
from pretuned.spec.parts import Presence
from pretuned.spec.strides import is_name


def in_place_faults(spec: KernelSpec, path: str, argument: Argument) -> Iterator[PathFault]:
    """Yield the faults of `in-place`."""
    path = f"{path}.in-place"
    zeroed = argument.init is not None or any(
        argument.name in one.init for one in spec.all_implementations.values() if one.call is None
    )
    apart = any(is_name(spec, entry) for entry in argument.strides or ())  # which is a fault of `strides`
    if argument.role != "out":
        yield path, 'only an output (`role = "out"`) can be one of the inputs; leave it out'
    elif zeroed:
        yield path, f"`init` zeroes '{argument.name}', and so an input that it is; leave one of them out"
    elif not apart and not spec.in_place_of(argument):
        shape = ", ".join(f'"{extent}"' for extent in argument.shape or ())
        wanted = f'`dtype = "{argument.dtype}"` and `shape = [{shape}]`'
        kind = "in", argument.dtype, argument.shape
        if alike := [one.name for one in spec.arrays if (one.role, one.dtype, one.shape) == kind]:
            rows = f"the rows of '{alike[0]}' may lie apart"
            yield path, f"{rows}, and those of an output in its place may not; leave it out"
            return
        yield path, f"no `in` argument has {wanted}, so '{argument.name}' cannot be one; leave it out"


def optional_faults(spec: KernelSpec, path: str, argument: Argument) -> Iterator[PathFault]:
    """Yield the faults of `optional`."""
    path = f"{path}.optional"
    if argument.role == "out":
        yield path, 'an output is always written; `role = "in"` and "inout" can be left out by a call'
        return
    if all(one.optional for one in spec.outputs):
        yield path, "a call that leaves it out writes nothing; give the kernel an output that is always there"
    name = argument.presence
    taken = name in {*spec.dims, *parameters(spec), *(one.name for one in spec.arrays)}
    if taken or not isinstance(spec.specialisations[name], Presence):
        yield path, f"'{name}' says whether '{argument.name}' is there, and is the name of something else; rename that"
    for implementation in spec.all_implementations.values():
        if implementation.call is not None and argument.name in implementation.call.arguments:
            message = f"{implementation.call} is not passed None; leave '{argument.name}' out of its `arguments`"
            yield path, f'{message}, and write `constraints = {{ where = ["not {name}"] }}` beside them'


def leading_faults(spec: KernelSpec, path: str, argument: Argument) -> Iterator[PathFault]:
    """Yield the faults of `rows...` in a shape."""
    others = [array.leading for array in spec.arrays if array.leading is not None]
    for axis, extent in enumerate(argument.shape or ()):
        if not isinstance(extent, LeadingDims):
            continue
        place, name = f"{path}.shape[{axis}]", extent.python
        if axis:
            yield place, f"'{extent}' stands for the leading dims; write it first"
        elif name in spec.constant_dims:
            yield place, f"'{name}' is matched exactly, and a product of dims is not; leave the dots or `constant` out"
        elif others[0] != extent:
            yield place, f"'{extent}' beside '{others[0]}': the leading dims of a kernel's arrays have one name"
        for implementation in spec.all_implementations.values():
            if implementation.call is not None:
                message = f"{implementation.call} would be passed the leading dims as they come"
                yield place, f"{message}, and is verified with their product alone; write a template"


def address_faults(spec: KernelSpec, path: str, demand: Alignment) -> Iterator[PathFault]:
    """Yield the faults of an `aligned(x, 8)` of `requires`."""
    arrays = [array.name for array in spec.whole(spec.arrays)]
    if demand.argument not in arrays:
        yield path, f"'{demand.argument}' in '{demand}' is not an array{closest(demand.argument, arrays)}"
        return
    if limited := sorted(demand.nbytes.names & parameters(spec)):
        message = f"'{limited[0]}' is a parameter; what a configuration asks of an address is the argument's `align`"
        yield path, message
        return
    known = {*spec.specialisations, *spec.constant_dims}
    if free := sorted(demand.nbytes.names & spec.free_dims.keys()):
        yield path, f"'{free[0]}' in '{demand}' has no one value: a call may have any size of it; write a number"
        return
    faults = list(expression_faults(spec, path, demand.nbytes, known))
    yield from faults
    for specialisation in space.specialisations(spec) if not faults else ():
        try:
            asked = demand.nbytes.evaluate(space.choices(spec, specialisation))
        except ExpressionError as error:
            yield path, str(error)
            return
        if not 1 <= asked <= MOST_BYTES or asked & (asked - 1):
            chosen = f" for {space.describe(specialisation)}" if demand.nbytes.names else ""
            yield path, f"asks for {asked} bytes{chosen}; an alignment is a power of two, at most {MOST_BYTES}"
            return


def shape_value_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield the shapes that have no value at a problem; of a spec that is sound otherwise."""
    failed: set[int] = set()
    for problem in space.all_problems(spec) if any(_may_fail(argument) for argument in spec.arrays) else ():
        values = space.environment(spec, problem)
        for index, argument in enumerate(spec.arguments):
            if argument.role is None or index in failed or not _may_fail(argument):
                continue
            try:
                space.shape_of(argument, values)
            except ExpressionError as error:
                failed.add(index)
                yield (
                    f"arguments[{index}].shape",
                    f"{error} at {problem}; say in `requires` which sizes the kernel takes",
                )


def _may_fail(argument: Argument) -> bool:
    return not all(has_value_everywhere(extent) for extent in argument.shape or ())
