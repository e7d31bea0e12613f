"""Implementations: one, whose keys stand at the top, or several in tables; library calls, launches and scratch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from pretuned.config.toml import spelled
from pretuned.runtime.limits import LARGEST_CLUSTER, PORTABLE_CLUSTER
from pretuned.runtime.text import closest
from pretuned.spec import space
from pretuned.spec.check.names import PathFault, dtype_faults, expression_faults, identifier
from pretuned.spec.check.tensor_maps import tensor_map_faults
from pretuned.spec.formulas import Formula
from pretuned.spec.launch import LaunchSpec
from pretuned.spec.library import LibraryCall
from pretuned.spec.model import MAIN, ImplementationSpec, KernelSpec
from pretuned.spec.parts import Compile


def prefix_of(spec: KernelSpec, implementation: str) -> str:
    """Return what the path of an implementation's key begins with: nothing where its keys stand at the top."""
    return f"implementations.{implementation}." if spec.implementations else ""


def implementation_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield a fault wherever the two shapes of a spec are mixed, or no implementation is said to be the default."""
    if not spec.implementations:
        return
    for key in ("template", "scratch", "tensor-maps", "space", "seeds", "launches"):
        if getattr(spec, key.replace("-", "_")):
            yield key, f"write `{key}` in each of the [implementations.NAME] tables instead"
    if spec.compile != Compile():
        yield "compile", "write `compile` in each of the [implementations.NAME] tables instead"
    if spec.cost.terms:
        yield "cost", "write `cost` in each of the [implementations.NAME] tables instead"
    if spec.constraints.where:
        yield "constraints.where", "write `where` in each of the [implementations.NAME] tables instead"
    yield from _chosen(spec)
    for name, implementation in sorted(spec.implementations.items()):
        yield from identifier(f"implementations.{name}", name)
        if name == MAIN and len(spec.implementations) == 1:
            yield "implementations.main", "one implementation needs no table; write its keys at the top"
        if implementation.constraints.requires:
            message = "write it at the top, as `[constraints] requires`: it holds whatever implements the kernel"
            yield f"implementations.{name}.constraints.requires", message


def _chosen(spec: KernelSpec) -> Iterator[PathFault]:
    """The default of the kernel is one implementation's."""
    known = " or ".join(f'"{name}"' for name in sorted(spec.implementations))
    chosen = spec.default.get("implementation")
    if isinstance(chosen, Formula):
        return  # which has its own line
    if chosen is None:
        yield "default.implementation", f"missing; write `implementation = {known}`: the one that is the baseline"
    elif chosen not in spec.implementations:
        near = closest(str(chosen), spec.implementations)
        yield (
            "default.implementation",
            f"is {spelled(chosen)}, which is not an implementation{near or f'; write {known}'}",
        )
    elif spec.all_implementations[spec.default_implementation].call is not None:
        message = f"is {spelled(chosen)}, a library call; the default runs wherever nothing else does, also without"
        yield "default.implementation", f"{message} the library: name an implementation with a template"
    for name in sorted(spec.default.keys() - {"implementation"}):
        yield f"default.{name}", "write it in the `default` of each of the [implementations.NAME] tables instead"


LIBRARIES: Final = ("cupy", "torch")
_OF_TEMPLATES: Final = (
    "template",
    "init",
    "scratch",
    "tensor_maps",
    "space",
    "default",
    "seeds",
    "launches",
    "compile",
)


def call_faults(spec: KernelSpec, implementation: ImplementationSpec) -> Iterator[PathFault]:
    """Yield the faults of `call`, `arguments` and `out`, and the keys that a library call cannot have."""
    given = implementation.model_fields_set
    call = implementation.call
    if call is None:
        for key in sorted(given & {"arguments", "out"}):
            yield key, f"only a library call has `{key}`; leave it out, or write `call`"
        return
    for key in sorted(given & set(_OF_TEMPLATES)):
        written = key.replace("_", "-")
        yield written, f"a library call has no `{written}`; leave it out"
    yield from _function(str(implementation.target), call)
    yield from _passed(spec, call)
    if len(spec.outputs) > 1:
        names = ", ".join(argument.name for argument in spec.outputs)
        yield "call", f"a library call writes one output, and this kernel writes {names}; write a template"
    for scalar in spec.scalars:
        message = f"a library call is passed arrays only, so the scalar '{scalar.name}' would have no effect"
        yield "call", f"{message}; only a kernel without scalars can have one"


def _function(target: str, call: LibraryCall) -> Iterator[PathFault]:
    if ":" not in target:
        yield "call", f"'{target}' names no function of a library; write `call = \"cupy:matmul\"`"
        return
    if call.module not in LIBRARIES:
        hint = closest(call.module, LIBRARIES) or f"; known are {', '.join(LIBRARIES)}"
        yield "call", f"'{call.module}' is not a library that can be called{hint}"
    parts = call.function.split(".")
    if not all(part.isidentifier() and part.isascii() and not part.startswith("_") for part in parts):
        message = f"'{call.function}' is not the name of a public function"
        yield "call", f'{message}; write `call = "cupy:matmul"`, or with a dot as in "cupy:linalg.norm"'


def _passed(spec: KernelSpec, call: LibraryCall) -> Iterator[PathFault]:
    inputs = [argument.name for argument in spec.inputs]
    if not call.arguments:
        yield "arguments", f"a library call is passed at least one array; name some of {', '.join(inputs) or 'none'}"
    for index, name in enumerate(call.arguments):
        if name not in inputs:
            hint = closest(name, inputs) or f"; those are {', '.join(inputs)}"
            yield f"arguments[{index}]", f"'{name}' is not an input (`in` or `inout`){hint}"


_LEAST: Final = {"grid": 0, "block": 1, "shared": 0, "cluster": 1}


def constraint_faults(spec: KernelSpec, implementation: ImplementationSpec) -> Iterator[PathFault]:
    """Yield the faults of `where`."""
    for index, expression in enumerate(implementation.constraints.where):
        yield from expression_faults(
            spec, f"constraints.where[{index}]", expression, _read(spec, implementation), device=True
        )


def _known(spec: KernelSpec, implementation: ImplementationSpec) -> set[str]:
    return {*spec.dims, *spec.specialisations, *space.parameters(implementation)}


def _read(spec: KernelSpec, implementation: ImplementationSpec) -> set[str]:
    """Return what conditions and launches read: what shapes do, and the strides of a call."""
    return {*_known(spec, implementation), *spec.stride_names}


def launch_faults(spec: KernelSpec, implementation: ImplementationSpec) -> Iterator[PathFault]:
    """Yield the faults of `init`, `scratch`, `tensor-maps` and `launches`."""
    known = _known(spec, implementation)
    outputs = {argument.name for argument in spec.whole(spec.arrays) if argument.role == "out"}
    for index, name in enumerate(implementation.init):
        if name not in outputs:
            message = (
                f"'{name}' is not an output (`role = \"out\"`); `init` names those to be zeroed{closest(name, outputs)}"
            )
            yield f"init[{index}]", message
    yield from _scratch(spec, implementation, known)
    yield from tensor_map_faults(spec, implementation, known)
    if not implementation.launches:
        yield "launches", "missing; write `launches = [{ function, grid, block }]` or [[launches]] tables"
    for index, launch in enumerate(implementation.launches):
        for path, message in _launch(spec, implementation, launch, _read(spec, implementation)):
            yield f"launches[{index}].{path}", message


def _scratch(spec: KernelSpec, implementation: ImplementationSpec, known: set[str]) -> Iterator[PathFault]:
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
    spec: KernelSpec, implementation: ImplementationSpec, launch: LaunchSpec, known: set[str]
) -> Iterator[PathFault]:
    if not (launch.function.isidentifier() and launch.function.isascii()):
        yield "function", f"'{launch.function}' is not the name of a C function"
    extents = (("grid", launch.grid), ("block", launch.block), ("cluster", launch.cluster or ()))
    for field, expressions in (*extents, ("shared", (launch.shared,))):
        for axis, expression in enumerate(expressions):
            path = field if field == "shared" else f"{field}[{axis}]"
            yield from expression_faults(spec, path, expression, known, device=True, residency=field == "grid")
            if expression.constant is not None and expression.constant < _LEAST[field]:
                yield path, f"is {expression}; must be at least {_LEAST[field]}"
    yield from _attributes(launch)
    arguments = {argument.name for argument in spec.arguments} | {buffer.name for buffer in implementation.scratch}
    arguments |= {one.name for one in implementation.tensor_maps}
    for position, name in enumerate(launch.arguments or ()):
        if name not in arguments:
            yield f"arguments[{position}]", f"unknown argument '{name}'{closest(name, arguments)}"


def _attributes(launch: LaunchSpec) -> Iterator[PathFault]:
    """Yield what CUDA does not take of a launch's attributes."""
    cluster = [expression.constant for expression in launch.cluster or ()]
    blocks = math.prod(extent for extent in cluster if extent is not None)
    if blocks > LARGEST_CLUSTER:
        yield "cluster", f"has {blocks} blocks; a GPU takes up to {PORTABLE_CLUSTER}, and some up to {LARGEST_CLUSTER}"
    if len(cluster) > len(launch.grid):
        message = f"has {len(cluster)} entries, and `grid` has {len(launch.grid)}"
        yield "cluster", f"{message}; give the grid as many, since each is a multiple of the cluster's"
    if launch.cooperative and launch.overlap:
        yield "overlap", "a cooperative launch waits until the device holds all its blocks; leave `overlap` out"
