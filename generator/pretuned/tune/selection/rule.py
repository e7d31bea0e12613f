"""The rule of a selection, as the builder evaluates it: exact integers, the same as in a generated package. Pure.

Of the configurations whose conditions on dims hold, those run that are predicted to be faster than the default by the
selection's margin, the fastest first, the first of equals; the default is last. A cost that has no value at a problem
(a result beyond 2 ** 62) predicts nothing: its configuration does not run, and if it is the default's, only that runs.
"""

from __future__ import annotations

from pretuned.record.selections import Cost, PredictedChoice, Selection
from pretuned.spec import space
from pretuned.spec.expressions import Environment, Expression, ExpressionError
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, DeviceFacts, Problem
from pretuned.tune.selection.fitting import FEMTOSECONDS

PER_MILLE = 1000


def ranking(selection: Selection, spec: KernelSpec, problem: Problem, facts: DeviceFacts) -> list[Configuration]:
    """Return what may run at `problem`, in the order in which it is tried; arrays are taken to be aligned."""
    dims = dict(problem.dims)
    default = selection.default
    limit = predicted_fs(default.cost, dims)
    if limit is None:
        return [default.configuration]
    outside = any(not least <= int(dims[name]) <= most for name, (least, most) in selection.reach)
    kept = PER_MILLE - selection.margins[outside]
    faster: list[tuple[int, Configuration]] = []
    for choice in selection.choices[:-1]:
        cost = predicted_fs(choice.cost, dims)
        if cost is not None and cost * PER_MILLE <= limit * kept and _holds(spec, choice, problem, facts):
            faster.append((cost, choice.configuration))
    faster.sort(key=lambda entry: entry[0])  # stable: the first of equals stays first
    return [*(configuration for _, configuration in faster), default.configuration]


def _holds(spec: KernelSpec, choice: PredictedChoice, problem: Problem, facts: DeviceFacts) -> bool:
    return space.legal(spec, problem, choice.configuration, facts)


def predicted_fs(cost: Cost, dims: Environment) -> int | None:
    """Return the femtoseconds that `cost` predicts; None where it is empty or a term has no value."""
    if not cost:
        return None
    try:
        return sum(femtoseconds * int(Expression(text).evaluate(dims)) for text, femtoseconds in cost)
    except ExpressionError:
        return None


def predicted_us(cost: Cost, problem: Problem) -> float:
    """Return the microseconds that `cost` predicts at `problem`; inf where it predicts nothing."""
    predicted = predicted_fs(cost, dict(problem.dims))
    return float("inf") if predicted is None else predicted / FEMTOSECONDS
