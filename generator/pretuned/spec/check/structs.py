"""[structs]: their fields, and what tuning passes for an argument that is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pretuned.config.toml import spelled
from pretuned.runtime.text import closest
from pretuned.runtime.types import DTYPES
from pretuned.spec import space
from pretuned.spec.check.dtypes import unknown_dtype
from pretuned.spec.check.names import PathFault, by_value, expression_faults, identifier
from pretuned.spec.expressions import Expression
from pretuned.spec.lists import table_of
from pretuned.spec.model import Argument, KernelSpec
from pretuned.spec.scalars import holds
from pretuned.spec.space import dtypes_of
from pretuned.spec.structs import field_of, layouts

PASSED_BYTES: Final = 4096  # that all arguments of a launch take together (CUDA C++ Programming Guide, `__global__`)
POINTER_BYTES: Final = 8

# C++17's keywords and alternative operators, but those of Python, which no name may be (ISO/IEC 14882:2017, 5.11).
CPP_WORDS: Final = frozenset(
    """
    alignas alignof and_eq asm auto bitand bitor bool case catch char char16_t char32_t compl const const_cast constexpr
    decltype default delete do double dynamic_cast enum explicit export extern false float friend goto inline int long
    mutable namespace new noexcept not_eq nullptr operator or_eq private protected public register reinterpret_cast
    short signed sizeof static static_assert static_cast struct switch template this thread_local throw true typedef
    typeid typename union unsigned using virtual void volatile wchar_t xor xor_eq
    """.split()  # noqa: SIM905 - as a list it takes a line a word
)


def struct_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield the faults of [structs]."""
    taken = {*spec.dims, *spec.specialisations, *spec.let, *(argument.name for argument in spec.arguments)}
    for implementation in spec.all_implementations.values():
        taken |= space.parameters(implementation)
    for name, fields in spec.structs.items():
        path = f"structs.{name}"
        yield from _declarable(path, name)
        if name in taken:
            yield path, f"'{name}' is already the name of something else of the spec; rename one"
        if not fields:
            yield path, 'is empty; write its fields, as in `{ n = "int32", strides = "int64[4]" }`'
        for field, text in fields.items():
            yield from _declarable(f"{path}.{field}", field)
            yield from _field(f"{path}.{field}", text)
        if not any(argument.dtype == name for argument in spec.arguments):
            yield path, f'no argument is passed one; give an argument `dtype = "{name}"`, or remove it'


def _declarable(path: str, name: str) -> Iterator[PathFault]:
    if name in CPP_WORDS:
        yield path, f"'{name}' is a word of C++, where the template declares the struct; use another name"
    else:
        yield from identifier(path, name)


def _field(path: str, text: str) -> Iterator[PathFault]:
    held = field_of(text)
    if held is None:
        yield path, f'expected a type, or an array as in "int64[4]", found {spelled(text)}'
    elif held[0] not in DTYPES:
        yield path, unknown_dtype(held[0])
    elif DTYPES[held[0]].parts > 1:
        yield path, f"a field cannot be {held[0]}; write its parts as two of {DTYPES[held[0]].part}"


def struct_argument_faults(spec: KernelSpec, path: str, argument: Argument) -> Iterator[PathFault]:
    """Yield the faults of an argument whose dtype is a struct."""
    name, value = argument.dtype, argument.value
    if argument.default is not None:
        yield f"{path}.default", "a struct has no default; leave it out"
    if argument.name in {*spec.dims, *spec.specialisations, *spec.let, *spec.stride_names}:
        kinds = "a dim, a stride, a specialisation or a derived name"
        message = f"'{argument.name}' is also {kinds}, which are numbers; rename one"
        yield f"{path}.name", message
        return
    if any(held is None or held[0] not in DTYPES for held in map(field_of, spec.structs[name].values())):
        return  # which is reported
    if not isinstance(value, dict):
        written = ", ".join(f"{field} = ..." for field in spec.structs[name])
        yield f"{path}.value", f"a struct needs the value of each field that tuning passes: `value = {{ {written} }}`"
        return
    fields = {field: (dtype, count) for field, dtype, count in layouts(spec)[name].fields}
    for field in value:
        if field not in fields:
            hint = closest(field, fields) or f"; it has {', '.join(fields)}"
            yield f"{path}.value.{field}", f"{name} has no field '{field}'{hint}"
    for field, (dtype, count) in fields.items():
        if field not in value:
            yield f"{path}.value", f"says nothing for '{field}'; add `{field} = ...`"
        else:
            yield from _value(spec, f"{path}.value.{field}", dtype, count, value[field])


def _value(spec: KernelSpec, path: str, dtype: str, count: int, value: object) -> Iterator[PathFault]:
    several = value if isinstance(value, tuple) else (value,)
    if isinstance(value, tuple) != bool(count) or (count and len(several) != count):
        found = f"{len(several)}" if isinstance(value, tuple) else "one that is no list"
        yield path, f"expected {f'a list of {count} of {dtype}' if count else f'one {dtype}'}, found {found}"
        return
    for one in several:
        if isinstance(one, Expression):
            yield from expression_faults(spec, path, one, {*spec.dims, *by_value(spec)})
        elif not holds(dtype, one):
            yield path, f"{spelled(one)} is not a value of {dtype}"


def passed_size_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield the launches that are passed more than CUDA passes; of a spec that is sound otherwise."""
    structs = layouts(spec)
    sizes = {
        argument.name: structs[argument.dtype].size_bytes if argument.dtype in structs else POINTER_BYTES
        for argument in spec.arguments
    }
    for one in spec.arguments:
        if one.role is None and one.dtype not in structs:
            sizes[one.name] = max(POINTER_BYTES, *(DTYPES[dtype].size_bytes for dtype in dtypes_of(spec, one.dtype)))
        if one.each or one in spec.lists:
            sizes[one.name] = table_of(one, dtypes_of(spec, one.dtype)[0]).size_bytes
    if (total := sum(sizes.values())) > PASSED_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        listed = any(one.name == largest for one in spec.lists)
        remedy = f"give '{largest}' a lesser `most`" if listed else f"pass '{largest}' as an array"
        yield "arguments", f"take {total} bytes together, and CUDA passes {PASSED_BYTES}; {remedy}"
