"""What the table is keyed by: specialisations and dims, and what the kernel demands of them."""

from __future__ import annotations

from collections.abc import Iterator

from pretuned.runtime.text import closest
from pretuned.runtime.types import DTYPES
from pretuned.spec.buckets import largest
from pretuned.spec.check.names import PathFault, expression_faults, parameters, unknown_dtype
from pretuned.spec.faults import unknown_key
from pretuned.spec.model import Dim, KernelSpec, Specialisation


def key_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield the faults of [specialisations], [dims] and `requires`."""
    for name, choice in spec.specialisations.items():
        yield from _specialisation(spec, name, choice)
    for name, dim in spec.dims.items():
        yield from _dim(spec, name, dim)
    for index, expression in enumerate(spec.constraints.requires):
        path = f"constraints.requires[{index}]"
        if limited := sorted(expression.names & parameters(spec)):
            yield path, f"'{limited[0]}' is a parameter; what limits parameters belongs in `where`"
        else:
            yield from expression_faults(spec, path, expression, {*spec.dims, *spec.specialisations})


def _specialisation(spec: KernelSpec, name: str, choice: Specialisation) -> Iterator[PathFault]:
    path = f"specialisations.{name}"
    if choice.from_ is not None:
        if choice.dtypes or choice.values:
            yield path, "has `from`, so its types follow from another; leave `dtypes` and `values` out"
        yield from _mapped(spec, path, choice.from_, choice.mapping)
        return
    for key in sorted(choice.mapping):
        yield f"{path}.{key}", unknown_key(key, Specialisation)
    if (choice.dtypes is None) == (choice.values is None):
        if not choice.mapping or choice.dtypes:  # a misspelt key has been named
            yield path, 'must have one of `dtypes = ["float32", ...]`, `values = [false, true]` or `from = "T"`'
        return
    for index, dtype in enumerate(choice.dtypes or ()):
        if dtype not in DTYPES:
            yield f"{path}.dtypes[{index}]", unknown_dtype(dtype)
    if len({type(value) for value in choice.values or ()}) > 1:
        yield f"{path}.values", "mixes bools and integers; use one kind"
    if choice.dtypes and not any(argument.dtype == name for argument in spec.inputs):
        yield path, f"no input has dtype '{name}', so a call cannot tell it; give an `in` argument `dtype = \"{name}\"`"


def _mapped(spec: KernelSpec, path: str, source: str, mapping: dict[str, object]) -> Iterator[PathFault]:
    origin = spec.specialisations.get(source)
    if origin is None or not origin.dtypes:
        with_types = [name for name, choice in spec.specialisations.items() if choice.dtypes]
        yield f"{path}.from", f"'{source}' is no specialisation with `dtypes`{closest(source, with_types)}"
        return
    for dtype in origin.dtypes:
        if dtype not in mapping:
            yield path, f'says nothing for {dtype}; add `{dtype} = "..."`'
    for key, value in sorted(mapping.items()):
        if key not in origin.dtypes:
            yield f"{path}.{key}", f"'{key}' is not one of {source}'s dtypes{closest(key, origin.dtypes)}"
        elif not isinstance(value, str) or value not in DTYPES:
            yield f"{path}.{key}", unknown_dtype(str(value))


def _dim(spec: KernelSpec, name: str, dim: Dim) -> Iterator[PathFault]:
    path = f"dims.{name}"
    if dim.constant:
        if dim.sizes:
            yield f"{path}.sizes", "a constant dim has `values`, not `sizes`"
        if not dim.values:
            yield path, "a constant dim is matched exactly; write `values = [64, 128]`"
    elif not dim.sizes:
        hint = "; or add `constant = true` to match `values` exactly" if dim.values else ""
        yield path, f"needs the sizes to measure; write `sizes = [1024, 65536]`{hint}"
    elif dim.values:
        yield f"{path}.values", "a dim has `sizes`, or `values` with `constant = true`; not both"
    for key, sizes in (("sizes", dim.sizes), ("values", dim.values)):
        for index, size in enumerate(sizes or ()):
            if size > largest(spec, name):
                message = f"{size} does not fit the type of the argument '{name}'; pass it as int64"
                yield f"{path}.{key}[{index}]", message
    shapes = [extent.python for argument in spec.inputs for extent in argument.shape or ()]
    if name not in shapes:
        message = (
            f"no input's shape gives '{name}', so a call cannot tell it; name it alone in the shape of an `in` argument"
        )
        yield path, message
