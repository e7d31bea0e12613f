"""The kernels as the generated package declares them to its runtime: arguments, dims, launches, conditions."""

from __future__ import annotations

from collections.abc import Iterator

from pretuned.bake.functions import keywords, shape_text
from pretuned.bake.literals import function, literal
from pretuned.bake.plan import KernelPlan
from pretuned.runtime.gradients import Backward
from pretuned.spec import space
from pretuned.spec.addresses import Alignment
from pretuned.spec.expressions import Expression
from pretuned.spec.formulas import formulas
from pretuned.spec.launch import LaunchSpec
from pretuned.spec.lists import owner_of, owners
from pretuned.spec.model import Argument, ImplementationSpec, KernelSpec
from pretuned.spec.places import place_of
from pretuned.spec.strides import names_of
from pretuned.spec.structs import layouts
from pretuned.spec.tensor_maps import TensorMapSpec

_ONE = Expression("1")


def declaration_lines(kernel: KernelPlan) -> Iterator[str]:
    """Yield the declaration of a kernel."""
    spec = kernel.spec
    yield f"_{spec.name} = Kernel("
    yield f"    {literal(spec.name)},"
    yield "    arguments=("
    yield from (f"        {_argument(spec, argument)}," for argument in spec.arguments)
    yield "    ),"
    yield "    implementations={"
    for name, implementation in spec.all_implementations.items():
        yield f"        {literal(name)}: Implementation("
        yield from _implementation(spec, implementation)
        yield "        ),"
    yield "    },"
    yield from (f"    {name}={text}," for name, text in _tables(spec) if text not in {"{}", "()"})
    if spec.constraints.demands:
        yield "    requires=("
        yield from (f"        {_condition(expression)}," for expression in spec.constraints.demands)
        yield "    ),"
    if spec.constraints.addresses:
        yield "    addresses=("
        yield from (f"        {_alignment(one)}," for one in spec.constraints.addresses)
        yield "    ),"
    yield from _default(spec)
    if kernel.backward is not None:
        yield f"    backward={_backward(kernel.backward)},"
    name = literal(spec.name)
    yield f"    shipped=_SHIPPED[{name}],"
    yield f"    rows=TABLE[{name}],"
    if kernel.selections:
        yield f"    selections=SELECTIONS[{name}],"
    yield "    devices=DEVICES,"
    yield "    binaries=_BINARIES,"
    yield ")"


def _backward(one: Backward) -> str:
    return f"Backward({', '.join(map(literal, (one.kernel, one.inputs, one.outputs, one.passed)))})"


def _default(spec: KernelSpec) -> Iterator[str]:
    """Yield the parameters whose default depends on the problem: conditions with values, the first that holds."""
    own = formulas(spec.all_implementations[spec.default_implementation].default)
    if own:
        yield "    default={"
        for name, formula in own.items():
            yield f"        {literal(name)}: ("
            for branch in formula.branches:
                condition = "None" if branch.condition is None else function([branch.condition], several=False)
                yield f"            ({condition}, {literal(branch.value)}),"
            yield "        ),"
        yield "    },"


def _tables(spec: KernelSpec) -> Iterator[tuple[str, str]]:
    """Yield the declaration's plain data: where dims are read, and the specialisations."""
    choices = sorted(spec.specialisations.items())
    yield "dims", literal({name: _place(spec, name) for name in sorted(spec.dims)})
    yield "types", literal(tuple(name for name, choice in choices if choice.dtypes))
    alike = {name: choice.stands_for for name, choice in choices if choice.alike}
    yield "alike", literal({name: dict(sorted(types.items())) for name, types in alike.items()})
    yield (
        "follows",
        literal(
            {name: (choice.from_, dict(sorted(choice.mapping.items()))) for name, choice in choices if choice.from_}
        ),
    )
    yield "keywords", literal(keywords(spec))
    yield "structs", literal({name: one.fields for name, one in sorted(layouts(spec).items())})


def _place(spec: KernelSpec, dim: str) -> tuple[str | int, ...]:
    """Return the argument and axis that give a dim, and how its extent is solved; nothing where a keyword gives it.

    That of a list ends in `[]`: each of its arrays has an extent, and the dim is their sum.
    """
    place = place_of(spec, dim)
    if owners(spec, dim):
        owner = owner_of(spec, dim)
        return f"{owner.name}[]", [str(extent) for extent in owner.shape or ()].index(f"{dim}[]")
    if place is None:
        return ()
    solved = () if place.alone else (place.factor, place.offset, str(place.extent))
    return place.argument, place.axis, *solved


def _argument(spec: KernelSpec, argument: Argument) -> str:
    if argument.role is None:
        if argument.each:
            parts = f"{literal(argument.name)}, {literal(argument.dtype)}"
            return f"Scalar({parts}, each={literal(argument.each)}, most={argument.most})"
        value = f", {function([spec.derived[argument.name]], several=False)}" if argument.name in spec.derived else ""
        return f"Scalar({literal(argument.name)}, {literal(argument.dtype)}{value})"
    shape = function(argument.shape or (), several=True)
    more = "" if argument.init is None else ", init=True"
    more += ", optional=True" if argument.optional else ""
    if names := names_of(spec, argument):
        more += f", strides={literal(names)}"
    more += "" if argument.leading is None else f", trailing={len(argument.shape or ()) - 1}"
    if inputs := spec.in_place_of(argument):
        more += f", in_place={literal(tuple(one.name for one in inputs))}"
    if argument.count:
        more += f", count={literal(argument.count)}, most={argument.most}, own={literal(argument.own)}"
    head = ", ".join(map(literal, (argument.name, argument.role, argument.dtype, shape_text(argument))))
    return f"Array{'List' if argument.count else ''}({head}, {shape}{more})"


def _implementation(spec: KernelSpec, implementation: ImplementationSpec) -> Iterator[str]:
    yield "            launches=("
    yield from (f"                {_launch(spec, launch)}," for launch in implementation.launches)
    yield "            ),"
    # The other constraints were settled when the configuration was chosen.
    open_ones = [
        expression
        for expression in implementation.constraints.where
        if space.names_dim(spec, expression) or expression.reads_device
    ]
    if open_ones:
        yield "            where=("
        yield from (f"                {_condition(expression)}," for expression in open_ones)
        yield "            ),"
    if implementation.scratch:
        yield "            scratch=("
        for buffer in implementation.scratch:
            init = "" if buffer.init is None else ", init=True"
            shape = function(buffer.shape, several=True)
            yield f"                Buffer({literal(buffer.name)}, {literal(buffer.dtype)}, {shape}{init}),"
        yield "            ),"
    if implementation.tensor_maps:
        yield "            tensor_maps=("
        yield from (f"                {_tensor_map(one)}," for one in implementation.tensor_maps)
        yield "            ),"
    if implementation.init:
        yield f"            init={literal(implementation.init)},"
    if implementation.call is not None:
        call = implementation.call
        named = ", ".join(map(literal, (call.module, call.function, tuple(call.arguments), call.out)))
        yield f"            call=LibraryFunction({named}),"


def _tensor_map(one: TensorMapSpec) -> str:
    said = {"swizzle": (one.swizzle, "none"), "l2": (one.l2, "none"), "fill": (one.fill, "zeros")}
    more = "".join(f", {key}={literal(value)}" for key, (value, usual) in said.items() if value != usual)
    return f"TensorMap({literal(one.name)}, {literal(one.array)}, {function(one.box, several=True)}{more})"


def _launch(spec: KernelSpec, launch: LaunchSpec) -> str:
    arguments = launch.arguments or tuple(argument.name for argument in spec.arguments)
    parts = [
        literal(launch.function),
        f"grid={function(_triple(launch.grid), several=True)}",
        f"block={function(_triple(launch.block), several=True)}",
        f"shared={function([launch.shared], several=False)}",
        f"arguments={literal(tuple(arguments))}",
        *([f"cluster={function(_triple(launch.cluster), several=True)}"] if launch.cluster else []),
        *(["cooperative=True"] if launch.cooperative else []),
        *(["overlap=True"] if launch.overlap else []),
    ]
    return f"Launch({', '.join(parts)})"


def _triple(extent: tuple[Expression, ...]) -> tuple[Expression, ...]:
    return (*extent, *(_ONE for _ in range(3 - len(extent))))


def _alignment(one: Alignment) -> str:
    return f"({literal(one.argument)}, {literal(str(one))}, {function([one.nbytes], several=False)})"


def _condition(expression: Expression) -> str:
    return f"({literal(str(expression))}, {function([expression], several=False)})"
