"""How one implementation is launched: its constraints, scratch buffers and launches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pretuned.runtime.text import closest
from pretuned.spec import space
from pretuned.spec.check.names import PathFault, dtype_faults, expression_faults, identifier
from pretuned.spec.model import Implementation, KernelSpec, LaunchSpec

_LEAST: Final = {"grid": 0, "block": 1, "shared": 0}


def constraint_faults(spec: KernelSpec, implementation: Implementation) -> Iterator[PathFault]:
    """Yield the faults of `where`."""
    for index, expression in enumerate(implementation.constraints.where):
        yield from expression_faults(
            spec, f"constraints.where[{index}]", expression, _known(spec, implementation), device=True
        )


def _known(spec: KernelSpec, implementation: Implementation) -> set[str]:
    return {*spec.dims, *spec.specialisations, *space.parameters(implementation)}


def launch_faults(spec: KernelSpec, implementation: Implementation) -> Iterator[PathFault]:
    """Yield the faults of `init`, `scratch` and `launches`."""
    known = _known(spec, implementation)
    outputs = {argument.name for argument in spec.arrays if argument.role == "out"}
    for index, name in enumerate(implementation.init):
        if name not in outputs:
            message = (
                f"'{name}' is no output (`role = \"out\"`); `init` names those to be zeroed{closest(name, outputs)}"
            )
            yield f"init[{index}]", message
    yield from _scratch(spec, implementation, known)
    if not implementation.launches:
        yield "launches", "missing; write `launches = [{ function, grid, block }]` or [[launches]] tables"
    for index, launch in enumerate(implementation.launches):
        for path, message in _launch(spec, implementation, launch, known):
            yield f"launches[{index}].{path}", message


def _scratch(spec: KernelSpec, implementation: Implementation, known: set[str]) -> Iterator[PathFault]:
    taken = {argument.name for argument in spec.arguments} | known
    passed = {name for launch in implementation.launches for name in launch.arguments or ()}
    for index, buffer in enumerate(implementation.scratch):
        path = f"scratch[{index}]"
        yield from identifier(f"{path}.name", buffer.name)
        if buffer.name in taken:
            yield f"{path}.name", f"'{buffer.name}' is already the name of something else; rename the buffer"
        elif buffer.name not in passed:
            yield path, f"'{buffer.name}' is passed to no launch; name it in the `arguments` of one"
        taken.add(buffer.name)
        yield from dtype_faults(f"{path}.dtype", buffer.dtype, spec)
        for axis, extent in enumerate(buffer.shape):
            yield from expression_faults(spec, f"{path}.shape[{axis}]", extent, known, device=True)
            if extent.constant is not None and extent.constant < 0:
                yield f"{path}.shape[{axis}]", f"is {extent}; a size is at least 0"


def _launch(
    spec: KernelSpec, implementation: Implementation, launch: LaunchSpec, known: set[str]
) -> Iterator[PathFault]:
    if not (launch.function.isidentifier() and launch.function.isascii()):
        yield "function", f"'{launch.function}' is no name of a C function"
    for field, expressions in (("grid", launch.grid), ("block", launch.block), ("shared", (launch.shared,))):
        for axis, expression in enumerate(expressions):
            path = field if field == "shared" else f"{field}[{axis}]"
            yield from expression_faults(spec, path, expression, known, device=True)
            if expression.constant is not None and expression.constant < _LEAST[field]:
                yield path, f"is {expression}; must be at least {_LEAST[field]}"
    arguments = {argument.name for argument in spec.arguments} | {buffer.name for buffer in implementation.scratch}
    for position, name in enumerate(launch.arguments or ()):
        if name not in arguments:
            yield f"arguments[{position}]", f"unknown argument '{name}'{closest(name, arguments)}"
