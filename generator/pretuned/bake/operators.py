"""`torch.py` of a generated package: the kernels as operators of PyTorch, and what torch.compile traces of a call.

A kernel has the operator that makes its new outputs, and the overload `out` that writes into those that a call brings.
What is alike for all kernels stands in `pretuned.runtime.torch_ops`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pretuned.bake.functions import chosen, local, number_of, omissible, required, signature_lines
from pretuned.bake.literals import literal
from pretuned.bake.plan import KernelPlan
from pretuned.errors import BakeError
from pretuned.runtime.records import Value
from pretuned.runtime.types import DTYPES
from pretuned.spec.model import Argument, KernelSpec
from pretuned.spec.places import telling_outputs
from pretuned.spec.space import dtypes_of
from pretuned.spec.structs import layouts

FILE: Final = "torch.py"
_TAKEN: Final = {"torch", "name"}  # by the package, and by each namespace of torch.ops
# PyTorch's schemas cannot have the first; torch.compile passes what an operator changes beside a `mode` of its own.
_REFUSED: Final = {"NoneType", "mode", "self"}
_HEAD: Final = '''"""The kernels as operators of PyTorch, in torch.ops.{namespace}. Written by {writer}; do not edit.

Import it beside the package: from then on the package's functions, which are here too, may be called under
torch.compile and torch.export, and with tensors that require a gradient.
"""

# ruff: noqa: E501 - a schema is one line
# ruff: noqa: A001, A002, A004, E741, N802, N803, N816, PLR0913, RUF100 - names are the specs'; not all are needed

from __future__ import annotations

from . import (
{functions}
)
from ._runtime import torch_ops as _ops

TYPE_CHECKING = False
if TYPE_CHECKING:
{typing}    from ._runtime import GpuArray, Stream

__all__ = [
{names}
]

_operators = _ops.Operators({literal})
'''


def source(kernels: Iterable[KernelPlan], namespace: str, writer: str) -> str:
    """Return the text of `torch.py`; raises BakeError for what an operator cannot be."""
    plans = {plan.spec.name: plan for plan in kernels}
    text = "\n".join(line for plan in plans.values() for line in ("", "", *_kernel(plan)))
    typing = "    from collections.abc import Sequence\n" if ": Sequence[" in text else ""
    typing += "    from typing import Literal\n" if ": Literal[" in text else ""
    names = sorted(plans)
    head = _HEAD.format(
        namespace=namespace,
        writer=writer,
        functions="\n".join(f"    {name}," for name in names),
        typing=f"{typing}\n" if typing else "",
        names="\n".join(f"    {literal(name)}," for name in names),
        literal=literal(namespace),
    )
    return f"{head.rstrip()}\n{text}\n\n\n_ops.watch()\n"


def _kernel(plan: KernelPlan) -> Iterator[str]:
    """Yield the operators of a kernel, and what is traced in the place of its function."""
    spec = plan.spec
    if spec.name in _TAKEN:
        raise BakeError(f"a kernel cannot be named '{spec.name}' where the table has a `torch`; rename {spec.file}")
    new = _new(spec)
    if not new or _may_make(spec, new):
        returns = ", ".join("Tensor[]" if one.count else "Tensor" for one in new)
        schema = f"{_schema(spec, ())} -> {returns if len(new) == 1 else f'({returns})'}"
        yield f"_op_{spec.name} = _operators.define({spec.name}, {literal(schema)})"
    if new:
        schema = f"{_schema(spec, new)} -> ()"
        yield f'_out_{spec.name} = _operators.define({spec.name}, {literal(schema)}, "out")'
    if plan.backward is not None:
        names = ", ".join(map(literal, _inputs(spec)))
        yield f"_gradient_{spec.name} = _ops.differentiable({spec.name}, {plan.backward.kernel}, {names})"
    yield ""
    yield ""
    yield f"def _traced_{spec.name}("
    yield from signature_lines(spec)
    yield from (f"    {line}" for line in _traced(plan, new))
    yield ""
    yield ""
    yield f"_ops.route({spec.name}, _traced_{spec.name})"


def _new(spec: KernelSpec) -> list[Argument]:
    """Return the outputs that an operator makes where a call does not bring them."""
    told = telling_outputs(spec)
    return [argument for argument in omissible(spec) if argument.role == "out" and argument.name not in told]


def _may_make(spec: KernelSpec, new: list[Argument]) -> bool:
    """Return whether an operator can make outputs: not without an input, nor lists where it changes arrays in place."""
    changes = any(one.role == "inout" for one in spec.inputs) or bool(telling_outputs(spec))
    return bool(required(spec)) and not (changes and any(one.count for one in new))


def _schema(spec: KernelSpec, given: tuple[Argument, ...] | list[Argument]) -> str:
    """Return an operator's arguments; `given` are those outputs that it takes and another makes."""
    letters = iter([*map(chr, range(ord("a"), ord("z") + 1)), *(f"a{count}" for count in range(1000))])
    new = _new(spec)
    parts = [f"{_tensor(one, letters)} {one.name}" for one in required(spec)]
    for scalar in spec.scalars:
        parts += [f"{kind} {name}" for kind, name, _ in _numbers(spec, scalar)]
    parts += [f"{_tensor(one, letters)} {one.name}" for one in omissible(spec) if one not in new]
    words = [f"{_word(values)} {name}" for name, values in chosen(spec).items()]
    words += [f"{_tensor(one, letters)} {one.name}" for one in given]
    names = [part.rpartition(" ")[2] for part in (*parts, *words)]
    if wrong := next((name for name in names if names.count(name) > 1 or name in _REFUSED), None):
        raise BakeError(f"{spec.file}: '{wrong}' cannot be an argument of an operator of PyTorch; rename it")
    return f"({', '.join([*parts, *(['*', *words] if words else [])])})"


def _tensor(argument: Argument, letters: Iterator[str]) -> str:
    written = f"({next(letters)}!)" if argument.role != "in" else ""
    return f"Tensor{written}{'[]' if argument.count else ''}{'?' if argument.optional else ''}"


def _numbers(spec: KernelSpec, scalar: Argument) -> Iterator[tuple[str, str, str]]:
    """Yield type, name and value of what an operator takes for a number: for a struct its fields, one by one."""
    kinds = {"float": "float", "int": "SymInt", "bool": "bool", "complex": "complex"}
    structs = layouts(spec)
    if scalar.dtype not in structs:
        yield kinds[number_of(spec, scalar)], scalar.name, scalar.name
        return
    for name, dtype, count in structs[scalar.dtype].fields:
        kind = kinds[DTYPES[dtype].kind.removeprefix("u")]
        value = f"_ops.field({scalar.name}, {literal(name)})"
        yield f"{kind}{'[]' if count else ''}", f"{scalar.name}_{name}", value


def _word(values: tuple[Value, ...]) -> str:
    """Return the type of a keyword."""
    if any(isinstance(value, str) for value in values):
        return "str"
    return "bool" if values and all(isinstance(value, bool) for value in values) else "SymInt"


def _inputs(spec: KernelSpec) -> list[str]:
    """Return the parameters of the kernel's function, but for outputs and the stream."""
    optional = [one.name for one in omissible(spec) if one.role != "out"]
    return [*(one.name for one in required(spec)), *(one.name for one in spec.scalars), *chosen(spec), *optional]


def _traced(plan: KernelPlan, new: list[Argument]) -> Iterator[str]:
    """Yield the body of what is traced: checks that need tensors as they are called, then an operator."""
    spec, name = plan.spec, literal(plan.spec.name)
    yield f"_ops.demand_none({name}, stream)"
    differentiable = [] if plan.backward is None else [spec.inputs[index].name for _, index in plan.backward.outputs]
    arrays = [one.name for one in (*required(spec), *omissible(spec)) if _may_require_gradients(spec, one)]
    if refused := [one for one in arrays if one not in differentiable]:
        yield f"_ops.refuse_gradients({name}, {_by_name(refused)})"
    if differentiable:
        yield f"if _ops.recorded({', '.join(differentiable)}):"
        yield f"    _ops.refuse_outputs({name}, {_by_name(one.name for one in new)})"
        several = f"tuple[{', '.join(['GpuArray'] * len(new))}]" if len(new) > 1 else "GpuArray"
        result = local(spec, "result")
        yield f"    {result}: {several} = _gradient_{spec.name}.apply({', '.join(_inputs(spec))})"
        yield f"    return {result}"
    others = ", ".join(_arguments(spec, new))
    all_of_them = ", ".join([*([others] if others else []), *(f"{one.name}={one.name}" for one in new)])
    if not new:
        yield f"_op_{spec.name}({others})"
    elif not _may_make(spec, new):
        for one in new:
            yield f"_ops.demand_output({name}, {literal(one.name)}, {one.name})"
        yield f"_out_{spec.name}({all_of_them})"
    else:
        made = ", ".join(one.name for one in new)
        yield f"if {' and '.join(f'{one.name} is None' for one in new)}:"
        yield f"    {made} = _op_{spec.name}({others})"
        if len(new) > 1:
            several = local(spec, "made")
            yield f"elif {' or '.join(f'{one.name} is None' for one in new)}:"
            yield f"    {several} = _op_{spec.name}({others})"
            for place, one in enumerate(new):
                yield f"    {one.name} = _ops.filled({name}, {literal(one.name)}, {one.name}, {several}[{place}])"
        yield "else:"
        yield f"    _out_{spec.name}({all_of_them})"
    results = [f"[*{one.name}]" if one.count else one.name for one in spec.whole(spec.outputs)]
    yield f"return {', '.join(results)}"


def _by_name(names: Iterable[str]) -> str:
    return ", ".join(f"{one}={one}" for one in names)


def _may_require_gradients(spec: KernelSpec, argument: Argument) -> bool:
    return any(DTYPES[dtype].kind in {"float", "complex"} for dtype in dtypes_of(spec, argument.dtype))


def _arguments(spec: KernelSpec, new: list[Argument]) -> Iterator[str]:
    """Yield what is passed to an operator, but for the outputs that one of the two makes."""
    yield from (one.name for one in required(spec))
    for scalar in spec.scalars:
        yield from (value for _, _, value in _numbers(spec, scalar))
    yield from (one.name for one in omissible(spec) if one not in new)
    yield from (f"{name}={name}" for name in chosen(spec))
