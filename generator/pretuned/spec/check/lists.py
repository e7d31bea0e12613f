"""Lists of arrays: what counts them, and the extents that their arrays have of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pretuned.runtime.text import closest
from pretuned.spec.check.names import PathFault
from pretuned.spec.expressions import LeadingDims, OwnExtent
from pretuned.spec.lists import LIST, owners
from pretuned.spec.model import Argument, KernelSpec

EXTENT_DTYPES: Final = ("int32", "int64", "uint32", "uint64")


def list_faults(spec: KernelSpec, path: str, argument: Argument) -> Iterator[PathFault]:
    """Yield the faults of `count` and `most`, and of `rows[]` in a shape."""
    if argument.each is not None:
        yield f"{path}.each", "is for an argument without a role: the extents that the arrays of lists have"
    if argument.count is None:
        if "most" in argument.model_fields_set:
            yield f"{path}.most", 'only a list has one; write `count = "groups"` beside it for a list of arrays'
        for axis, extent in enumerate(argument.shape or ()):
            if isinstance(extent, OwnExtent):
                message = f"'{extent}' is an extent of each array of a list, and '{argument.name}' is one array"
                yield f"{path}.shape[{axis}]", f'{message}; write `count = "groups"` for a list, or leave the `[]`'
        return
    yield from _counted(spec, f"{path}.count", argument)
    yield from _alone(spec, path, argument)
    for axis, extent in enumerate(argument.shape or ()):
        if isinstance(extent, OwnExtent):
            yield from _own(spec, f"{path}.shape[{axis}]", argument, extent)
        elif isinstance(extent, LeadingDims):
            yield (
                f"{path}.shape[{axis}]",
                "the arrays of a list have as many dims as their shape; write the dims of one",
            )


def _counted(spec: KernelSpec, path: str, argument: Argument) -> Iterator[PathFault]:
    count = argument.count or ""
    dim = spec.dims.get(count)
    if dim is None:
        remedy = closest(count, spec.dims) or f"; write `{count} = {{ sizes = [4, 16] }}` in [dims]"
        yield path, f"'{count}' is not a dim{remedy}"
    elif argument == _first(spec, count) and (dim.keyword or dim.constant):
        key = "keyword" if dim.keyword else "constant"
        yield f"dims.{count}.{key}", f"the number of arrays in '{argument.name}' gives '{count}'; leave it out"
    elif all(one.role == "out" for one in spec.lists if one.count == count):
        message = f"only outputs are lists of '{count}' arrays, and a call need not bring these"
        yield path, f'{message}; give an input that `count`, or write `role = "inout"`'


def _first(spec: KernelSpec, dim: str) -> Argument:
    """Return the first list that a dim counts, or whose arrays have their own extents of it."""
    return next(one for one in spec.lists if dim in {one.count, *one.own})


def beyond(spec: KernelSpec, dim: str, size: int) -> str:
    """Return what is wrong with a size of a dim that counts arrays, if lists have fewer."""
    least = min((one for one in spec.lists if one.count == dim), key=lambda one: one.most, default=None)
    if least is None or size <= least.most:
        return ""
    return f"is {size}, and '{least.name}' has at most {least.most} arrays; give it a greater `most`, or measure fewer"


def _alone(spec: KernelSpec, path: str, argument: Argument) -> Iterator[PathFault]:
    """Yield what a list cannot be besides."""
    if argument.optional:
        yield f"{path}.optional", "a list has at least one array; leave it out"
    if argument.in_place:
        yield f"{path}.in-place", 'the arrays of a list are not those of another; write `role = "inout"`'
    if argument.strides is not None:
        yield f"{path}.strides", "the arrays of a list are contiguous; leave it out"
    if argument in spec.lists[:1] and LIST in {*spec.dims, *spec.specialisations, *spec.structs, *spec.let}:
        message = f"'{LIST}' is what C++ calls a list of arrays, and the name of something else"
        yield f"{path}.count", f"{message}; rename that"
    for implementation in spec.all_implementations.values():
        if implementation.call is not None:
            yield f"{path}.count", f"{implementation.call} is passed single arrays; write a template"


def _own(spec: KernelSpec, path: str, argument: Argument, extent: OwnExtent) -> Iterator[PathFault]:
    name = extent.python
    dim = spec.dims.get(name)
    if dim is None:
        return  # which is reported with the shape
    if (dim.keyword or dim.constant) and argument == _first(spec, name):
        key = "keyword" if dim.keyword else "constant"
        yield f"dims.{name}.{key}", f"'{name}' is the sum of what each array of '{argument.name}' has; leave it out"
    elif name == argument.count:
        yield path, f"'{name}' is the number of arrays; name another dim, whose sum over the arrays is a size"
    several = owners(spec, name)
    if all(one.role == "out" for one in several):
        message = f"only outputs have '{extent}', and a call need not bring these"
        yield path, f'{message}; give it to a list that is an input, or write `role = "inout"`'
    first = next((one for one in several if one.role != "out"), argument)
    if first.count != argument.count and first.count in spec.dims:
        message = f"'{first.name}' has an '{extent}' for each of '{first.count}' arrays"
        yield path, f"{message}, and '{argument.name}' has '{argument.count}'; name another dim"


def each_faults(spec: KernelSpec, path: str, argument: Argument) -> Iterator[PathFault]:
    """Yield the faults of an argument that are the extents of a list's arrays."""
    name = argument.each or ""
    for key in ("value", "default"):
        if getattr(argument, key) is not None:
            yield f"{path}.{key}", f"'{argument.name}' takes its values from the arrays; leave `{key}` out"
    if argument.name in {*spec.dims, *spec.specialisations, *spec.let}:
        message = f"'{argument.name}' is also a dim, a specialisation or a derived name, which are numbers; rename one"
        yield f"{path}.name", message
    if argument.dtype not in EXTENT_DTYPES:
        yield f"{path}.dtype", f"extents are passed as int32, int64, uint32 or uint64, not '{argument.dtype}'"
    first = next((one for one in owners(spec, name) if one.role != "out"), None)
    if first is None:
        owned = {dim for one in spec.lists if one.role != "out" for dim in one.own}
        hint = closest(name, owned) or f'; write `"{name}[]"` in the shape of one that is an input'
        yield f"{path}.each", f"no list has an extent '{name}[]'{hint}"
    elif argument.most != first.most:
        message = f"has room for {argument.most} extents, and '{first.name}' has at most {first.most} arrays"
        yield f"{path}.most", f"{message}; write `most = {first.most}`"
