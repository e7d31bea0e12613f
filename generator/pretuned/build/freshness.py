"""What of a lock is not fresh, or missing; and what must be tuned on a device so that nothing is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pretuned.record import lock as lockfile
from pretuned.record.freshness import FreshnessJudge, State
from pretuned.record.lock import Lock
from pretuned.record.rows import Row
from pretuned.spec import space
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Problem
from pretuned.tune.request import TuningDevice, TuningRequest

Specs = Mapping[str, KernelSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfreshRow:
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
        at = f" at {self.problem}" if str(self.problem) else ""
        return f"{self.kernel} on {self.device}{at}: {self.word}{reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockStatus:
    """A lock beside the specs: the rows that hold, what is stale, and the lock as it is baked.

    `baked` has the rows that hold, and of each stale row its default, where this is still what was measured: their
    buckets run it, and not what the nearest row has found elsewhere.
    """

    holds: Lock
    stale: tuple[UnfreshRow, ...]
    baked: Lock


class Freshness:
    """Judges the rows of locks by specs. One per build: it renders each configuration once."""

    def __init__(self, specs: Specs) -> None:
        self.specs = specs
        self._judges = {name: FreshnessJudge(spec) for name, spec in specs.items()}

    def unfresh(self, lock: Lock, devices: Iterable[str] = ()) -> Iterator[UnfreshRow]:
        """Yield what is not fresh in `lock`: its own rows, then what is missing for each of `devices`.

        A row of a kernel, or at a size, that no longer exists is yielded as stale.
        """
        for row in lock.rows:
            state, reason = self.judge(row)
            if state is not State.FRESH:
                yield UnfreshRow(kernel=row.kernel, device=row.device, problem=row.problem, state=state, reason=reason)
        known = set(lock.keys)
        for name, spec in self.specs.items():
            for device in devices:
                for problem in space.all_problems(spec):
                    if (name, device, problem) not in known:
                        yield UnfreshRow(kernel=name, device=device, problem=problem, state=None, reason="")

    def judge(self, row: Row) -> tuple[State, str]:
        """Return a row's state, and why it is not fresh."""
        if row.kernel not in self._judges:
            return State.STALE, "there is no such kernel"
        verdict = self._judges[row.kernel].judge(row)
        return verdict.state, verdict.reason

    def status(self, lock: Lock) -> LockStatus:
        """Return what of `lock` holds, and what is baked of it."""
        stale = {found.key: found for found in self.unfresh(lock) if found.state is State.STALE}
        reduced = (
            self._judges[row.kernel].remnant(row)
            for row in lock.rows
            if lockfile.row_key(row) in stale and row.kernel in self._judges
        )
        remnants = [row for row in reduced if row is not None]
        holds = lock.without(stale)
        devices = holds.devices | {row.device: lock.devices[row.device] for row in remnants}
        return LockStatus(holds=holds, stale=tuple(stale.values()), baked=holds.updated(devices, remnants))

    def requests(self, lock: Lock, device: TuningDevice, *, everything: bool = False) -> list[TuningRequest]:
        """Return what `device` needs tuned, so that all its rows are fresh; with `everything`, all of it anew."""
        bad = {
            (found.kernel, found.problem) for found in self.unfresh(lock, [device.name]) if found.device == device.name
        }
        found = []
        for name, spec in self.specs.items():
            wanted = [problem for problem in space.all_problems(spec) if everything or (name, problem) in bad]
            if wanted:
                rows = {problem: lock.find(name, device.name, problem) for problem in wanted}
                incumbents = {
                    problem: tuple(choice.configuration for choice in row.choices)
                    for problem, row in rows.items()
                    if row is not None
                }
                found.append(TuningRequest(spec=spec, problems=tuple(wanted), incumbents=incumbents))
        return found
