"""Whether a row of the lock still speaks of the kernel as it is now.

*Fresh*: every choice renders, compiles, launches and takes arguments as it did. *Incomplete*: fresh, but the space or
the sizes have changed since (baked, and tuned again when possible). *Unverified*: fresh, but the reference or
tolerances have changed (verified again when possible). *Stale*: otherwise; never baked as if it were fresh: what is
left of a stale row is its default alone, where this is still what was measured.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from enum import StrEnum

from pretuned.record.rows import Choice, Row
from pretuned.render import RenderError, candidate, digest, verification_key
from pretuned.spec import space
from pretuned.spec.expressions import ExpressionError
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Pairs, Problem


class State(StrEnum):
    """How a row stands to its spec."""

    FRESH = "fresh"
    INCOMPLETE = "incomplete"
    UNVERIFIED = "unverified"
    STALE = "stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStatus:
    """The state of a row, and why, in a few words; `reason` is empty for a fresh one."""

    state: State
    reason: str = ""


def space_key(spec: KernelSpec) -> str:
    """Return the digest of what rows of `spec` are chosen from and measured at: spaces, constraints and sizes."""
    implementations = {
        name: [
            {key: sorted(set(values)) for key, values in implementation.space.items()}
            if isinstance(implementation.space, dict)
            else sorted(space.pairs(entry) for entry in implementation.space),
            sorted(str(expression) for expression in implementation.constraints.where),
        ]
        for name, implementation in spec.all_implementations.items()
    }
    sizes = {name: sorted(set(dim.sizes or ())) for name, dim in spec.free_dims.items()}
    return digest([implementations, sizes])


class FreshnessJudge:
    """Judges rows of one spec; remembers what it rendered, for many rows share their configurations."""

    def __init__(self, spec: KernelSpec) -> None:
        self.spec = spec
        self._space = space_key(spec)
        self._verification = verification_key(spec)
        self._candidates: dict[tuple[Pairs, Configuration], tuple[str, dict[str, str]]] = {}
        self._problems = set(space.all_problems(spec))

    def wanted(self, problem: Problem) -> bool:
        """Return whether the spec still asks for this problem to be measured."""
        return problem in self._problems

    def judge(self, row: Row) -> RowStatus:
        """Return how `row` stands."""
        if (reason := self._stale(row)) is not None:
            return RowStatus(state=State.STALE, reason=reason)
        if not row.space:
            return RowStatus(state=State.INCOMPLETE, reason="the budget ended its search early")
        if row.space != self._space or not self.wanted(row.problem):
            return RowStatus(state=State.INCOMPLETE, reason="the space or the sizes have changed")
        if row.verification != self._verification:
            return RowStatus(state=State.UNVERIFIED, reason="the reference, the inputs or the tolerances have changed")
        return RowStatus(state=State.FRESH)

    def remnant(self, row: Row) -> Row | None:
        """Return what may be baked of a stale row: its default alone, or None where nothing of it holds.

        Without it the nearest row would answer for the bucket, with what was never measured there.
        """
        default = replace(row, choices=(row.default,))
        return default if self._stale(default) is None else None

    def _stale(self, row: Row) -> str | None:
        """Return what has changed so that the row's measurements no longer hold, or None."""
        if row.problem.specialisation not in set(space.specialisations(self.spec)):
            return f"the spec has no {space.describe(row.problem.specialisation)}"
        if {name for name, _ in row.problem.dims} != self.spec.free_dims.keys():
            return "the spec has other dims"
        if row.default.configuration != space.default(self.spec):
            return f"the default is now {space.default(self.spec)}"
        for choice in row.choices:
            reason = self._changed(row, choice)
            if reason is None:
                reason = self._excluded(row.problem, choice.configuration)
            if reason is not None:
                return reason
        return None

    def _excluded(self, problem: Problem, configuration: Configuration) -> str | None:
        """Return which constraint no longer admits what was legal when it was measured; the device has not changed."""
        values = space.environment(self.spec, problem, configuration)
        for expression in self.spec.all_implementations[configuration.implementation].constraints.where:
            with contextlib.suppress(ExpressionError):
                if expression.reads_device or expression.evaluate(values):
                    continue
            return f"the constraint '{expression}' does not admit {configuration}"
        return None

    def _changed(self, row: Row, choice: Choice) -> str | None:
        configuration = choice.configuration
        if not in_space(self.spec, configuration):
            return f"the configuration {configuration} is not in the space"
        pair = (row.specialisation, configuration)
        if pair not in self._candidates:
            try:
                found = candidate(self.spec, *pair)
            except RenderError as error:
                return str(error)
            self._candidates[pair] = found.key, found.source.header_digests if found.source is not None else {}
        key, headers = self._candidates[pair]
        if key == choice.candidate:
            return None
        was = dict(row.headers)
        if edited := sorted(name for name in headers if was.get(name, headers[name]) != headers[name]):
            return f"the header {' and the header '.join(edited)} has changed"
        return f"the template, options, launches or arguments of {configuration} have changed"


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
