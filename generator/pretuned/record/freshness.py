"""Whether a row or a selection of the lock still speaks of the kernel as it is now.

*Fresh*: every choice renders, compiles, launches and takes arguments as it did. *Incomplete*: fresh, but the space,
the sizes, `requires` or terms of costs have changed since (baked, and tuned again when possible). *Unverified*: fresh,
but the reference or tolerances have changed (verified again when possible). *Stale*: otherwise; never baked as if it
were fresh: what is left of a stale row is its default alone, where this is still what was measured. Of a stale
selection it is the choices that are what was measured, the default among them: each was compared with that alone, so
what is left is no slower. It has lost its certificate, which speaks of all of them.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from enum import StrEnum

from pretuned.record.rows import Choice, Row
from pretuned.record.selections import PredictedChoice, Selection
from pretuned.render import RenderError, candidate, digest, verification_key
from pretuned.runtime.types import DTYPES
from pretuned.spec import space
from pretuned.spec.defaults import defaults, depends
from pretuned.spec.expressions import ExpressionError
from pretuned.spec.formulas import formulas
from pretuned.spec.model import KernelSpec
from pretuned.spec.packages import distribution_of, is_of_package
from pretuned.spec.space import Configuration, Pairs, Problem
from pretuned.spec.values import any_of


class State(StrEnum):
    """How a row or a selection stands to its spec."""

    FRESH = "fresh"
    INCOMPLETE = "incomplete"
    UNVERIFIED = "unverified"
    STALE = "stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state of a row or a selection, and why, in a few words; `reason` is empty for a fresh one."""

    state: State
    reason: str = ""


def space_key(spec: KernelSpec, specialisation: Pairs | None = None) -> str:
    """Return the digest of what is chosen from, and where: spaces, constraints, sizes, and the terms of costs.

    With a `specialisation`, implementations and joint sizes that take no part in it do not count: what is added for
    other types changes nothing there.

    `requires` is a part of it: what was certified where calls were admitted says nothing about other calls. So are the
    formulas of a default that depends on the problem, which say where what is compared with what.
    """
    taking_part = {
        name: one
        for name, one in spec.all_implementations.items()
        if specialisation is None or space.offered(spec, specialisation, name)
    }
    implementations = {
        name: [
            {key: sorted(set(values)) for key, values in implementation.space.items()}
            if isinstance(implementation.space, dict)
            else sorted(space.pairs(entry) for entry in implementation.space),
            sorted(str(expression) for expression in implementation.constraints.where),
        ]
        for name, implementation in taking_part.items()
    }
    sizes = {name: sorted(set(dim.sizes or ())) for name, dim in spec.free_dims.items()}
    terms = {name: list(map(str, one.cost.terms)) for name, one in taking_part.items() if one.cost.terms}
    requires = sorted(map(str, spec.constraints.requires))
    own = spec.all_implementations[spec.default_implementation].default
    chosen = {name: str(formula) for name, formula in formulas(own).items()}
    listed = spec.problems if specialisation is None else space.joint_sizes(spec, dict(specialisation))
    joint = [{"problems": sorted(map(space.pairs, listed), key=_order)}] if listed else []
    more = [*joint, *([terms] if terms else []), *([requires] if requires else [])]
    return digest([implementations, sizes, *more, *([{"default": chosen}] if chosen else [])])


def _order(problem: Pairs) -> list[tuple[str, tuple[object, ...]]]:
    return [(name, any_of(value)) for name, value in problem]  # where one names a value, another may name several


class FreshnessJudge:
    """Judges rows and selections of one spec; remembers what it rendered, for many share their configurations."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self._whole_space = space_key(spec)  # in rows of older locks
        self._spaces = {one: space_key(spec, one) for one in space.specialisations(spec)}
        self._verification = verification_key(spec)
        self._candidates: dict[tuple[Pairs, Configuration], tuple[str, dict[str, str]]] = {}
        self._problems = set(space.all_problems(spec))

    def wanted(self, problem: Problem) -> bool:
        """Return whether the spec still asks for this problem to be measured."""
        return problem in self._problems

    def judge(self, entry: Row | Selection) -> Standing:
        """Return how a row or a selection stands."""
        reason = self._stale(entry) if isinstance(entry, Row) else self._stale_selection(entry)
        if reason is not None:
            return Standing(state=State.STALE, reason=reason)
        if not entry.space:
            what = "its search early" if isinstance(entry, Row) else "before it was certified"
            return Standing(state=State.INCOMPLETE, reason=f"the budget ended {what}")
        known = (self._spaces[entry.specialisation], self._whole_space)
        if entry.space not in known or (isinstance(entry, Row) and not self.wanted(entry.problem)):
            formulas_too = ", the default's formulas" if depends(self.spec) else ""
            changed = f"the space, the sizes{formulas_too}, `requires` or terms of costs have changed"
            return Standing(state=State.INCOMPLETE, reason=changed)
        if entry.verification != self._verification:
            return Standing(state=State.UNVERIFIED, reason="the reference, the inputs or the tolerances have changed")
        return Standing(state=State.FRESH)

    def remnant(self, row: Row) -> Row | None:
        """Return what may be baked of a stale row: its default alone, or None where nothing of it holds.

        Without it the selection, or the nearest row, would answer there with what was not measured at that problem.
        """
        default = replace(row, choices=(row.default,))
        return default if self._stale(default) is None else None

    def selection_remnant(self, selection: Selection) -> Selection | None:
        """Return what may be baked of a stale selection; None where its default is not what was measured."""
        if self._of_another_spec(selection, {name for name, _ in selection.reach}) is not None:
            return None
        choices = tuple(c for c in selection.choices if self._choice_stale(selection, c) is None)
        if not set(selection.choices[-selection.defaults :]) <= set(choices):
            return None
        return replace(selection, choices=choices, certificate=None, space="")

    def _stale(self, row: Row) -> str | None:
        """Return what has changed so that the row's measurements no longer hold, or None."""
        if (reason := self._of_another_spec(row, {name for name, _ in row.problem.dims})) is not None:
            return reason
        for choice in row.choices:
            reason = self._changed(row, choice)
            if reason is None:
                reason = self._excluded(row.problem, choice.configuration)
            if reason is not None:
                return reason
        return None

    def _stale_selection(self, selection: Selection) -> str | None:
        """Return what has changed so that the selection's costs no longer hold, or None."""
        if (reason := self._of_another_spec(selection, {name for name, _ in selection.reach})) is not None:
            return reason
        reasons = (self._choice_stale(selection, choice) for choice in selection.choices)
        return next((reason for reason in reasons if reason is not None), None)

    def _choice_stale(self, selection: Selection, choice: PredictedChoice) -> str | None:
        if (reason := self._changed(selection, choice)) is not None:
            return reason
        if admits(self.spec, selection.specialisation, choice.configuration):
            return None
        return f"the constraints do not admit {choice.configuration}"

    def _of_another_spec(self, entry: Row | Selection, dims: set[str]) -> str | None:
        if entry.specialisation not in self._spaces:
            named = space.describe(entry.specialisation)
            return f"the spec has no {named}" if named else "the spec has specialisations now"
        if dims != self.spec.free_dims.keys():
            return "the spec has other dims"
        was, now = _defaults_of(entry), self._defaults_for(entry)
        return f"the default is now {' or '.join(map(str, now))}" if was != now else None

    def _defaults_for(self, entry: Row | Selection) -> tuple[Configuration, ...]:
        if isinstance(entry, Row):
            return (space.default_at(self.spec, entry.problem),)
        return defaults(self.spec, entry.specialisation)

    def _excluded(self, problem: Problem, configuration: Configuration) -> str | None:
        """Return which constraint no longer admits what was legal when it was measured; the device has not changed."""
        values = space.environment(self.spec, problem, configuration)
        for expression in self.spec.all_implementations[configuration.implementation].constraints.where:
            with contextlib.suppress(ExpressionError):
                if expression.reads_device or expression.evaluate(values):
                    continue
            return f"the constraint {expression.quoted} does not admit {configuration}"
        return None

    def _changed(self, entry: Row | Selection, choice: Choice | PredictedChoice) -> str | None:
        configuration = choice.configuration
        if not in_space(self.spec, configuration):
            return f"the configuration {configuration} is not in the space"
        pair = (entry.specialisation, configuration)
        if pair not in self._candidates:
            try:
                found = candidate(self.spec, *pair)
            except RenderError as error:
                return str(error)
            self._candidates[pair] = found.key, found.source.header_digests if found.source is not None else {}
        key, headers = self._candidates[pair]
        if key == choice.candidate:
            return None
        was = dict(entry.headers)
        if edited := sorted(name for name in headers if was.get(name, headers[name]) != headers[name]):
            return f"{' and '.join(map(_named, edited))} changed"
        return f"the template, options, launches or arguments of {configuration} have changed"


def _defaults_of(entry: Row | Selection) -> tuple[Configuration, ...]:
    return (entry.default.configuration,) if isinstance(entry, Row) else entry.default_configurations


def _named(header: str) -> str:
    """Return which header it is that differs: of an installed package, all that a source includes count as one."""
    return f"headers of {distribution_of(header)} have" if is_of_package(header) else f"the header {header} has"


def admits(spec: KernelSpec, specialisation: Pairs, configuration: Configuration) -> bool:
    """Return whether the constraints that neither a call nor a device decides admit a configuration."""
    implementation = spec.all_implementations.get(configuration.implementation)
    values = space.environment(spec, Problem(specialisation=specialisation, dims=()), configuration)
    try:
        return implementation is None or all(
            expression.evaluate(values)
            for expression in implementation.constraints.where
            if expression.names <= values.keys() | DTYPES.keys()
        )
    except ExpressionError:
        return False


def in_space(spec: KernelSpec, configuration: Configuration) -> bool:
    """Return whether `configuration` is one of its implementation's, constraints aside."""
    implementation = spec.all_implementations.get(configuration.implementation)
    if implementation is None:
        return False
    values = dict(configuration.values)
    if isinstance(implementation.space, dict):
        return values.keys() == implementation.space.keys() and all(
            any(type(item) is type(values[name]) and item == values[name] for item in implementation.space[name])
            for name in values
        )
    return configuration.values in {space.pairs(entry) for entry in implementation.space}
