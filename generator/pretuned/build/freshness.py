"""What of a lock is not fresh, or missing; and what must be tuned on a device so that nothing is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pretuned.errors import counted
from pretuned.record import lock as lockfile
from pretuned.record.freshness import FreshnessJudge, State
from pretuned.record.lock import Lock
from pretuned.record.rows import Row
from pretuned.record.selections import Selection
from pretuned.record.usage import digest_of
from pretuned.spec import space
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Pairs, Problem
from pretuned.tune.request import TuningDevice, TuningRequest

Specs = Mapping[str, KernelSpec]
Calls = Mapping[str, Mapping[Problem, int]]  # how often problems were called, by kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfresh:
    """What is not fresh: a row or a selection of the lock with its state, or a problem without a row (`state` None).

    `problem` is None of a selection.
    """

    kernel: str
    device: str
    specialisation: Pairs
    problem: Problem | None
    state: State | None
    reason: str

    @property
    def key(self) -> lockfile.Key:
        """The key in the lock."""
        if self.problem is None:
            return self.kernel, self.device, self.specialisation
        return self.kernel, self.device, self.problem

    @property
    def word(self) -> str:
        """The state in a word."""
        return "missing" if self.state is None else str(self.state)

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        what = "" if self.problem is not None else "the selection of "
        where = space.describe(self.specialisation) if self.problem is None else str(self.problem)
        return f"{what}{named(self.kernel, self.device, where)}: {self.word}{reason}"


def in_numbers(rows: int, selections: int) -> str:
    """Return `3 rows and 1 selection`, without what there is none of."""
    counts = [counted(rows, "row")] if rows or not selections else []
    return " and ".join([*counts, counted(selections, "selection")] if selections else counts)


def in_numbers_of(found: Sequence[Unfresh]) -> str:
    """Return how many rows and selections these are."""
    selections = sum(one.problem is None for one in found)
    return in_numbers(len(found) - selections, selections)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockStatus:
    """A lock beside the specs: what of it holds, what is stale, and the lock as it is baked.

    `baked` has what holds, and of each stale row its default, where this is still what was measured: that problem runs
    it, and not what was found elsewhere. Of a stale selection it has the choices that still are what was measured.
    """

    holds: Lock
    stale: tuple[Unfresh, ...]
    baked: Lock


class Freshness:
    """Judges what locks hold by specs. One per build: it renders each configuration once."""

    def __init__(self, specs: Specs) -> None:
        self.specs = specs
        self._judges = {name: FreshnessJudge(spec) for name, spec in specs.items()}

    def unfresh(self, lock: Lock, devices: Iterable[str] = ()) -> Iterator[Unfresh]:
        """Yield what is not fresh in `lock`: its own rows and selections, then rows that `devices` lack.

        What is of a kernel, or at a size, that no longer exists is yielded as stale.
        """
        entries: tuple[Row | Selection, ...] = (*lock.rows, *lock.selections)
        for entry in entries:
            state, reason = self.judge(entry)
            if state is not State.FRESH:
                problem = entry.problem if isinstance(entry, Row) else None
                yield _unfresh(entry.kernel, entry.device, entry.specialisation, problem, state, reason)
        known = set(lock.keys)
        for name, spec in self.specs.items():
            for device in devices:
                for problem in space.all_problems(spec):
                    if (name, device, problem) not in known:
                        yield _unfresh(name, device, problem.specialisation, problem, None)

    def unselected(self, lock: Lock, devices: Iterable[str]) -> Iterator[tuple[str, str, Pairs]]:
        """Yield kernel, device and specialisation where there are rows, but nothing decides between their sizes.

        Where no dim is free there is nothing between them.
        """
        chosen = {rule.key for rule in lock.selections}
        tuned = dict.fromkeys((row.kernel, row.device, row.specialisation) for row in lock.rows)
        for kernel, device, specialisation in tuned:
            spec = self.specs.get(kernel)
            if spec is None or not spec.free_dims or device not in devices:
                continue
            key = kernel, device, specialisation
            if key not in chosen and specialisation in set(space.specialisations(spec)):
                yield key

    def crowded(self, lock: Lock, most: int | None) -> Iterator[tuple[str, str, Pairs]]:
        """Yield the keys of selections that ship more than `most` configurations (None: any number)."""
        if most is not None:
            yield from (rule.key for rule in lock.selections if 1 + len(rule.choices) - rule.defaults > most)

    def otherwise_called(self, lock: Lock, calls: Calls) -> Iterator[tuple[str, str, Pairs]]:
        """Yield the keys of selections that were chosen by other calls than these, or by none."""
        for rule in lock.selections:
            called = calls.get(rule.kernel, {})
            now = {problem: count for problem, count in called.items() if problem.specialisation == rule.specialisation}
            if rule.kernel in self.specs and rule.usage != digest_of(now):
                yield rule.key

    def lossy(self, lock: Lock, max_loss: float | None) -> Iterator[str]:
        """Yield a line for each specialisation of `lock` that is not certified to lose at most `max_loss` (None: any).

        Where there is no other problem than those that have rows, a selection needs no certificate. Selections of other
        devices than GPUs are not held to it: their certificates are of few problems, and of times that mean nothing.
        """
        if max_loss is None:
            return
        lock = lock.of_gpus()
        for kernel, device, specialisation in self.unselected(lock, lock.devices):
            yield f"{named(kernel, device, space.describe(specialisation))}: no selection, so no certificate"
        for rule in (rule for rule in lock.selections if not rule.keeps_to(max_loss)):
            loses = (
                "not certified"
                if rule.certificate is None
                else f"loses {rule.certificate.inside.mean:.1%} on average, by its certificate"
            )
            yield f"{named(rule.kernel, rule.device, space.describe(rule.specialisation))}: {loses}"

    def judge(self, entry: Row | Selection) -> tuple[State, str]:
        """Return the state of a row or a selection, and why it is not fresh."""
        if entry.kernel not in self._judges:
            return State.STALE, "there is no such kernel"
        verdict = self._judges[entry.kernel].judge(entry)
        return verdict.state, verdict.reason

    def status(self, lock: Lock) -> LockStatus:
        """Return what of `lock` holds, and what is baked of it."""
        stale = {found.key: found for found in self.unfresh(lock) if found.state is State.STALE}
        judges = self._judges
        old_rows = [row for row in lock.rows if lockfile.row_key(row) in stale and row.kernel in judges]
        old_rules = [rule for rule in lock.selections if rule.key in stale and rule.kernel in judges]
        rows = [left for row in old_rows if (left := judges[row.kernel].remnant(row))]
        rules = [remnant for rule in old_rules if (remnant := judges[rule.kernel].selection_remnant(rule))]
        holds = lock.without(stale)
        named = {row.device for row in rows} | {rule.device for rule in rules}
        devices = holds.devices | {name: lock.devices[name] for name in named}
        return LockStatus(
            holds=holds, stale=tuple(stale.values()), baked=holds.updated(devices, rows, selections=rules)
        )

    def requests(
        self,
        lock: Lock,
        device: TuningDevice,
        *,
        everything: bool = False,
        max_loss: float | None = None,
        most: int | None = None,
    ) -> list[TuningRequest]:
        """Return what `device` needs tuned, so that all that it has is fresh; with `everything`, all of it anew.

        A selection is made where there is none, and anew where it is not fresh or loses more than `max_loss`. Where it
        ships more than `most` configurations its rows are decided anew too.
        """
        bad: set[tuple[str, Problem | Pairs]] = {
            (found.kernel, found.key[2]) for found in self.unfresh(lock, [device.name]) if found.device == device.name
        }
        if device.profile.tried_problems:
            bad |= {(kernel, specialisation) for kernel, _, specialisation in self.unselected(lock, [device.name])}
        bad |= {
            (rule.kernel, rule.specialisation)
            for rule in lock.selections
            if rule.device == device.name and not rule.keeps_to(max_loss)
        }
        crowded = {(kernel, chosen) for kernel, name, chosen in self.crowded(lock, most) if name == device.name}
        bad |= crowded
        bad |= {(row.kernel, row.problem) for row in lock.rows if (row.kernel, row.specialisation) in crowded}
        found = []
        for name, spec in self.specs.items():
            wanted = [problem for problem in space.all_problems(spec) if everything or (name, problem) in bad]
            select = tuple(chosen for chosen in space.specialisations(spec) if (name, chosen) in bad)
            if wanted or select:
                rows = {problem: lock.find(name, device.name, problem) for problem in wanted}
                incumbents = {
                    problem: tuple(choice.configuration for choice in row.choices)
                    for problem, row in rows.items()
                    if row is not None
                }
                held = tuple(r for r in lock.selections if (r.kernel, r.device) == (name, device.name))
                found.append(
                    TuningRequest(
                        spec=spec,
                        problems=tuple(wanted),
                        incumbents=incumbents,
                        suggested=_suggested(lock, name, device.name, wanted),
                        selections=held,
                        select=select,
                    )
                )
        return found


def _suggested(
    lock: Lock, kernel: str, device: str, problems: Iterable[Problem]
) -> dict[Problem, tuple[Configuration, ...]]:
    """Return what won at each problem's sizes on other devices and in other specialisations, in the lock's order."""
    rows: dict[Pairs, list[Row]] = {}
    for row in lock.rows:
        if row.kernel == kernel:
            rows.setdefault(row.problem.dims, []).append(row)
    found = {
        problem: tuple(
            dict.fromkeys(
                row.winner.configuration
                for row in rows.get(problem.dims, ())
                if (row.device, row.problem) != (device, problem)
            )
        )
        for problem in problems
    }
    return {problem: won for problem, won in found.items() if won}


def named(kernel: str, device: str, where: str) -> str:
    """Return what messages call rows or a selection of a kernel."""
    return f"{kernel} on {device}{f' at {where}' if where else ''}"


def _unfresh(
    kernel: str, device: str, specialisation: Pairs, problem: Problem | None, state: State | None, reason: str = ""
) -> Unfresh:
    return Unfresh(
        kernel=kernel, device=device, specialisation=specialisation, problem=problem, state=state, reason=reason
    )
