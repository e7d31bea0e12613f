"""Which rows a build bakes: those of the lock that still hold, and what tuning adds, as the mode has it.

| mode | lock | tuning |
| --- | --- | --- |
| auto | fresh rows; in place of stale ones the default, with a warning | what this GPU lacks, within the budget |
| locked | every row must be fresh and none missing, or it is an error | never |
| force | ignored, and the cache too | everything, on this GPU |
| off | ignored | never: only defaults are baked |

No build fails for lack of a GPU, whatever is wrong with it: it says so in one line, and bakes what it has. Only
`require-tuned` makes that an error. A GPU that another tuning has is waited for, but not for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pretuned.build.findings import Finding, Specs, Standing, demands, findings, problems_of, standing
from pretuned.config import Project, Settings
from pretuned.errors import DeviceError, LockError
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.record.rows import Row, TunedDevice
from pretuned.tune.events import Event, Listener, Waiting
from pretuned.tune.request import TuningDevice, TuningRequest, find_target
from pretuned.tune.session import Tuned, tune

LISTED: Final = 10  # rows that an error names
PATIENCE: Final = 5  # times its budget a build waits for a GPU that other tunings have

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows to bake, their devices, and what was tuned for them, if anything."""

    rows: tuple[Row, ...]
    devices: Mapping[str, TunedDevice]
    tuned: Tuned | None = None


def resolve(
    project: Project, settings: Settings, specs: Specs, say: Say, listen: Listener, *, host_rows: bool = False
) -> Table:
    """Return the table that a build in the project's mode bakes; `project` has the environment laid over it.

    Says in one line what is baked and why, and a warning for what is amiss. Rows of the host device are left out,
    wherever they come from, unless `host_rows` asks for them.
    """
    match project.mode:
        case "off":
            _require(project, len(_wanted(specs)), "mode off leaves out")
            say("mode off: only the defaults are baked")
            return Table(rows=(), devices={})
        case "locked":
            table = _locked(project, specs, say, host_rows=host_rows)
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


def _wanted(specs: Specs) -> set[tuple[str, object]]:
    return {(name, problem) for name, spec in specs.items() for problem in problems_of(spec)}


def _locked(project: Project, specs: Specs, say: Say, *, host_rows: bool) -> Table:
    lock = _read(project, host_rows=host_rows)
    if not lock.rows:
        raise LockError(f"mode locked: {project.lock.name} has no rows; run `pretuned tune` on a GPU and commit it")
    wrong = list(findings(specs, lock, lock.devices))
    if wrong:
        lines = "\n".join(f"  {finding}" for finding in wrong[:LISTED])
        lines += f"\n  and {len(wrong) - LISTED} more: `pretuned check`" if len(wrong) > LISTED else ""
        raise LockError(f"mode locked: {project.lock.name} is not fresh; run `pretuned tune` and commit it:\n{lines}")
    say(f"mode locked: {_baking(project.lock, lock)}, all fresh")
    return Table(rows=lock.rows, devices=lock.devices)


def _force(project: Project, settings: Settings, specs: Specs, say: Say, listen: Listener) -> Table:
    target = find_target(settings.device, {})
    tuned, trouble = None, f"there is no GPU {settings.device} here"
    if target is not None:
        wanted = demands(specs, Lock(), target, everything=True)
        tuned, trouble = _tuned(project, settings, wanted, target, say, listen)
    if tuned is None:
        _require(project, len(_wanted(specs)), f"{trouble}, so mode force leaves out")
        say(f"warning: mode force: {trouble}: only the defaults are baked")
        return Table(rows=(), devices={})
    _tell(project, tuned, say)
    return Table(rows=tuned.rows, devices={tuned.target.name: tuned.target.device}, tuned=tuned)


def _auto(project: Project, settings: Settings, specs: Specs, say: Say, listen: Listener, *, host_rows: bool) -> Table:
    lock = _read(project, host_rows=host_rows)
    target = find_target(settings.device, lock.devices)
    now = standing(specs, lock)
    wanted = [] if target is None else demands(specs, lock, target)
    if target is None or not wanted:
        _tell_untuned(project, now, target, specs, say)
        return _as_it_is(project, now, specs, say)
    tuned, trouble = _tuned(project, settings, wanted, target, say, listen)
    if tuned is None:
        lacking = sum(len(demand.problems) for demand in wanted)
        _require(project, lacking, f"{trouble}; {target.name} lacks")
        say(f"warning: {target.name} is here, but nothing was tuned: {trouble}: {_baking(project.lock, now.baked)}")
        return _as_it_is(project, now, specs, say)
    _tell(project, tuned, say)
    merged = now.baked.updated({target.name: target.device}, tuned.rows, tuned.skipped)
    _tell_stale(project, [found for found in now.stale if found.key not in _keys(tuned)], specs, say)
    return Table(rows=merged.rows, devices=merged.devices, tuned=tuned)


def _tuned(
    project: Project,
    settings: Settings,
    wanted: Sequence[TuningRequest],
    target: TuningDevice,
    say: Say,
    listen: Listener,
) -> tuple[Tuned | None, str]:
    """Tune within the budget; return None and what is wrong where the GPU cannot be used, or is not to be had."""

    def heard(event: Event) -> None:
        if isinstance(event, Waiting):
            say(f"another tuning has {target.name}; waiting up to {PATIENCE * project.budget_s:g} s for it to end")
        listen(event)

    try:
        tuned = tune(
            wanted,
            target,
            index=settings.device,
            cache_folder=None if project.mode == "force" else settings.cache,
            budget_s=project.budget_s,
            patience_s=PATIENCE * project.budget_s,
            listen=heard,
        )
    except DeviceError as error:
        return None, str(error)
    return tuned, ""


def _keys(tuned: Tuned) -> set[lockfile.Key]:
    return {lockfile.row_key(row) for row in tuned.rows} | {entry.key for entry in tuned.skipped}


def _baking(file: Path, lock: Lock) -> str:
    """Return what is baked of a lock, in words."""
    if not lock.rows:
        return "only the defaults are baked"
    return f"baking {_rows(len(lock.rows))} of {file.name} for {', '.join(sorted({row.device for row in lock.rows}))}"


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _as_it_is(project: Project, now: Standing, specs: Specs, say: Say) -> Table:
    """Return what of the lock may be baked, and tell what is not as it should be."""
    _tell_stale(project, now.stale, specs, say)
    found = [finding for finding in findings(specs, now.holds, {}) if finding.state is not None]
    if found:
        say(f"note: {project.lock.name}: {_rows(len(found))} baked but not up to date; first: {found[0]}")
    return Table(rows=now.baked.rows, devices=now.baked.devices)


def _tell_stale(project: Project, stale: Iterable[Finding], specs: Specs, say: Say) -> None:
    """Warn of stale rows, a line a kernel."""
    by_kernel: dict[str, list[Finding]] = {}
    for finding in stale:
        by_kernel.setdefault(finding.kernel, []).append(finding)
    for kernel, found in by_kernel.items():
        instead = ", but the default in their place" if kernel in specs else ""
        say(f"warning: {project.lock.name}: {kernel}: {_rows(len(found))} stale, not baked{instead}; first: {found[0]}")


def _tell_untuned(project: Project, now: Standing, target: TuningDevice | None, specs: Specs, say: Say) -> None:
    """Say what is baked without tuning, and why; or refuse, where the project demands tuned rows."""
    lock = now.holds
    if target is not None:
        say(f"{target.name}: every row of {project.lock.name} is fresh; nothing to tune")
        return
    known = {(row.kernel, row.problem) for row in lock.rows} | {(entry.kernel, entry.problem) for entry in lock.skipped}
    _require(project, len(_wanted(specs) - known), f"there is no GPU, and {project.lock.name} lacks")
    if now.baked.rows:
        say(f"no GPU here: {_baking(project.lock, now.baked)}")
    else:
        what = "only stale rows" if now.stale else "no rows"
        say(
            f"warning: no GPU here and {what} in {project.lock.name}: only the defaults are baked; "
            "run `pretuned tune` on a machine with a GPU and commit the lock"
        )


def _require(project: Project, missing: int, why: str) -> None:
    if project.require_tuned and missing:
        raise DeviceError(f"require-tuned: {why} {_rows(missing)}")


def _tell(project: Project, tuned: Tuned, say: Say) -> None:
    """Say what was tuned; a build that its user interrupts ends, and so does one that requires rows it has not got."""
    if tuned.interrupted:
        raise KeyboardInterrupt
    if tuned.trouble and project.require_tuned:
        raise DeviceError(tuned.trouble)
    if tuned.trouble:
        say(f"warning: the tuning ended early: {tuned.trouble}")
    effort = tuned.effort
    stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in effort.longest() if seconds >= 0.05)  # noqa: PLR2004 - shown to a tenth
    why = "anew (mode force)" if project.mode == "force" else f"that {project.lock.name} lacks"
    say(
        f"{tuned.target.name}: tuned {_rows(len(tuned.rows))} {why}: {effort.compiled} modules compiled, "
        f"{effort.launched} measurements" + (f"; seconds: {stages}" if stages else "")
    )
    _require(project, tuned.left, f"the budget of {project.budget_s:g} s left out")
    if tuned.left and not tuned.trouble:
        say(
            f"warning: the budget ended {_rows(tuned.left)} early; what was measured is kept: build again, raise "
            "`budget`, or run `pretuned tune`"
        )
