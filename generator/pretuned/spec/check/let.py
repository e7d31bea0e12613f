"""Derived names: what [let] defines, and the arguments that are passed such a name's value."""

from __future__ import annotations

from collections.abc import Iterator

from pretuned.runtime.text import closest
from pretuned.runtime.types import DTYPES
from pretuned.spec import space
from pretuned.spec.check.names import PathFault, by_value, expression_faults, identifier, parameters
from pretuned.spec.let import MAX_LENGTH, substituted, too_long
from pretuned.spec.model import Argument, KernelSpec


def let_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield the faults of [let]: a name that is taken, and what a definition cannot read."""
    buffers = [buffer.name for one in spec.all_implementations.values() for buffer in one.scratch]
    maps = [made.name for one in spec.all_implementations.values() for made in one.tensor_maps]
    arrays = [argument.name for argument in spec.whole(spec.arrays)]
    taken = dict.fromkeys(buffers, "scratch buffers") | dict.fromkeys(maps, "tensor maps")
    taken |= dict.fromkeys(arrays, "arrays")
    taken |= dict.fromkeys(spec.dims, "dims") | dict.fromkeys(spec.specialisations, "specialisations")
    taken |= dict.fromkeys(parameters(spec), "parameters")
    known = {*spec.dims, *by_value(spec), *parameters(spec)}
    above: set[str] = set()
    for name, expression in spec.let.items():
        path = f"let.{name}"
        yield from identifier(path, name)
        if name in taken:
            yield path, f"'{name}' is already the name of one of the {taken[name]}; rename one"
        below = sorted((expression.value_names & spec.let.keys()) - above - known)
        for other in below:
            what = "itself" if other == name else f"'{other}', which is defined below it"
            yield path, f"{expression.quoted} reads {what}; a definition reads those above it"
        if not below:
            yield from expression_faults(spec, path, expression, known | above, device=True)
            if too_long(substituted(expression, spec.derived)):
                message = f"is more than {MAX_LENGTH:,} characters long with all that it reads written out"
                yield path, f"{message}; define less by one name"
        above.add(name)


def derived_argument_faults(spec: KernelSpec, path: str, argument: Argument) -> Iterator[PathFault]:
    """Yield the faults of an argument that has the name of a definition."""
    for key in ("value", "default"):
        if getattr(argument, key) is not None:
            yield f"{path}.{key}", f"'{argument.name}' takes its value from [let]; leave `{key}` out"
    if argument.dtype not in DTYPES:
        yield f"{path}.dtype", f"'{argument.name}' is defined by [let], and is passed as one type: int32, int64, ..."
    reads = spec.derived[argument.name].names - DTYPES.keys() if argument.name in spec.derived else frozenset()
    for name, implementation in spec.all_implementations.items():
        if implementation.call is None and (
            missing := sorted((reads & parameters(spec)) - space.parameters(implementation))
        ):
            message = f"'{argument.name}' reads '{missing[0]}', and the implementation '{name}' has no such parameter"
            yield f"{path}.name", f"{message}{closest(missing[0], space.parameters(implementation))}"
