"""The functions of a generated package: one per kernel, with a real signature and a docstring from the spec."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from pretuned.bake.literals import literal, prose, wrapped
from pretuned.bake.plan import KernelPlan
from pretuned.errors import BakeError
from pretuned.runtime.records import Value
from pretuned.runtime.types import DTYPES
from pretuned.spec.expressions import Expression
from pretuned.spec.model import Argument, KernelSpec
from pretuned.spec.places import telling_outputs
from pretuned.spec.reserved import RESERVED
from pretuned.spec.sizes import sizes_of
from pretuned.spec.space import dtypes_of
from pretuned.spec.strides import names_of
from pretuned.spec.structs import described, layouts


def check_names(spec: KernelSpec) -> None:
    """Raise BakeError for a kernel or an argument whose name the generated module needs for itself."""
    if spec.name in RESERVED or spec.name.startswith("_") or not spec.name.isascii():
        raise BakeError(
            f"a kernel cannot be named '{spec.name}': the generated package uses that name; rename {spec.file}"
        )
    names = parameters(spec)
    for name in names:
        if names.count(name) > 1 or name.startswith("_") or not name.isascii():
            raise BakeError(f"{spec.file}: '{name}' cannot be an argument of the generated function; rename it")


def parameters(spec: KernelSpec) -> list[str]:
    """Return the names of all that the generated function takes."""
    return [*positional(spec), *keywords(spec), *(argument.name for argument in omissible(spec)), "stream"]


def local(spec: KernelSpec, name: str) -> str:
    """Return a name for a variable of the generated function that none of its parameters has."""
    while name in parameters(spec):
        name += "_"
    return name


_WIDTH: Final = ("bool", "int", "float", "complex")  # Python's numbers, each of which stands for those before it


def number_of(spec: KernelSpec, argument: Argument) -> str:
    """Return Python's type of a number, of all types that it may have; `object` for a struct, which has many forms."""
    kinds = {DTYPES[dtype].kind.removeprefix("u") for dtype in dtypes_of(spec, argument.dtype)}
    return max(kinds, key=_WIDTH.index, default="object")


def number(spec: KernelSpec, argument: Argument) -> str:
    """Return a number's annotation with its default."""
    annotation = number_of(spec, argument)
    if argument.default is None:
        return annotation
    if isinstance(argument.default, complex):
        return f"{annotation} = complex({_real(argument.default.real)}, {_real(argument.default.imag)})"
    return f"{annotation} = {_real(argument.default)}"


def _real(number: float) -> str:
    return literal(number) if math.isfinite(number) else f'float("{number}")'


def positional(spec: KernelSpec) -> list[str]:
    """Return what is passed by position: the arrays that a call brings, then its numbers, each in launch order."""
    return [argument.name for argument in (*required(spec), *spec.scalars)]


def required(spec: KernelSpec) -> tuple[Argument, ...]:
    """Return the inputs that every call brings, a list once."""
    return spec.whole(spec.required_inputs)


def omissible(spec: KernelSpec) -> list[Argument]:
    """Return the arrays that are keywords of the function and may be None: optional inputs, then outputs."""
    inputs = [argument for argument in spec.inputs if argument.optional]
    return [*inputs, *(argument for argument in spec.whole(spec.arrays) if argument.role == "out")]


def chosen(spec: KernelSpec) -> dict[str, tuple[Value, ...]]:
    """Return those of `keywords` that a caller chooses by a value."""
    told = {argument.presence for argument in spec.inputs if argument.optional} | {one.count for one in spec.lists}
    return {name: values for name, values in keywords(spec).items() if name not in told}


def keywords(spec: KernelSpec) -> dict[str, tuple[Value, ...]]:
    """Return the keywords of the function by sorted name: specialisations with their values, and dims, with none."""
    counts = {one.count for one in spec.lists}
    found: dict[str, tuple[Value, ...]] = {name: () for name, dim in spec.dims.items() if dim.keyword or name in counts}
    found |= {name: tuple(sorted(choice.values)) for name, choice in spec.specialisations.items() if choice.values}
    return dict(sorted(found.items()))


def function_lines(kernel: KernelPlan) -> Iterator[str]:
    """Yield the lines of the kernel's function."""
    spec = kernel.spec
    yield "@launcher"
    yield f"def {spec.name}("
    yield from signature_lines(spec)
    yield from _docstring(kernel)
    given = {argument.presence: f"{argument.name} is not None" for argument in spec.inputs if argument.optional}
    given |= {str(one.count): "None" for one in spec.lists}
    words = [given.get(name, name) for name in keywords(spec)]
    call = [*(a.name for a in spec.whole(spec.arrays)), *(a.name for a in spec.scalars), *words, "stream"]
    run = f"listed(_{spec.name}, {', '.join(call)})" if spec.lists else f"_{spec.name}.run({', '.join(call)})"
    if len(spec.whole(spec.outputs)) == 1 and not spec.lists:
        yield f"    return {run}"
    else:
        result = local(spec, "result")
        yield f"    {result}: {_returns(spec)} = {run}"
        yield f"    return {result}"


def signature_lines(spec: KernelSpec) -> Iterator[str]:
    """Yield the parameters of the kernel's function, one a line, and what it returns."""
    yield from (f"    {argument.name}: {_taken(argument)}," for argument in required(spec))
    yield from (f"    {argument.name}: {number(spec, argument)}," for argument in spec.scalars)
    yield "    *,"
    for name, values in chosen(spec).items():
        yield f"    {name}: {annotation(values)},"
    demanded = telling_outputs(spec)
    for argument in omissible(spec):
        yield f"    {argument.name}: {_taken(argument)}{'' if argument.name in demanded else ' | None = None'},"
    yield "    stream: Stream | None = None,"
    yield f") -> {_returns(spec)}:"


def _returns(spec: KernelSpec) -> str:
    outputs = spec.whole(spec.outputs)
    returned = ["list[GpuArray]" if one.count else f"GpuArray{' | None' if one.optional else ''}" for one in outputs]
    return returned[0] if len(outputs) == 1 else f"tuple[{', '.join(returned)}]"


def _taken(argument: Argument) -> str:
    """Return the type of an array, or of a list of arrays."""
    return "Sequence[GpuArray]" if argument.count else "GpuArray"


def annotation(values: tuple[Value, ...]) -> str:
    """Return the type of a keyword."""
    if any(isinstance(value, str) for value in values):
        return f"Literal[{', '.join(map(literal, values))}]"
    return "bool" if values and all(isinstance(value, bool) for value in values) else "int"


def documented(kernel: KernelPlan) -> Iterator[str]:
    """Yield the lines that the docstrings of a kernel's functions begin with, up to those on arguments."""
    summary = prose(kernel.spec.summary) or f"Run the kernel {kernel.spec.name}."
    first, *rest = wrapped(summary if summary.endswith((".", "!", "?")) else f"{summary}.", "    ")
    yield f'    """{first.strip()}'
    yield from rest
    yield ""
    for line in _facts(kernel):
        yield from wrapped(line, "    ")
    yield ""
    yield "    Args:"


def _docstring(kernel: KernelPlan) -> Iterator[str]:
    spec = kernel.spec
    yield from documented(kernel)
    for name, text in described_arguments(spec):
        yield from wrapped(f"{name}: {text}", "        ", "    ")
    yield ""
    yield "    Returns:"
    yield f"        {', '.join(argument.name for argument in spec.whole(spec.outputs))}."
    yield ""
    yield "    Raises:"
    yield "        PretunedError: Something cannot be used as it is; also a TypeError, ValueError or RuntimeError."
    yield '    """'


def _facts(kernel: KernelPlan) -> Iterator[str]:
    """Yield what a caller should know of types, sizes, demands and devices, one line each."""
    spec = kernel.spec
    for name, choice in sorted(spec.specialisations.items()):
        if choice.dtypes:
            yield f"{name} is {_either(sorted(choice.dtypes))}, as the arrays have it."
        elif choice.from_:
            follows = ", ".join(f"{target} for {source}" for source, target in sorted(choice.mapping.items()))
            yield f"{name} follows from {choice.from_}: {follows}."
    for name, dim in spec.constant_dims.items():
        yield f"{name} is {_either(sorted(map(str, dim.values or ())))}, as the arrays have it."
    limited = ", some for certain calls alone" if any(p.keys() - spec.free_dims.keys() for p in spec.problems) else ""
    for name in spec.free_dims:
        yield f"{name} was measured at {', '.join(map(str, sizes_of(spec, name)))}{limited}."
    for expression in spec.constraints.requires:
        yield f"Requires {expression}."
    if kernel.backward is not None:
        of = " and ".join(spec.inputs[index].name for _, index in kernel.backward.outputs)
        yield f"Its gradient by {of} is {kernel.backward.kernel}'s."
    devices = sorted({row.device for row in kernel.rows})
    yield f"Tuned for {', '.join(devices)}." if devices else "Not tuned on any device: the default runs."


def described_arguments(spec: KernelSpec) -> Iterator[tuple[str, str]]:
    """Yield the name of each argument with what a docstring says of it."""
    for argument in required(spec):
        changed = "; changed in place" if argument.role == "inout" else ""
        yield argument.name, f"{_kind(argument)} of {argument.dtype} with {_laid_out(spec, argument)}{changed}."
    structs = layouts(spec)
    for argument in spec.scalars:
        if argument.dtype in structs:
            yield argument.name, f"{argument.dtype}: a dict or an object with {described(structs[argument.dtype])}."
        else:
            kinds = {DTYPES[dtype].kind for dtype in dtypes_of(spec, argument.dtype)}
            yield (
                argument.name,
                f"{'Complex number' if kinds == {'complex'} else 'Number'}, passed as {argument.dtype}.",
            )
    for name, values in chosen(spec).items():
        yield name, f"{_either([literal(value) for value in values])}." if values else "Size, an integer from 0 on."
    demanded = telling_outputs(spec)
    for argument in omissible(spec):
        if argument.optional:
            changed = "; changed in place" if argument.role == "inout" else ""
            text = f"Array of {argument.dtype} with {_laid_out(spec, argument)}"
            yield argument.name, f"{text}{changed}; may be left out."
        else:
            inputs = [one.name for one in spec.in_place_of(argument)]
            told = demanded.get(argument.name, ())
            note = f"its shape gives {' and '.join(told)}" if told else "allocated if None"
            note += f"; may be {_either(inputs)}" if inputs else ""
            text = f"{_kind(argument)} of {argument.dtype} with {_laid_out(spec, argument)}"
            yield argument.name, f"{text} to write; {note}."
    yield "stream", "Stream to launch on; the current one of the arrays' library if None."


def _kind(argument: Argument) -> str:
    return f"List of 1 to {argument.most} arrays" if argument.count else "Array"


def _laid_out(spec: KernelSpec, argument: Argument) -> str:
    """Return the shape, and the strides that a call decides."""
    free = names_of(spec, argument)
    return f"shape {shape_text(argument)}" + (f" and any {' and '.join(free)}" if free else "")


def shape_text(argument: Argument) -> str:
    """Return the shape as Python writes it: `(n,)`, `(rows, cols)`."""
    shape: tuple[Expression, ...] = argument.shape or ()
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _either(values: list[str]) -> str:
    return " or ".join([", ".join(values[:-1]), values[-1]]) if len(values) > 1 else "".join(values)
