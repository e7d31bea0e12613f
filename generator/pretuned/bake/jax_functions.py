"""The module `jax` of a generated package: the same functions, for arrays of JAX and inside of its transformations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pretuned.bake.functions import (
    annotation,
    chosen,
    described_arguments,
    documented,
    keywords,
    local,
    number,
    omissible,
    required,
)
from pretuned.bake.literals import literal, wrapped
from pretuned.bake.plan import BakePlan, KernelPlan
from pretuned.errors import BakeError
from pretuned.spec.model import Argument, KernelSpec
from pretuned.spec.places import telling_outputs

_OWN = {"JaxArray", "ShapeDtype", "jax"}  # which the module, or the package, has for itself
_HEAD = '''"""The kernels as functions of JAX: in jit, grad, vmap and scan. Written by pretuned; do not edit.

Outputs are JAX's: they are returned, and what is changed in place elsewhere is returned anew.
"""
'''


def jax_module(plan: BakePlan, waived: Sequence[str]) -> str:
    """Return the text of `jax.py`; raises BakeError for a kernel whose name it needs."""
    for kernel in plan.kernels:
        if kernel.spec.name in _OWN:
            raise BakeError(
                f"a kernel cannot be named '{kernel.spec.name}' where the package has functions for JAX; "
                f"rename {kernel.spec.file}"
            )
    functions = [list(_function(kernel)) for kernel in plan.kernels]
    text = "\n".join(line for lines in functions for line in lines)
    typing = [
        *(["    from collections.abc import Sequence"] if ": Sequence[" in text else []),
        *(["    from typing import Literal"] if ": Literal[" in text else []),
    ]
    own = [name for name in ("JaxArray", "ShapeDtype") if name in text]
    lines = [_HEAD, *waived, "", "from __future__ import annotations", ""]
    lines += ["from ._runtime.jax import call as _call", ""]
    lines += ["TYPE_CHECKING = False", "if TYPE_CHECKING:", *typing, *([""] if typing else [])]
    lines += [f"    from ._runtime.jax import {', '.join(own)}", ""]
    names = ", ".join(literal(kernel.spec.name) for kernel in plan.kernels)
    line = f"__all__ = [{names}]"
    lines += [line] if len(line) <= 120 else ["__all__ = [", *(f"    {name}," for name in names.split(", ")), "]"]  # noqa: PLR2004
    for function in functions:
        lines += ["", "", *function]
    return "\n".join(lines) + "\n"


def _function(kernel: KernelPlan) -> Iterator[str]:
    """Yield the lines of a kernel's function."""
    spec, told = kernel.spec, telling_outputs(kernel.spec)
    outputs = spec.whole(spec.outputs)
    returned = ["list[JaxArray]" if one.count else f"JaxArray{' | None' if one.optional else ''}" for one in outputs]
    yield f"def {spec.name}("
    yield from (f"    {argument.name}: {_taken(argument)}," for argument in required(spec))
    yield from (f"    {argument.name}: {number(spec, argument)}," for argument in spec.scalars)
    named = [argument for argument in omissible(spec) if argument.optional or argument.name in told]
    if named or chosen(spec):
        yield "    *,"
    yield from (f"    {name}: {annotation(values)}," for name, values in chosen(spec).items())
    for argument in named:
        kind = "JaxArray | None = None" if argument.optional else "ShapeDtype"
        yield f"    {argument.name}: {kind},"
    returns = returned[0] if len(outputs) == 1 else f"tuple[{', '.join(returned)}]"
    yield f") -> {returns}:"
    yield from _docstring(kernel)
    result = local(spec, "result")
    yield f"    {result}: {returns} = _call({', '.join(_call(spec))})"
    yield f"    return {result}"


def _taken(argument: Argument) -> str:
    return "Sequence[JaxArray]" if argument.count else "JaxArray"


def _call(spec: KernelSpec) -> Iterator[str]:
    """Yield what the runtime is passed: the name, arrays in launch order, numbers, keywords."""
    told = telling_outputs(spec)
    arrays = [
        argument.name if argument.role != "out" or argument.name in told else "None"
        for argument in spec.whole(spec.arrays)
    ]
    given = {argument.presence: f"{argument.name} is not None" for argument in spec.inputs if argument.optional}
    given |= {str(one.count): "None" for one in spec.lists}
    words = [given.get(name, name) for name in keywords(spec)]
    yield literal(spec.name)
    yield _tuple(arrays)
    if spec.scalars or words:
        yield _tuple([argument.name for argument in spec.scalars])
    if words:
        yield _tuple(words)


def _tuple(texts: Sequence[str]) -> str:
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _docstring(kernel: KernelPlan) -> Iterator[str]:
    spec, told = kernel.spec, telling_outputs(kernel.spec)
    yield from documented(kernel)
    left_out = {"stream", *(one.name for one in spec.whole(spec.arrays) if one.role == "out" and one.name not in told)}
    for name, text in described_arguments(spec):
        if name in left_out:
            continue
        if name in told:
            text = f"jax.ShapeDtypeStruct of this output, whose shape gives {' and '.join(told[name])}."  # noqa: PLW2901
        yield from wrapped(f"{name}: {text.replace('changed in place', 'returned changed')}", "        ", "    ")
    yield ""
    yield "    Returns:"
    yield f"        {', '.join(argument.name for argument in spec.whole(spec.outputs))}."
    yield ""
    yield "    Raises:"
    yield "        PretunedError: Something cannot be used as it is; also a TypeError, ValueError or RuntimeError."
    yield '    """'
