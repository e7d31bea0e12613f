"""`[cost] terms`: what an author knows of a call's time, which has to have a value at every call."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pretuned.runtime.records import Value
from pretuned.spec import space
from pretuned.spec.check.implementations import prefix_of
from pretuned.spec.check.names import PathFault, expression_faults
from pretuned.spec.check.promise import SOME_DEVICE
from pretuned.spec.defaults import defaults
from pretuned.spec.expressions import Expression, ExpressionError, has_value_everywhere
from pretuned.spec.model import ImplementationSpec, KernelSpec


def cost_faults(spec: KernelSpec, implementation: ImplementationSpec) -> Iterator[PathFault]:
    """Yield the faults in the names of `cost.terms`."""
    known = {*spec.dims, *spec.specialisations, *space.parameters(implementation)}
    for index, term in enumerate(implementation.cost.terms):
        path = f"cost.terms[{index}]"
        yield from expression_faults(spec, path, term, known, device=True)
        if not space.names_dim(spec, term):
            yield (
                path,
                f"'{term}' is the same at every size, and such a term is there already; name a dim, or remove it",
            )


def cost_value_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield a fault for each term that has no value, or a negative one, for an implementation's own default.

    Every name is known. Other configurations may not have a use for a term: there it is left out.
    """
    for name, implementation in spec.all_implementations.items():
        for index, term in enumerate(implementation.cost.terms):
            for specialisation in space.specialisations(spec):
                known = space.choices(spec, specialisation) | SOME_DEVICE.environment()
                own = [one.values for one in defaults(spec, specialisation, name)]  # none of a library call
                found = (_without_value(spec, specialisation, term, known | dict(values)) for values in own)
                if message := next(filter(None, found), None):
                    yield f"{prefix_of(spec, name)}cost.terms[{index}]", message
                    break


def _without_value(
    spec: KernelSpec, specialisation: space.Pairs, term: Expression, known: dict[str, Value]
) -> str | None:
    folded = term.fold(known)
    if not has_value_everywhere(folded):
        if any(isinstance(node, ast.Pow) for node in ast.walk(folded.tree)):
            return f"'{term}' has a power of a dim; multiply instead, as in `n * n`"
        return f"'{term}' divides by what need not be positive; divide by numbers, parameters, or `max(1, ...)`"
    for problem in space.problems(spec, specialisation):
        try:
            value = folded.evaluate(dict(problem.dims))
        except ExpressionError as error:
            return f"{error} at {problem}"
        if value < 0:
            return f"'{term}' is {value} at {problem}; a term takes time, so it is at least 0: write max(0, ...)"
    return None
