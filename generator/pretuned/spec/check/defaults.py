"""The default by itself: a value of the space for every parameter, or a formula that chooses between such values."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from pretuned.config.toml import spelled
from pretuned.runtime.records import Value
from pretuned.runtime.text import closest
from pretuned.spec import space
from pretuned.spec.check.implementations import prefix_of
from pretuned.spec.check.kinds import in_order
from pretuned.spec.check.names import PathFault, expression_faults
from pretuned.spec.defaults import conditions, defaults
from pretuned.spec.expressions import ExpressionError
from pretuned.spec.folding import literal_value
from pretuned.spec.formulas import Formula, formulas
from pretuned.spec.model import ImplementationSpec, KernelSpec


def own_default_faults(
    implementation: ImplementationSpec, values: Mapping[str, tuple[Value, ...]]
) -> Iterator[PathFault]:
    """Yield the faults of an implementation's `default`, whose parameters may have the `values`."""
    for name in sorted(values.keys() - implementation.default.keys()):
        message = f"missing; the default gives every parameter a value, as in `{name} = {spelled(values[name][0])}`"
        yield f"default.{name}", message
    inside = implementation.default.keys() == values.keys()
    for name, given in sorted(implementation.default.items()):
        if name not in values:
            yield f"default.{name}", f"'{name}' is not a parameter of the space{closest(name, values)}"
            continue
        for value, where in _given(given):
            if not any(type(item) is type(value) and item == value for item in values[name]):
                inside = False
                found = f"{spelled(value)}{where} is outside the space; `space.{name}` has {listed(values[name])}"
                meant = isinstance(value, str) and " if " in value
                yield f"default.{name}", f"{found}; write `{{ at = {spelled(value)} }}`" if meant else found
    if (
        inside
        and isinstance(implementation.space, tuple)
        and implementation.space
        and not formulas(implementation.default)
        and dict(implementation.default) not in implementation.space
    ):
        yield "default", "is not one of the configurations that `space` lists"


def _given(given: Value | Formula) -> Iterator[tuple[Value, str]]:
    """Yield what a default gives a parameter, and where."""
    if not isinstance(given, Formula):
        yield given, ""
        return
    for branch in given.branches:
        yield branch.value, f" (where {branch.condition})" if branch.condition is not None else " (elsewhere)"


def listed(values: tuple[Value, ...]) -> str:
    """Return the values in order, the middle left out where there are many."""
    words = [spelled(value) for value in in_order(values)]
    return ", ".join(words if len(words) <= 12 else [*words[:6], "...", *words[-5:]])  # noqa: PLR2004 - one line


def formula_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield the faults of formulas: what a condition cannot read, and where none may stand."""
    if spec.implementations and isinstance(spec.default.get("implementation"), Formula):
        yield "default.implementation", "is one name for all problems; let its parameters depend on the problem"
    for name, implementation in spec.all_implementations.items():
        prefix = prefix_of(spec, name)
        for parameter, formula in formulas(implementation.default).items():
            path = f"{prefix}default.{parameter}"
            if name != spec.default_implementation:
                message = f"only the kernel's default, which is of '{spec.default_implementation}', depends on the"
                yield path, f"{message} problem; write {spelled(formula.branches[-1].value)}"
                continue
            for branch in formula.branches:
                if branch.condition is not None:
                    known = {*spec.dims, *spec.specialisations}
                    yield from expression_faults(spec, path, branch.condition, known)


def together_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield a fault where formulas give too many configurations, or one that a list of configurations lacks."""
    name = spec.default_implementation
    implementation, prefix = spec.all_implementations[name], prefix_of(spec, name)
    for specialisation in space.specialisations(spec) if formulas(implementation.default) else ():
        try:
            found = defaults(spec, specialisation)
        except ExpressionError as error:
            yield f"{prefix}default", str(error)
            return
        if not isinstance(implementation.space, tuple):
            continue
        for configuration in found:
            if dict(configuration.values) not in implementation.space:
                message = f"its formulas give {configuration} together, which is not one of the configurations"
                yield f"{prefix}default", f"{message} that `space` lists"
                return


def turning_points(spec: KernelSpec) -> set[int]:
    """Return the numbers that the default's conditions have, with their neighbours."""
    nodes = (node for condition in conditions(spec) for node in ast.walk(condition.tree) if isinstance(node, ast.expr))
    numbers = {number for node in nodes if (number := literal_value(node)) is not None}
    return {size for number in numbers for size in (number - 1, number, number + 1) if 0 <= size < 2**31}
