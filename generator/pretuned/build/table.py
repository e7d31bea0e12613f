"""Which rows a build bakes: those of the lock that still hold, and what tuning adds, as the mode has it.

| mode | lock | tuning |
| --- | --- | --- |
| auto | fresh rows are used, stale ones left out with a warning | what this GPU lacks, within the budget |
| locked | every row must be fresh and none missing, or it is an error | never |
| force | ignored, and the cache too | everything, on this GPU, which must be there |
| off | ignored | never: only defaults are baked |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pretuned.config import Project, Settings
from pretuned.errors import DeviceError, LockError
from pretuned.record import lock as lockfile
from pretuned.record.freshness import Judge, State
from pretuned.record.lock import Lock
from pretuned.record.rows import Device, Row
from pretuned.spec import space
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Problem
from pretuned.tune.demand import Demand
from pretuned.tune.progress import Listener
from pretuned.tune.session import Tuned, find_target, tune
from pretuned.tune.target import Target

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is not fresh: a row of the lock with its state, or a problem without a row (`state` None)."""

    kernel: str
    device: str
    problem: Problem
    state: State | None
    reason: str

    def __str__(self) -> str:
        what = "missing" if self.state is None else str(self.state)
        return f"{self.kernel} on {self.device} at {self.problem}: {what}" + (
            f" ({self.reason})" if self.reason else ""
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows to bake, their devices, and what was tuned for them, if anything."""

    rows: tuple[Row, ...]
    devices: Mapping[str, Device]
    tuned: Tuned | None = None


def problems_of(spec: KernelSpec) -> list[Problem]:
    """Return every problem that a spec asks to be measured and the kernel admits."""
    return [
        problem
        for specialisation in space.specialisations(spec)
        for problem in space.problems(spec, specialisation)
        if space.admitted(spec, problem)
    ]


def findings(specs: Mapping[str, KernelSpec], lock: Lock, devices: Mapping[str, Device]) -> Iterator[Finding]:
    """Yield what is not fresh in `lock`: its own rows, then what is missing for each of `devices`.

    A row of a kernel, or at a size, that no longer exists is yielded as stale.
    """
    judges = {name: Judge(spec) for name, spec in specs.items()}
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
    known = {lockfile.row_key(row) for row in lock.rows}
    known |= {(entry.kernel, entry.device, entry.problem) for entry in lock.skipped}
    for name, spec in specs.items():
        for device in devices:
            for problem in problems_of(spec):
                if (name, device, problem) not in known:
                    yield Finding(kernel=name, device=device, problem=problem, state=None, reason="")


def demands(specs: Mapping[str, KernelSpec], lock: Lock, target: Target, *, everything: bool = False) -> list[Demand]:
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
            incumbents = {problem: row.winner.configuration for problem, row in rows.items() if row is not None}
            found.append(Demand(spec=spec, problems=tuple(wanted), incumbents=incumbents))
    return found


def resolve(
    project: Project,
    settings: Settings,
    specs: Mapping[str, KernelSpec],
    say: Say,
    listen: Listener,
    *,
    host_rows: bool = False,
) -> Table:
    """Return the table that a build in the project's mode bakes; `project` has the environment laid over it.

    Rows of the host device are left out, wherever they come from, unless `host_rows` asks for them.
    """
    match project.mode:
        case "off":
            say("mode off: only the defaults are baked")
            return Table(rows=(), devices={})
        case "locked":
            table = _locked(project, specs, host_rows=host_rows)
        case "force":
            table = _force(project, settings, specs, say, listen)
        case "auto":
            table = _auto(project, settings, specs, say, listen, host_rows=host_rows)
    return table if host_rows else _of_gpus(table, say)


def _of_gpus(table: Table, say: Say) -> Table:
    """Return a table without the host device's rows, and say so."""
    rows = tuple(row for row in table.rows if not table.devices[row.device].is_host)
    if len(rows) < len(table.rows):
        say(
            f"{len(table.rows) - len(rows)} rows of the host device are not baked: its times say nothing of a GPU "
            "(`pretuned bake --on host` bakes them)"
        )
    devices = {name: device for name, device in table.devices.items() if not device.is_host}
    return Table(rows=rows, devices=devices, tuned=table.tuned)


def _read(project: Project, *, host_rows: bool) -> Lock:
    lock = lockfile.read(project.lock)
    return lock if host_rows else lock.of_gpus()


def _locked(project: Project, specs: Mapping[str, KernelSpec], *, host_rows: bool) -> Table:
    lock = _read(project, host_rows=host_rows)
    if not lock.rows:
        raise LockError(f"mode locked: {project.lock.name} has no rows; run `pretuned tune` on a GPU and commit it")
    wrong = list(findings(specs, lock, lock.devices))
    if wrong:
        lines = "\n".join(f"  {finding}" for finding in wrong)
        raise LockError(f"mode locked: {project.lock.name} is not fresh; run `pretuned tune` and commit it:\n{lines}")
    return Table(rows=lock.rows, devices=lock.devices)


def _force(project: Project, settings: Settings, specs: Mapping[str, KernelSpec], say: Say, listen: Listener) -> Table:
    target = find_target(settings.device, {})
    if target is None:
        raise DeviceError(f"mode force: there is no GPU {settings.device} to tune on; use mode auto or locked here")
    wanted = demands(specs, Lock(), target, everything=True)
    tuned = tune(wanted, target, index=settings.device, cache_folder=None, budget_s=project.budget_s, listen=listen)
    _tell(tuned, say, whole=True)
    return Table(rows=tuned.rows, devices={target.name: target.device}, tuned=tuned)


def _auto(
    project: Project,
    settings: Settings,
    specs: Mapping[str, KernelSpec],
    say: Say,
    listen: Listener,
    *,
    host_rows: bool,
) -> Table:
    lock = _read(project, host_rows=host_rows)
    target = find_target(settings.device, lock.devices)
    stale = [finding for finding in findings(specs, lock, {}) if finding.state is State.STALE]
    for finding in stale:
        say(f"warning: {project.lock.name}: {finding}; not baked")
    base = lock.without((finding.kernel, finding.device, finding.problem) for finding in stale)
    wanted = [] if target is None else demands(specs, lock, target)
    if target is None or not wanted:
        _tell_untuned(project, base, target, specs, say)
        _tell_outdated(project, base, specs, say)
        return Table(rows=base.rows, devices=base.devices)
    try:
        tuned = tune(
            wanted,
            target,
            index=settings.device,
            cache_folder=settings.cache,
            budget_s=project.budget_s,
            listen=listen,
        )
    except DeviceError as error:
        if project.require_tuned:
            raise
        say(f"warning: {target.name} is here, but nothing was tuned: {error}")
        return Table(rows=base.rows, devices=base.devices)
    _tell(tuned, say, whole=project.require_tuned)
    _require(project, tuned.left, f"the budget of {project.budget_s:g} s left out")
    merged = base.updated({target.name: target.device}, tuned.rows, tuned.skipped)
    return Table(rows=merged.rows, devices=merged.devices, tuned=tuned)


def _tell_untuned(
    project: Project, lock: Lock, target: Target | None, specs: Mapping[str, KernelSpec], say: Say
) -> None:
    """Say what is baked without tuning, and why; or refuse, where the project demands tuned rows."""
    if target is not None:
        say(f"{target.name}: every row of {project.lock.name} is fresh; nothing to tune")
        return
    known = {(row.kernel, row.problem) for row in lock.rows} | {(entry.kernel, entry.problem) for entry in lock.skipped}
    wanted = {(name, problem) for name, spec in specs.items() for problem in problems_of(spec)}
    _require(project, len(wanted - known), f"there is no GPU, and {project.lock.name} lacks")
    if lock.rows:
        say(f"no GPU here: baking {len(lock.rows)} rows of {project.lock.name} for {', '.join(lock.devices)}")
    else:
        say(
            f"warning: no GPU here and no rows in {project.lock.name}: only the defaults are baked; "
            "run `pretuned tune` on a machine with a GPU and commit the lock"
        )


def _tell_outdated(project: Project, lock: Lock, specs: Mapping[str, KernelSpec], say: Say) -> None:
    """Say that rows are baked which hold, but of which more could be known."""
    found = [finding for finding in findings(specs, lock, {}) if finding.state is not None]
    if found:
        say(f"note: {len(found)} rows of {project.lock.name} are baked but not up to date; first: {found[0]}")


def _require(project: Project, missing: int, why: str) -> None:
    if project.require_tuned and missing:
        raise DeviceError(f"require-tuned: {why} {missing} rows")


def _tell(tuned: Tuned, say: Say, *, whole: bool = False) -> None:
    """Say what was tuned; a build that its user interrupts ends, and with `whole` one that loses the device."""
    if tuned.interrupted:
        raise KeyboardInterrupt
    if tuned.trouble and whole:
        raise DeviceError(tuned.trouble)
    if tuned.trouble:
        say(f"warning: the tuning ended early: {tuned.trouble}")
    effort = tuned.effort
    stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in effort.longest() if seconds >= 0.05)  # noqa: PLR2004 - shown to a tenth
    say(
        f"{tuned.target.name}: {len(tuned.rows)} rows, {effort.compiled} modules compiled, "
        f"{effort.launched} measurements" + (f"; seconds: {stages}" if stages else "")
    )
    if tuned.left and not tuned.trouble:
        say(
            f"warning: the budget ended {tuned.left} rows early; what was measured is kept: build again, raise "
            "`budget`, or run `pretuned tune`"
        )
