"""The rule of a selection, as the builder evaluates it: exact integers, the same as in a generated package. Pure.

Of the configurations whose conditions on dims hold, those run that are predicted to be faster than the problem's
default by the selection's margin, the fastest first, the first of equals; the default is last. A configuration without
a cost is not predicted, so it does not run, and if the default has none, only the default runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from pretuned.record.selections import Cost, Selection
from pretuned.runtime.costs import compiled, names_read
from pretuned.runtime.records import Value
from pretuned.spec import space
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, DeviceFacts, Problem
from pretuned.tune.selection.fitting import FEMTOSECONDS

PER_MILLE: Final = 1000


def ranking(selection: Selection, spec: KernelSpec, problem: Problem, facts: DeviceFacts) -> list[Configuration]:
    """Return what may run at `problem`, in the order in which it is tried; arrays are taken to be aligned."""
    dims, own = dict(problem.dims), space.default_at(spec, problem)
    default = next((choice for choice in selection.predicted if choice.configuration == own), None)
    if default is None:  # it was never timed
        return [own]
    outside = any(not least <= int(dims[name]) <= most for name, (least, most) in selection.reach)
    highest = predicted_fs(default.cost, dims) * (PER_MILLE - selection.margins[outside])
    faster = [
        (cost, choice.configuration)
        for choice in selection.predicted
        if choice is not default
        and (cost := predicted_fs(choice.cost, dims)) * PER_MILLE <= highest
        and space.legal(spec, problem, choice.configuration, facts)
    ]
    faster.sort(key=lambda entry: entry[0])  # stable: the first of equals stays first
    return [*(configuration for _, configuration in faster), default.configuration]


def predicted_fs(cost: Cost, dims: Mapping[str, Value]) -> int:
    """Return the femtoseconds that `cost` predicts; 0 of an empty one."""
    read, formula = _formula(cost, tuple(dims))
    (value,) = formula(*[int(dims[name]) for name in read])
    return value


def predicted_us(cost: Cost, problem: Problem) -> float:
    """Return the microseconds that `cost` predicts at `problem`; inf of an empty one, which predicts nothing."""
    return predicted_fs(cost, dict(problem.dims)) / FEMTOSECONDS if cost else math.inf


@lru_cache(maxsize=4096)
def _formula(cost: Cost, names: tuple[str, ...]) -> tuple[list[str], Callable[..., tuple[int, ...]]]:
    """Return which dims a cost reads, and the function of their sizes."""
    formula = compiled([cost], names)
    return names_read([cost], names), formula
