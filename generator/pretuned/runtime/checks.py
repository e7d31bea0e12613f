"""From arrays to a problem: types and dims are read off the arrays, and everything else is held against them."""

from __future__ import annotations

import math
import operator

from .adapters import on_gpu
from .errors import ArgumentError, ArgumentTypeError, qualified
from .expressions import operands
from .lists import BEYOND, extents, note, surroundings
from .problem import CalledProblem, evaluate, holds, read_by
from .remedies import ANEW, instead
from .strides import strides_of
from .table import PACKAGE, sizeof
from .text import no_such, shown
from .types import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence
    from typing import Any

    from .adapters import ArrayView
    from .devices import Device
    from .problem import Operands
    from .records import Value, Values
    from .table import Array, Kernel


def problem(
    kernel: Kernel, views: Sequence[ArrayView | None], keywords: Mapping[str, Value], device: Device
) -> CalledProblem:
    """Return the problem of a call; raises what is wrong with it."""
    arrays = kernel.arrays
    given = {array.name: view for array, view in zip(arrays, views, strict=True) if view is not None}
    types = read_types(kernel, given)
    demand_ranks(kernel, arrays, given, types, device)
    dims = {
        name: read_dim(kernel, name, place, given) if place else keywords[name] for name, place in kernel.dims.items()
    }
    specialisation = specialise(kernel, {**types, **dims, **keywords}, given)
    values: Values = {**specialisation, **follow(kernel, specialisation), **dims}
    found = CalledProblem(kernel, device, specialisation, values)
    if kernel.lists:
        note(kernel, given, found.operands)
    found.shapes = _shapes(kernel, arrays, given, found.operands)
    demand_dtypes(kernel, arrays, given, values)
    for array in arrays if kernel.strides else ():
        shape = found.shapes.get(array.name) or output_shape(kernel, array, found.operands)
        found.lie(strides_of(kernel, array, shape, given.get(array.name)))
    _addresses(kernel, given, found.operands)
    admit(kernel, found)
    return found


def read_dim(kernel: Kernel, name: str, place: tuple[Any, ...], given: Mapping[str, ArrayView]) -> int:
    """Return a dim by the extent that gives it."""
    argument, axis, *solved = place
    if argument.endswith("[]"):
        return sum(extents(place, given))
    if argument not in given:
        raise ArgumentTypeError(
            f"{qualified(kernel.name)}: {argument}: expected an array, whose shape gives {name}, found None"
        )
    size: int = given[argument].shape[axis]
    if not solved:
        return size
    offset: int
    factor, offset, extent = solved
    rest = size - offset
    if rest >= 0 and rest % factor == 0:
        solution: int = rest // factor  # or a size of torch.compile, which stays open
        return solution
    beyond = offset % factor
    wanted = f"a multiple of {factor}" if not beyond else f"{beyond} more than a multiple of {factor}"
    least = f"at least {offset}" if size < offset else wanted
    raise ArgumentError(
        f"{qualified(kernel.name)}: {argument}: expected {extent} elements along axis {axis}, {least}, "
        f"found {size}: {given[argument].shape}"
    )


def follow(kernel: Kernel, specialisation: Values) -> Values:
    """Return the types that follow from others."""
    return {name: types[str(specialisation[source])] for name, (source, types) in kernel.follows.items()}


def specialise(kernel: Kernel, values: Values, given: Container[str] = ()) -> Values:
    """Return the shipped specialisation that `values` name; raises ArgumentError that lists what is shipped.

    `given` are the arrays of a call, which the error names where their shapes say what does not ship.
    """
    wanted = {name: values[name] for name in kernel.specialisation_names}
    try:
        return kernel.shipments[tuple(wanted.values())].specialisation
    except (KeyError, TypeError):  # what `explain` is asked need not have a hash
        shipped = dict.fromkeys(_pairs(one.specialisation) for one in kernel.shipped)
    found = ", ".join(f"{name}={value}{_of(kernel, given, name)}" for name, value in sorted(wanted.items()))
    raise ArgumentError(f"{qualified(kernel.name)}: not shipped for {found}; shipped are {'; '.join(shipped)}")


def admit(kernel: Kernel, found: CalledProblem) -> None:
    """Check the dims against what the kernel requires and against the types that they are passed as."""
    for text, condition in kernel.requires:
        if not holds(condition, found.operands):
            names = [name for name in read_by(condition) if name in found.values]
            values = ", ".join(f"{name}={found.values[name]}{_of(kernel, found.shapes, name)}" for name in names)
            raise ArgumentError(f"{qualified(kernel.name)}: requires {text}, found {values}")
    for argument, least, most in kernel.limits:
        value = found.values[argument.each or argument.name]
        if not least <= int(value) <= most:
            where = f"{qualified(kernel.name)}: {argument.name}{_of(kernel, found.shapes, argument.name)}"
            raise ArgumentError(f"{where}: expected at most {most} ({argument.dtype}), found {value}")


def _of(kernel: Kernel, given: Container[str], name: str) -> str:
    """Return ` of x` for a dim or a stride that a call's array gives."""
    place = kernel.dims.get(name)
    owners = [place[0]] if place else [array.name for array in kernel.arrays if name in array.strides]
    return "".join(f" of {owner}" for owner in owners if owner in given)


def keyword_values(kernel: Kernel, values: Sequence[Value]) -> dict[str, Value]:
    """Return the keywords by name, each as the value of the spec that it equals."""
    found: dict[str, Value] = {}
    for (name, allowed), value in zip(kernel.keywords.items(), values, strict=True):
        if not allowed:
            found[name] = _size(kernel, name, value)
            continue
        try:
            found[name] = {one: one for one in reversed(allowed)}[value]
        except (KeyError, TypeError):  # arrays and the like have no hash, and are not to be compared
            listed = ", ".join(map(repr, allowed))
            raise ArgumentError(
                f"{qualified(kernel.name)}: {name}: expected one of {listed}, found {_described(value)}"
            ) from None
    return found


def _size(kernel: Kernel, name: str, value: Any) -> int:  # noqa: ANN401 - whatever a call passes
    """Return the size that a keyword gives: an integer of Python or NumPy, from 0 on."""
    try:
        size: int = -1 if isinstance(value, bool) or on_gpu(value) else operator.index(value)
    except TypeError:
        size = -1
    if size < 0:
        raise ArgumentError(
            f"{qualified(kernel.name)}: {name}: expected an integer from 0 on, found {_described(value)}"
        )
    return size


def _described(value: object) -> str:
    return "an array on the GPU" if on_gpu(value) else shown(value)


def _pairs(values: Values) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(values.items())) or "no specialisation"


def read_types(kernel: Kernel, given: Mapping[str, ArrayView]) -> Values:
    """Return each type specialisation as the first input of that type has it."""
    types: Values = {}
    for name, argument, shipped in kernel.typed:
        found = given[argument].dtype
        types[name] = found
        if found not in shipped:
            raise ArgumentTypeError(
                f"{qualified(kernel.name)}: {argument}: expected dtype {' or '.join(shipped)}, found {found}"
                f"{_unnamed(shipped, found)}"
            )
    return types


def _unnamed(wanted: Sequence[str], found: str) -> str:
    """Return the remedy where an array's interface may not have a name for the type that is wanted."""
    if found[0] not in "<>=|" or all(DTYPES[name].typestr for name in wanted):
        return ""
    return "; __cuda_array_interface__ cannot name this type: pass an array of PyTorch, or of CuPy with ml_dtypes"


def demand_ranks(
    kernel: Kernel, arrays: Sequence[Array], given: Mapping[str, ArrayView], types: Values, device: Device
) -> None:
    """Check the number of dimensions, before any is read off."""
    for array in arrays:
        if array.name in given:
            found = len(given[array.name].shape)
            wanted = array.rank
            if wanted is None:
                wanted = _rank(kernel, array, types, device, found)
            if wanted != found:
                several = "" if wanted == 1 else "s"
                raise ArgumentError(
                    f"{qualified(kernel.name)}: {array.name}: expected {wanted} dimension{several} {array.text}, "
                    f"found {found}: {given[array.name].shape}"
                )


def _rank(kernel: Kernel, array: Array, types: Values, device: Device, found: int) -> int:
    """Return the number of dimensions that an array has to have, which is noted once it is known."""
    keywords = {name: allowed[0] for name, allowed in kernel.keywords.items() if allowed}
    probe: Values = {**types, **keywords, **dict.fromkeys(kernel.dims, 1)}
    try:
        several: Any = evaluate(array.shape, {**operands(probe), "device": device})
    except ArithmeticError:  # no value where all dims are 1: dims need their axes, and no more
        return max(found, *(int(place[1]) + 1 for place in kernel.dims.values() if array.name in place[:1]), 0)
    array.rank = len(several)
    return array.rank


def _shapes(
    kernel: Kernel, arrays: Sequence[Array], given: Mapping[str, ArrayView], known: Operands
) -> dict[str, tuple[int, ...]]:
    """Check the shapes, and return them by argument."""
    shapes = {}
    for array in arrays:
        if array.name in given:
            wanted, found = output_shape(kernel, array, known), given[array.name].shape
            if wanted != found:
                raise ArgumentError(
                    f"{qualified(kernel.name)}: {array.name}: expected shape {array.text} = {wanted}, found {found}"
                )
            shapes[array.name] = wanted
    return shapes


def demand_dtypes(kernel: Kernel, arrays: Sequence[Array], given: Mapping[str, ArrayView], values: Values) -> None:
    """Check the dtypes."""
    for array in arrays:
        if array.name in given:
            wanted, found = values.get(array.dtype, array.dtype), given[array.name].dtype
            if wanted != found:
                named = f" ({array.dtype})" if array.dtype in values else ""
                raise ArgumentTypeError(
                    f"{qualified(kernel.name)}: {array.name}: expected dtype {wanted}{named}, found {found}"
                    f"{_unnamed([str(wanted)], found)}"
                )


def _addresses(kernel: Kernel, given: Mapping[str, ArrayView], known: Operands) -> None:
    arrays = {array.name: array for array in kernel.arrays}
    for name, view in given.items():
        size = DTYPES[view.dtype].size_bytes
        if beyond := view.address % size:
            raise ArgumentError(
                f"{qualified(kernel.name)}: {name}: expected an address that is a multiple of {size} bytes "
                f"({view.dtype}), found one {_beyond(beyond)}; {instead(kernel, arrays[name], view, ANEW)}"
            )

    for whole, text, formula in kernel.addresses:
        for name, view in given.items():
            if name.partition("[")[0] == whole and (beyond := view.address % evaluate(formula, known)):
                raise ArgumentError(
                    f"{qualified(kernel.name)}: {name}: requires {text}, found an address {_beyond(beyond)} a "
                    f"multiple; {instead(kernel, arrays[name], view, ANEW)}"
                )


def _beyond(count: int) -> str:
    return "1 byte beyond" if count == 1 else f"{count} bytes beyond"


def modulus(kernel: Kernel, array: Array) -> int:
    """Return the bytes of alignment that distinguish the addresses of an array: its elements', or what is asked."""
    name = array.whole or array.name
    guards = [one.align.get(name, 1) for one in kernel.shipped]
    formulas = [formula for demanded, _, formula in kernel.addresses if demanded == name]
    own = [one.specialisation | follow(kernel, one.specialisation) for one in kernel.shipped] if formulas else []
    asked = [int(evaluate(formula, operands(values))) for formula in formulas for values in own]
    return math.lcm(*guards, *map(sizeof, types_of(kernel, array.dtype)), *asked)


def types_of(kernel: Kernel, dtype: str) -> set[str]:
    """Return the element types that a dtype, which may be a specialisation's name, stands for in what ships."""
    own = [one.specialisation for one in kernel.shipped]
    return {str((values | follow(kernel, values)).get(dtype, dtype)) for values in own}


def output_shape(kernel: Kernel, array: Array, known: Operands) -> tuple[int, ...]:
    """Return the shape that an array has by the problem's operands; BEYOND for one that a list does not have."""
    surrounded = surroundings(array, known) if array.count else known
    if surrounded is None:
        return BEYOND
    try:
        several: Any = evaluate(array.shape, surrounded)
    except ArithmeticError as error:
        raise ArgumentError(
            f"{qualified(kernel.name)}: {array.name}: its shape {array.text} has no value for this call: {error}"
        ) from None
    return tuple([int(size) if size > 0 else 0 for size in several])


def stated(kernel: Kernel, given: Values, device: Device) -> CalledProblem:
    """Return a problem given in words, for `explain`.

    Every dim needs a size; a type or keyword with one shipped value may be left out. Arrays are contiguous but for the
    strides that are given.
    """
    names = [*kernel.dims, *(name for name in kernel.specialisation_names if name not in kernel.dims)]
    for name in given:
        if name not in names and name not in kernel.strides:
            unknown = no_such("dim or specialisation", name, names, of=f"{PACKAGE}.{kernel.name}")
            raise ArgumentTypeError(unknown)
    values: Values = dict(given)
    for name in names:
        specialised = name in kernel.specialisation_names
        shipped = sorted({one.specialisation[name] for one in kernel.shipped}) if specialised else []
        if name not in values and len(shipped) == 1:
            values[name] = shipped[0]
        elif name not in values:
            choices = f" ({' or '.join(map(str, shipped))})" if shipped else ""
            raise ArgumentTypeError(f"{PACKAGE}.{kernel.name}: explain needs {name}=...{choices}")
        if name in kernel.dims and (type(values[name]) is not int or int(values[name]) < 0):
            raise ArgumentTypeError(f"{PACKAGE}.{kernel.name}: {name}: expected a size, found {values[name]!r}")
    specialisation = specialise(kernel, values)
    found = CalledProblem(kernel, device, specialisation, values | specialisation | follow(kernel, specialisation))
    for array in kernel.arrays if kernel.strides else ():
        found.lie(_stated_strides(kernel, array, output_shape(kernel, array, found.operands), given))
    return found


def _stated_strides(kernel: Kernel, array: Array, shape: Sequence[int], given: Values) -> dict[str, int]:
    """Return the named strides of an array as `explain` is told them, or else of a contiguous one."""
    found: dict[str, int] = {}
    row = side_by_side = math.prod(shape[len(array.strides) :])
    for axis in reversed(range(len(array.strides))):
        name = array.strides[axis]
        stride: Any = given.get(name, side_by_side)
        if type(stride) is not int or stride < row:
            raise ArgumentTypeError(
                f"{PACKAGE}.{kernel.name}: {name}: expected at least {row} elements, found {stride!r}"
            )
        found[name] = stride if shape[axis] > 1 else side_by_side  # as in a call
        row += (max(1, shape[axis]) - 1) * found[name]
        side_by_side = shape[axis] * found[name]
    return found
