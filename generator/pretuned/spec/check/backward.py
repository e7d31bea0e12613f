"""Kernels with the kernels of their gradients: whether calls of the one can be followed by calls of the other.

These rules relate two specs, and are tested where all specs of a folder are sound. Shapes are compared by numbers: what
two kernels call their dims is theirs, so that the sizes of one are read off the arrays that it would be passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from pretuned.errors import Fault
from pretuned.runtime.records import Value
from pretuned.runtime.text import closest, no_such, spelled
from pretuned.runtime.types import DTYPES
from pretuned.spec import space
from pretuned.spec.backward import GRADIENT, backward_of, keywords, meaning, numbers, target, word_of
from pretuned.spec.check.names import PathFault
from pretuned.spec.expressions import ExpressionError
from pretuned.spec.model import Argument, KernelSpec
from pretuned.spec.places import linear, telling_outputs
from pretuned.spec.space import Pairs, Problem, pairs

_WIDTH: Final = ("bool", "uint", "int", "float", "complex")  # each kind of number stands for those before it
_PRIMES: Final = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)
_UNIT: Final = 5040  # which divides by whatever shapes divide by, so that no two dims have one size and all are even
_PROBLEMS: Final = 100  # at which shapes are compared, where a kernel takes no drawn sizes

Counterpart = tuple[
    Argument, Argument
]  # an array of the gradient's kernel, and the one that it is, or is the gradient of


def backward_faults(specs: Mapping[str, KernelSpec], *, whole: bool) -> Iterator[Fault]:
    """Yield what is wrong with the pairs of a package; without `whole`, `specs` are not all of its kernels."""
    for spec in specs.values():
        if spec.backward is None:
            continue
        other = specs.get(spec.backward.kernel)
        if other is not None:
            yield from (Fault(file=spec.file, path=path, message=message) for path, message in _pair(spec, other))
        elif whole:
            message = no_such("kernel", spec.backward.kernel, specs.keys() - {spec.name})
            yield Fault(file=spec.file, path="backward.kernel", message=message)


def _pair(spec: KernelSpec, other: KernelSpec) -> list[PathFault]:
    assert spec.backward is not None  # which the caller has seen
    if other is spec and not spec.backward.names:
        remedy = "name another, or say by `names` what its own arguments are then: names = { x = 'grad_y' }"
        return [("backward.kernel", f"is this kernel itself, and its arguments are not gradients; {remedy}")]
    faults = list(_form_faults(spec, other)) or list(_name_faults(spec, other))
    faults = faults or [*_input_faults(spec, other), *_output_faults(spec, other), *_number_faults(spec, other)]
    faults = faults or list(_type_faults(spec, other))
    return faults or list(_shape_faults(spec, other))


def _form_faults(spec: KernelSpec, other: KernelSpec) -> Iterator[PathFault]:
    """Yield the forms of arrays that have no gradient, or that what autograd passes cannot have."""
    for one in spec.whole(spec.arrays):
        if one.count is not None:
            yield "backward", f"'{one.name}' is a list of arrays, and lists have no gradients; leave [backward] out"
        elif one.role == "inout":
            message = f"'{one.name}' is changed in place, and its gradient may need what it was"
            yield "backward", f"{message}; write an output of its own, or leave [backward] out"
    for one in other.whole(other.arrays) if other is not spec else ():
        if one.count is not None:
            yield "backward.kernel", f"'{one.name}' of {other.name} is a list of arrays, and gradients are single ones"
        elif one.role == "inout":
            message = f"'{one.name}' of {other.name} is changed in place, and what it is passed belongs to others"
            yield "backward.kernel", f"{message}; make it an output"
    for kernel, path in {spec.name: (spec, "backward"), other.name: (other, "backward.kernel")}.values():
        for name, dims in telling_outputs(kernel).items():
            message = f"only the output '{name}' of {kernel.name} gives '{dims[0]}', and it is allocated here"
            yield path, f"{message}; give '{dims[0]}' by an input or a keyword"


def _name_faults(spec: KernelSpec, other: KernelSpec) -> Iterator[PathFault]:
    """Yield the entries of `names` that name no argument."""
    known = {*(one.name for one in other.arrays), *numbers(other)}
    for name in spec.backward.names if spec.backward else ():
        if name not in known:
            yield f"backward.names.{name}", no_such("array or number", name, known, of=other.name)


def _place(spec: KernelSpec, name: str) -> str:
    """Return the path of what says what an argument of the gradient's kernel is."""
    return f"backward.names.{name}" if spec.backward and name in spec.backward.names else "backward.kernel"


def _said(spec: KernelSpec, other: KernelSpec, name: str) -> str:
    """Return an argument of the gradient's kernel as messages name it."""
    word = word_of(spec, name)
    return f"'{name}' of {other.name}" if word == name else f"'{word}', which is '{name}' of {other.name},"


def _remedy(spec: KernelSpec, name: str, known: list[str]) -> str:
    """Return what to write for an argument that is nothing known."""
    if near := closest(word_of(spec, name), known):
        return near
    return "; say in `names` which it is: " + (", ".join(known) if known else "there is none")


def _input_faults(spec: KernelSpec, other: KernelSpec) -> Iterator[PathFault]:
    """Yield the inputs of the gradient's kernel that are nothing known or may be absent; or that none is one."""
    gradients = [GRADIENT + one.name for one in spec.outputs]
    known = [*(one.name for one in (*spec.inputs, *spec.outputs)), *gradients]
    given = set[bool]()
    for one in other.inputs:
        found = meaning(spec, word_of(spec, one.name))
        gradient = word_of(spec, one.name) in gradients
        given.add(found is None or gradient)
        place, said = _place(spec, one.name), _said(spec, other, one.name)
        if found is None:
            message = f"{said} is neither an array of {spec.name} nor the gradient of an output"
            yield place, f"{message}{_remedy(spec, one.name, known)}"
        elif gradient and found[0] != "gradient":
            message = f"'{word_of(spec, one.name)}' is an array of {spec.name} and the gradient of an output"
            yield place, f"{message}; rename the array"
        elif found[0] == "input" and spec.inputs[found[1]].optional and not one.optional:
            message = f"calls of {spec.name} may leave '{spec.inputs[found[1]].name}' out, and {other.name} demands it"
            yield place, f"{message}; write `optional = true` there"
    if not any(given):
        message = f"{other.name} takes the gradient of no output of {spec.name}"
        yield "backward.kernel", f"{message}; give it an input '{gradients[0]}'"


def _output_faults(spec: KernelSpec, other: KernelSpec) -> Iterator[PathFault]:
    """Yield the outputs of the gradient's kernel that are no gradient of an input, or another one's."""
    known, seen = [GRADIENT + one.name for one in spec.inputs], dict[int, str]()
    for one in other.outputs:
        found, place = target(spec, word_of(spec, one.name)), _place(spec, one.name)
        if found is None:
            message = f"{_said(spec, other, one.name)} is not the gradient of an input of {spec.name}"
            yield place, f"{message}{_remedy(spec, one.name, known)}"
        elif found in seen:
            message = f"'{seen[found]}' and '{one.name}' of {other.name} are both the gradient of '{known[found][5:]}'"
            yield place, f"{message}; leave one of them out"
        else:
            seen[found] = one.name


def _number_faults(spec: KernelSpec, other: KernelSpec) -> Iterator[PathFault]:
    """Yield the numbers and keywords of the gradient's kernel that calls do not have, or have otherwise."""
    own = {one.name: one for one in spec.scalars}
    for one in other.scalars:
        word = word_of(spec, one.name)
        if word in own:
            if not _holds(other, one, spec, own[word]):
                types = f"{one.dtype} there, and {own[word].dtype} here"
                yield _place(spec, one.name), f"'{one.name}' of {other.name} is {types}; give both one type"
        elif one.default is None and word not in keywords(spec):
            yield _place(spec, one.name), f"{_no_number(spec, other, one.name)}; or give it a `default`"
    for name in keywords(other):
        word = word_of(spec, name)
        if word not in numbers(spec):
            yield _place(spec, name), _no_number(spec, other, name)
            continue
        taken, given = (
            kernel.specialisations[key].values if key in kernel.specialisations else None
            for kernel, key in ((other, name), (spec, word))
        )
        if taken is not None and (lacking := sorted(set(given or ()) - set(taken), key=repr) or given is None):
            values = ", ".join(map(spelled, lacking)) if isinstance(lacking, list) else "any number"
            message = f"'{name}' of {other.name} may be {', '.join(map(spelled, taken))}, and '{word}' here {values}"
            yield _place(spec, name), f"{message} too; give both the same values"


def _no_number(spec: KernelSpec, other: KernelSpec, name: str) -> str:
    message = f"{_said(spec, other, name)} is not a number or keyword of {spec.name}"
    return f"{message}{_remedy(spec, name, numbers(spec))}"


def _holds(other: KernelSpec, one: Argument, spec: KernelSpec, own: Argument) -> bool:
    """Return whether a number of the gradient's kernel may hold what the forward kernel is passed."""
    there, here = (
        [_WIDTH.index(DTYPES[dtype].kind) for dtype in space.dtypes_of(kernel, argument.dtype)]
        for kernel, argument in ((other, one), (spec, own))
    )
    if not there or not here:  # a struct
        return other.structs.get(one.dtype) == spec.structs.get(own.dtype)
    return max(there) >= min(here)


def _matches(spec: KernelSpec, other: KernelSpec) -> tuple[list[Counterpart], list[Counterpart]]:
    """Return the inputs and the outputs of the gradient's kernel with what they are, or are gradients of."""
    pair = backward_of(spec, other)
    inputs = [(spec.inputs if kind == "input" else spec.outputs)[index] for _, kind, index in pair.inputs]
    outputs = [spec.inputs[index] for _, index in pair.outputs]
    return list(zip(other.inputs, inputs, strict=True)), list(zip(other.outputs, outputs, strict=True))


def _types(spec: KernelSpec) -> list[dict[str, str]]:
    """Return the types that a kernel's arrays may have together, by the arrays' names."""
    found = ({one.name: space.dtype_of(spec, one.dtype, s) for one in spec.arrays} for s in space.specialisations(spec))
    return [dict(types) for types in dict.fromkeys(tuple(one.items()) for one in found)]


def _type_faults(spec: KernelSpec, other: KernelSpec) -> Iterator[PathFault]:
    """Yield the first types of a call with which the gradient's kernel cannot be called, or has another's gradient."""
    inputs, outputs = _matches(spec, other)
    takes = _types(other)
    gradients = [spec.outputs[index] for _, kind, index in backward_of(spec, other).inputs if kind == "gradient"]
    for types in _types(spec):
        for own in (*gradients, *(own for _, own in outputs)):
            if not DTYPES[types[own.name]].floating:
                yield "backward", f"'{own.name}' is {types[own.name]}, and only floating types have gradients"
                return
        fit = takes
        for one, own in (*inputs, *outputs):
            left = [there for there in fit if there[one.name] == types[own.name]]
            if not left:
                may_be = " or ".join(sorted({there[one.name] for there in fit}))
                message = f"'{one.name}' of {other.name} is {may_be} where '{own.name}' of {spec.name}"
                yield _place(spec, one.name), f"{message} is {types[own.name]}; give both kernels the same types"
                return
            fit = left


def _shape_faults(spec: KernelSpec, other: KernelSpec) -> Iterator[PathFault]:
    """Yield the arrays that have another shape than what they are, or are gradients of, at whatever sizes."""
    inputs, outputs = _matches(spec, other)
    for one, own in inputs:
        if own.leading is not None and one.leading is None:
            message = f"'{own.name}' of {spec.name} has any number of leading dims, '{one.name}' of {other.name} not"
            yield _place(spec, one.name), f'{message}; write `"{own.leading}"` there too'
            return
    if faults := list(_constant_faults(spec, other, inputs)):
        yield faults[0]
        return
    compared = [_different(spec, other, inputs, outputs, problem) for problem in _drawn(spec)]
    if compared and all(compared) and compared[0] is not None:
        one, own, said = compared[0]
        there, here = (_tuple(argument.shape or ()) for argument in (one, own))
        message = f"'{one.name}' of {other.name} has the shape {there}, and '{own.name}' of {spec.name} {here}"
        yield _place(spec, one.name), f"{message}{said}; give both the same shape"


def _constant_faults(spec: KernelSpec, other: KernelSpec, inputs: list[Counterpart]) -> Iterator[PathFault]:
    """Yield the dims that are constant in both kernels, and of which the gradient's has not all sizes."""
    for one, own in inputs:
        for there, here in zip(one.shape or (), own.shape or (), strict=False):
            taken, given = other.constant_dims.get(there.python), spec.constant_dims.get(here.python)
            if taken is None or given is None:
                continue
            if lacking := sorted(set(given.values or ()) - set(taken.values or ())):
                known, more = (", ".join(map(str, sizes)) for sizes in (taken.values or (), lacking))
                message = f"'{there}' of {other.name} may be {known}, and '{here}' here {more} too"
                yield _place(spec, one.name), f"{message}; give both the same values"


def _drawn(spec: KernelSpec) -> list[Problem]:
    """Return problems with sizes of which no two are the same, or, where a kernel takes none of these, its own."""
    dims = dict(zip(spec.free_dims, (_UNIT * prime for prime in _PRIMES), strict=False))
    found = [Problem(specialisation=one, dims=pairs(dims)) for one in islice(space.specialisations(spec), _PROBLEMS)]
    admitted = [one for one in found if len(one.dims) == len(spec.free_dims) and space.admitted(spec, one)]
    return admitted or list(islice(space.all_problems(spec), _PROBLEMS))


def _different(
    spec: KernelSpec, other: KernelSpec, inputs: list[Counterpart], outputs: list[Counterpart], problem: Problem
) -> tuple[Argument, Argument, str] | None:
    """Return the first array with another shape than what it stands for, with both shapes in words; None without."""
    values = space.environment(spec, problem)
    known = _known(spec, other, values)
    try:
        wanted = [(one, own, space.shape_of(own, values)) for one, own in (*inputs, *outputs)]
        for one, own, shape in wanted:
            extents = one.shape or ()
            if len(extents) != len(shape):
                return one, own, ""
            for extent, size in zip(extents, shape, strict=True):
                solved = linear(extent)
                if solved is not None and (size - solved[2]) % solved[1] == 0:
                    known.setdefault(solved[0], (size - solved[2]) // solved[1])
            if (given := space.shape_of(one, known)) != shape:
                return one, own, f", as in {_tuple(given)} and {_tuple(shape)}"
    except ExpressionError:
        pass  # of what has no value at these sizes nothing can be said
    return None


def _known(spec: KernelSpec, other: KernelSpec, values: Mapping[str, Value]) -> dict[str, Value]:
    """Return what a call of the gradient's kernel knows before it reads sizes: its types, and what is handed on."""
    first: Pairs = next(space.specialisations(other))
    known = {name: value for name, value in space.choices(other, first).items() if name not in other.dims}
    handed = {name: values[word] for name in keywords(other) if (word := word_of(spec, name)) in values}
    return known | handed


def _tuple(shape: Sequence[object]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
