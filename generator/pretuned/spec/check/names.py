"""Names: identifiers of CUDA C++ and of Python, in one name space a kernel."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Iterator
from typing import Final

from pretuned.runtime.text import closest
from pretuned.runtime.types import DTYPES
from pretuned.spec import space
from pretuned.spec.check.dtypes import unknown_dtype
from pretuned.spec.check.kinds import comparison_faults
from pretuned.spec.expressions import DEVICE_ATTRIBUTES, FUNCTIONS, RESIDENT_BLOCKS, Expression
from pretuned.spec.model import KernelSpec
from pretuned.spec.parts import Presence
from pretuned.spec.reserved import RESERVED
from pretuned.spec.templates import HELPERS

PathFault = tuple[str, str]  # path, message

# Names of expressions, of templates, and keywords that every generated function has.
_TAKEN: Final = frozenset(
    {"device", "true", "false", "out", "stream", "loop", "self", "Integer", *FUNCTIONS, *HELPERS, *DTYPES}
)


def name_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield the faults of names: the kernel's, and those that dims, specialisations and parameters share."""
    named, what = ("its name", "it") if spec.declared else ("its file's name", "the file")
    if not _is_name(spec.name):
        yield "", f"'{spec.name}' is not a Python name, and a kernel becomes a function of {named}; rename {what}"
    elif spec.name in RESERVED:
        yield "", f"a kernel cannot be named '{spec.name}': every generated package has that name; rename {what}"
    seen: dict[str, str] = {}
    for kind, table in (("dims", spec.dims), ("specialisations", spec.specialisations)):
        for name in table:
            yield from identifier(f"{kind}.{name}", name)
            if name in seen and not isinstance(table[name], Presence):
                yield f"{kind}.{name}", f"'{name}' is already the name of one of the {seen[name]}; rename one"
            seen[name] = kind
    for name, implementation in spec.all_implementations.items():
        prefix = f"implementations.{name}.space" if spec.implementations else "space"
        for parameter in sorted(space.parameters(implementation)):
            yield from identifier(f"{prefix}.{parameter}", parameter)
            if parameter in seen:
                message = f"'{parameter}' is already the name of one of the {seen[parameter]}; rename one"
                yield f"{prefix}.{parameter}", message


def _is_name(name: str) -> bool:
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name) and not name.startswith("_")


def identifier(path: str, name: str, *, allowed: Iterable[str] = ()) -> Iterator[PathFault]:
    """Yield the faults of a name that expressions, templates or calls use; `allowed` are taken ones that may stand."""
    if not _is_name(name):
        yield path, f"'{name}' cannot be a name: use a letter, then letters, digits and '_', and no Python keyword"
    elif name in _TAKEN.difference(allowed):
        yield path, f"'{name}' has a meaning of its own in expressions, templates or calls; use another name"


def parameters(spec: KernelSpec) -> frozenset[str]:
    """Return the names of all tuning parameters, over all implementations."""
    return frozenset().union(
        *(space.parameters(implementation) for implementation in spec.all_implementations.values())
    )


def by_value(spec: KernelSpec) -> frozenset[str]:
    """Return the names of the specialisations over values."""
    return frozenset(name for name, choice in spec.specialisations.items() if choice.values is not None)


def types(spec: KernelSpec) -> frozenset[str]:
    """Return the names that stand for an element type: types, and specialisations over them."""
    return frozenset(DTYPES) | {name for name, choice in spec.specialisations.items() if choice.values is None}


def dtype_faults(path: str, name: str, spec: KernelSpec) -> Iterator[PathFault]:
    """Yield a fault unless `name` is an element type or a specialisation over them."""
    if name in types(spec):
        return
    if name in spec.structs:
        yield path, f"'{name}' is a struct, which is passed by value; the elements of an array are numbers"
    elif name in spec.specialisations:
        yield path, f"'{name}' is a specialisation over values; a dtype is a type or a specialisation with `dtypes`"
    else:
        yield path, unknown_dtype(name, types(spec))


def expression_faults(
    spec: KernelSpec,
    path: str,
    expression: Expression,
    values: Iterable[str],
    *,
    device: bool = False,
    residency: bool = False,
) -> Iterator[PathFault]:
    """Yield a fault for each name of `expression` that is neither among `values` nor a type inside `sizeof`.

    `device` says whether the attributes of the device have values here, `residency` whether a launch's own has.
    """
    kinds = types(spec)
    attributes = (DEVICE_ATTRIBUTES if device else set()) - (set() if residency else {RESIDENT_BLOCKS})
    known = (set(values) | attributes) - kinds
    for name in sorted(expression.type_names - kinds):
        yield path, f"sizeof({name}) in {expression.quoted}: '{name}' is not a type{closest(name, kinds)}"
    for name in sorted(expression.value_names - known):
        if name in kinds:
            yield path, f"'{name}' is a type; only sizeof({name}) has a value"
        elif name == RESIDENT_BLOCKS:
            yield path, f"'{name}' has no value here; only the grid of a launch may read it, whose blocks it counts"
        elif name in DEVICE_ATTRIBUTES:
            yield path, f"'{name}' has no value here; only grid, block, shared, scratch shapes and `where` may read it"
        elif name not in spec.let:  # whose definition has a fault of its own
            yield path, f"unknown name '{name}' in {expression.quoted}{closest(name, known | spec.let.keys())}"
    yield from comparison_faults(spec, path, expression, known)
