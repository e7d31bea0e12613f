"""Tensor maps: which arrays have one, and boxes that TMA takes."""

from __future__ import annotations

from collections.abc import Iterator

from pretuned.runtime.tensor_maps import ELEMENTS, LARGEST_BOX, LARGEST_RANK, MAP_BYTES, WITH_NAN, misfit
from pretuned.runtime.text import closest
from pretuned.spec import space
from pretuned.spec.check.names import PathFault, expression_faults, identifier
from pretuned.spec.check.structs import PASSED_BYTES
from pretuned.spec.model import Argument, ImplementationSpec, KernelSpec
from pretuned.spec.tensor_maps import TensorMapSpec


def tensor_map_faults(spec: KernelSpec, implementation: ImplementationSpec, known: set[str]) -> Iterator[PathFault]:
    """Yield the faults of `tensor-maps`; `known` are the names that its expressions may read."""
    if (total := MAP_BYTES * len(implementation.tensor_maps)) > PASSED_BYTES:
        yield "tensor-maps", f"take {total} bytes together, and CUDA passes {PASSED_BYTES}; leave some out"
    taken = {argument.name for argument in spec.arguments} | {buffer.name for buffer in implementation.scratch} | known
    passed = {name for launch in implementation.launches for name in launch.arguments or ()}
    arrays = {argument.name: argument for argument in spec.arguments if argument.role is not None}
    for index, one in enumerate(implementation.tensor_maps):
        path = f"tensor-maps[{index}]"
        yield from identifier(f"{path}.name", one.name)
        if one.name in taken:
            yield f"{path}.name", f"'{one.name}' is already the name of something else; rename the map"
        elif one.name not in passed:
            yield path, f"'{one.name}' is passed to no launch; name it in the `arguments` of one"
        taken.add(one.name)
        for axis, extent in enumerate(one.box):
            yield from expression_faults(spec, f"{path}.box[{axis}]", extent, known)
            if extent.constant is not None and not 1 <= extent.constant <= LARGEST_BOX:
                yield f"{path}.box[{axis}]", f"is {extent}; a box has 1 to {LARGEST_BOX} elements along a dim"
        if one.array not in arrays:
            yield f"{path}.array", f"'{one.array}' is not an array{closest(one.array, arrays)}"
        elif arrays[one.array].count is not None:
            yield f"{path}.array", f"'{one.array}' is a list of arrays, which has no maps; pass the list itself"
        else:
            yield from _of_array(spec, path, one, arrays[one.array])


def _of_array(spec: KernelSpec, path: str, one: TensorMapSpec, array: Argument) -> Iterator[PathFault]:
    dtypes, rank = space.dtypes_of(spec, array.dtype), len(array.shape or ())
    if array.optional:
        yield f"{path}.array", f"'{array.name}' is optional, and what is not there has no map; pass it as a pointer"
    if rank > LARGEST_RANK:
        yield f"{path}.array", f"'{array.name}' has {rank} dims; a tensor map has up to {LARGEST_RANK}"
    elif rank != len(one.box):
        have = f"has {len(one.box)} {'entry' if len(one.box) == 1 else 'entries'}"
        yield f"{path}.box", f"{have}, and '{array.name}' has {rank} dim{'s' * (rank != 1)}: write one for each"
    for dtype in dtypes:
        if dtype not in ELEMENTS:
            yield f"{path}.array", f"'{array.name}' may be {dtype}, of which there are no tensor maps"
        elif one.fill == "nan" and dtype not in WITH_NAN:
            yield f"{path}.fill", f"'{array.name}' may be {dtype}, and TMA fills {', '.join(sorted(WITH_NAN))} with NaN"
    box = [extent.constant for extent in one.box]
    if (inner := box[-1]) is not None and 1 <= inner <= LARGEST_BOX:
        for dtype in dtypes:
            if (reason := misfit(dtype, [1], [inner], one.swizzle)) is not None:
                chosen = f", for {dtype}" if len(dtypes) > 1 else ""
                yield f"{path}.box[{len(box) - 1}]", f"makes {reason}{chosen}"
                return
