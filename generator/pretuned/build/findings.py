"""What of a lock is not fresh, or missing; and what must be tuned on a device so that nothing is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pretuned.record import lock as lockfile
from pretuned.record.freshness import FreshnessJudge, State
from pretuned.record.lock import Lock
from pretuned.record.rows import TunedDevice
from pretuned.spec import space
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Problem
from pretuned.tune.request import TuningDevice, TuningRequest

Specs = Mapping[str, KernelSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is not fresh: a row of the lock with its state, or a problem without a row (`state` None)."""

    kernel: str
    device: str
    problem: Problem
    state: State | None
    reason: str

    @property
    def key(self) -> lockfile.Key:
        """The row's key."""
        return self.kernel, self.device, self.problem

    @property
    def word(self) -> str:
        """The state in a word."""
        return "missing" if self.state is None else str(self.state)

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.kernel} on {self.device} at {self.problem}: {self.word}{reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a lock stands to the specs: the rows that hold, what is stale, and the lock as it is baked.

    `baked` has besides the rows that hold the stale ones reduced to their default, where this is still what was
    measured: their buckets get it, and not what the nearest row has found elsewhere.
    """

    holds: Lock
    stale: tuple[Finding, ...]
    baked: Lock


def standing(specs: Specs, lock: Lock) -> Standing:
    """Return how `lock` stands."""
    stale = {finding.key: finding for finding in findings(specs, lock, {}) if finding.state is State.STALE}
    judges = {name: FreshnessJudge(spec) for name, spec in specs.items() if any(key[0] == name for key in stale)}
    reduced = (
        judges[row.kernel].remnant(row) for row in lock.rows if lockfile.row_key(row) in stale and row.kernel in judges
    )
    remnants = [row for row in reduced if row is not None]
    holds = lock.without(stale)
    devices = holds.devices | {row.device: lock.devices[row.device] for row in remnants}
    return Standing(holds=holds, stale=tuple(stale.values()), baked=holds.updated(devices, remnants))


def problems_of(spec: KernelSpec) -> list[Problem]:
    """Return every problem that a spec asks to be measured and the kernel admits."""
    return [
        problem
        for specialisation in space.specialisations(spec)
        for problem in space.problems(spec, specialisation)
        if space.admitted(spec, problem)
    ]


def findings(specs: Specs, lock: Lock, devices: Mapping[str, TunedDevice]) -> Iterator[Finding]:
    """Yield what is not fresh in `lock`: its own rows, then what is missing for each of `devices`.

    A row of a kernel, or at a size, that no longer exists is yielded as stale.
    """
    judges = {name: FreshnessJudge(spec) for name, spec in specs.items()}
    for row in lock.rows:
        if row.kernel not in judges:
            reason = "there is no such kernel"
            yield Finding(kernel=row.kernel, device=row.device, problem=row.problem, state=State.STALE, reason=reason)
            continue
        verdict = judges[row.kernel].judge(row)
        if verdict.state is not State.FRESH:
            yield Finding(
                kernel=row.kernel, device=row.device, problem=row.problem, state=verdict.state, reason=verdict.reason
            )
    known = {lockfile.row_key(row) for row in lock.rows} | {entry.key for entry in lock.skipped}
    for name, spec in specs.items():
        for device in devices:
            for problem in problems_of(spec):
                if (name, device, problem) not in known:
                    yield Finding(kernel=name, device=device, problem=problem, state=None, reason="")


def demands(specs: Specs, lock: Lock, target: TuningDevice, *, everything: bool = False) -> list[TuningRequest]:
    """Return what `target` needs tuned, so that all its rows are fresh; with `everything`, all of it anew."""
    bad = {
        (finding.kernel, finding.problem)
        for finding in findings(specs, lock, {target.name: target.device})
        if finding.device == target.name
    }
    found = []
    for name, spec in specs.items():
        wanted = [problem for problem in problems_of(spec) if everything or (name, problem) in bad]
        if wanted:
            rows = {problem: lock.find(name, target.name, problem) for problem in wanted}
            incumbents = {
                problem: tuple(choice.configuration for choice in row.choices)
                for problem, row in rows.items()
                if row is not None
            }
            found.append(TuningRequest(spec=spec, problems=tuple(wanted), incumbents=incumbents))
    return found
