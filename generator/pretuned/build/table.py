"""Which rows a build bakes: those of the lock that still hold, and what tuning adds, as the mode has it.

| mode | lock | tuning |
| --- | --- | --- |
| auto | fresh rows; in place of stale ones the default, with a warning | what this GPU lacks, within the budget |
| locked | every row must be fresh and none missing, or it is an error | never |
| force | ignored, and past measurements too | everything, on this GPU |
| off | ignored | never: only defaults are baked |

A build without a usable GPU does not fail: it reports so in one line, and bakes what it has. Only
`require-tuned` makes that an error. A GPU that another tuning uses is waited for, up to a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pretuned.build.between_sizes import report_between_sizes, warn_of_unselected
from pretuned.build.freshness import (
    Freshness,
    LockStatus,
    Specs,
    Unfresh,
    in_numbers,
    in_numbers_of,
)
from pretuned.build.tuning import tuned_in_build
from pretuned.config import Project, Settings, place_of
from pretuned.diagnostics import Reporter
from pretuned.errors import DeviceError, LockError, counted
from pretuned.measure.runner import TuningError
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.record.rows import Row, TunedDevice
from pretuned.record.selections import Selection
from pretuned.spec.space import all_problems
from pretuned.tune.events import Listener
from pretuned.tune.request import TuningDevice, find_device, label, warn_of_silent
from pretuned.tune.session import Tuned

LISTED: Final = 10  # rows that an error names


@dataclass(frozen=True, slots=True, kw_only=True)
class BakedRows:
    """The rows and selections to bake, their devices, and what was tuned for them, if anything."""

    rows: tuple[Row, ...]
    devices: Mapping[str, TunedDevice]
    selections: tuple[Selection, ...] = ()
    tuned: Tuned | None = None

    @property
    def lock(self) -> Lock:
        """A lock that holds just this."""
        return Lock(devices=dict(self.devices), rows=self.rows, selections=self.selections)


def resolve(
    project: Project,
    settings: Settings,
    freshness: Freshness,
    reporter: Reporter,
    listen: Listener,
    *,
    every_backend: bool = False,
) -> BakedRows:
    """Return the table that a build in the project's mode bakes; `project` has the environment laid over it.

    Reports in one line what is baked and why, and warns of what is not as it should be. Rows of other devices
    than GPUs are left out, wherever they come from, unless `every_backend` asks for them.
    """
    match project.mode:
        case "off":
            _require(project, len(_wanted(freshness.specs)), "mode off leaves out")
            reporter.info("mode off: only the defaults are baked")
            return BakedRows(rows=(), devices={})
        case "locked":
            table = _locked(project, freshness, reporter, every_backend=every_backend)
        case "force":
            table = _force(project, settings, freshness, reporter, listen)
        case "auto":
            table = _auto(project, settings, freshness, reporter, listen, every_backend=every_backend)
    table = table if every_backend else _of_gpus(table, reporter)
    _hold_losses(project, list(freshness.lossy(table.lock, project.max_loss)))
    tuned = table.tuned
    if tuned is None:
        report_between_sizes(project, table.lock, freshness, reporter, "run `pretuned tune`")
    elif not (tuned.left or tuned.trouble):  # which have been reported
        advice = "build again, raise `budget`, or run `pretuned tune`"
        warn_of_unselected(project, table.lock, freshness, reporter, advice)
    return table


def _hold_losses(project: Project, lossy: Sequence[str]) -> None:
    """Raise LockError where what would be baked is not certified to keep to the table's `max-loss`."""
    if lossy:
        raise LockError(
            "max-loss: run `pretuned tune` with a larger budget, or raise `max-loss` in the table "
            f"({project.max_loss:g} now): what would be baked does not keep to it:\n{_listed(lossy)}"
        )


def _listed(lines: Sequence[str]) -> str:
    more = [f"and {len(lines) - LISTED} more: `pretuned check`"] if len(lines) > LISTED else []
    return "\n".join(f"  {line}" for line in [*lines[:LISTED], *more])


def _of_gpus(table: BakedRows, reporter: Reporter) -> BakedRows:
    """Return a table without the rows of other devices than GPUs, and report that they are left out."""
    rows = tuple(row for row in table.rows if table.devices[row.device].is_gpu)
    if len(rows) < len(table.rows):
        others = " and ".join(sorted({row.device for row in table.rows} - {row.device for row in rows}))
        reporter.info(
            f"{counted(len(table.rows) - len(rows), 'row')} of the device {others} left out: its times say nothing "
            f"about a GPU (`pretuned bake --on {others}` bakes them)"
        )
    selections = tuple(rule for rule in table.selections if table.devices[rule.device].is_gpu)
    devices = {name: device for name, device in table.devices.items() if device.is_gpu}
    return BakedRows(rows=rows, selections=selections, devices=devices, tuned=table.tuned)


def _read(project: Project, *, every_backend: bool) -> Lock:
    lock = lockfile.read(project.lock)
    return lock if every_backend else lock.of_gpus()


def _wanted(specs: Specs) -> set[tuple[str, object]]:
    return {(name, problem) for name, spec in specs.items() for problem in all_problems(spec)}


def _locked(project: Project, freshness: Freshness, reporter: Reporter, *, every_backend: bool) -> BakedRows:
    lock = _read(project, every_backend=every_backend)
    if not lock.rows:
        raise LockError(f"mode locked: {project.lock.name} has no rows; run `pretuned tune` on a GPU and commit it")
    wrong = list(freshness.unfresh(lock, lock.devices))
    if wrong:
        lines = _listed(list(map(str, wrong)))
        raise LockError(f"mode locked: {project.lock.name} is not fresh; run `pretuned tune` and commit it:\n{lines}")
    if reason := unlockable(project, lock):
        raise LockError(f"mode locked: {project.lock.name}: {reason}")
    reporter.info(f"mode locked: {_baking(project.lock, lock)}, all fresh")
    return BakedRows(rows=lock.rows, selections=lock.selections, devices=lock.devices)


def unlockable(project: Project, lock: Lock) -> str:
    """Return why mode locked takes no such lock, though every row is fresh, or nothing: a build has one compiler."""
    versions = sorted(set(lock.of_gpus().compilers))
    if not project.cubins or not versions:
        return ""
    measured = f"its rows were measured with NVRTC {' and '.join(versions)}"
    if len(versions) > 1:
        return f"{measured}, and a build compiles with one; run `pretuned tune --force` with one NVRTC on every machine"
    if project.cuda is not None and not f"{versions[0]}.".startswith(f"{project.cuda}."):
        return f"{measured}, and `cuda` in the table asks for {project.cuda}; change it, or run `pretuned tune --force`"
    return ""


def _force(
    project: Project, settings: Settings, freshness: Freshness, reporter: Reporter, listen: Listener
) -> BakedRows:
    warn_of_silent(place_of(project, settings.device), reporter)
    device = find_device(place_of(project, settings.device), {})
    tuned, trouble = None, f"there is no {label(settings.device)} here"
    if device is not None:
        wanted = freshness.requests(Lock(), device, everything=True)
        tuned, trouble = tuned_in_build(project, settings, wanted, device, reporter, listen)
    if tuned is None:
        _require(project, len(_wanted(freshness.specs)), f"{trouble}, so mode force leaves out")
        reporter.warning(f"mode force: {trouble}: only the defaults are baked")
        return BakedRows(rows=(), devices={})
    _report(project, tuned, reporter)
    devices = {tuned.device.name: tuned.device.record}
    return BakedRows(rows=tuned.rows, selections=tuned.selections, devices=devices, tuned=tuned)


def _auto(
    project: Project,
    settings: Settings,
    freshness: Freshness,
    reporter: Reporter,
    listen: Listener,
    *,
    every_backend: bool,
) -> BakedRows:
    lock = _read(project, every_backend=every_backend)
    warn_of_silent(place_of(project, settings.device), reporter)
    device = find_device(place_of(project, settings.device), lock.devices)
    now = freshness.status(lock)
    wanted = (
        []
        if device is None
        else freshness.requests(
            lock, device, max_loss=device.held_to(project.max_loss), most=project.max_configurations
        )
    )
    if device is None or not wanted:
        _report_untuned(project, now, device, freshness, reporter)
        return _as_it_is(project, now, freshness, reporter)
    tuned, trouble = tuned_in_build(project, settings, wanted, device, reporter, listen)
    if tuned is None:
        lacking = sum(len(request.problems) for request in wanted)
        _require(project, lacking, f"{trouble}; {device.name} lacks")
        reporter.warning(f"{device.name} is here, but nothing was tuned: {trouble}: {_baking(project.lock, now.baked)}")
        return _as_it_is(project, now, freshness, reporter)
    _report(project, tuned, reporter)
    merged = now.baked.updated(
        {device.name: device.record},
        tuned.rows,
        tuned.skipped,
        tuned.selections,
        max_loss=device.held_to(project.max_loss),
    )
    _report_stale(project, [found for found in now.stale if found.key not in _keys(tuned)], freshness, reporter)
    return BakedRows(rows=merged.rows, selections=merged.selections, devices=merged.devices, tuned=tuned)


def _keys(tuned: Tuned) -> set[lockfile.Key]:
    rows = map(lockfile.row_key, tuned.rows)
    return {*rows, *(rule.key for rule in tuned.selections), *(entry.key for entry in tuned.skipped)}


def _baking(file: Path, lock: Lock) -> str:
    """Return what is baked of a lock, in words."""
    if not lock.rows:
        return "only the defaults are baked"
    devices = ", ".join(sorted({row.device for row in lock.rows}))
    return f"baking {in_numbers(len(lock.rows), len(lock.selections))} of {file.name} for {devices}"


def _as_it_is(project: Project, now: LockStatus, freshness: Freshness, reporter: Reporter) -> BakedRows:
    """Return what of the lock may be baked, and report what is not fresh."""
    _report_stale(project, now.stale, freshness, reporter)
    if found := list(freshness.unfresh(now.holds)):
        text = f"{in_numbers_of(found)} baked though not up to date"
        reporter.info(text, place=project.lock.name, remedy=f"run `pretuned tune`; first: {found[0]}")
    return BakedRows(rows=now.baked.rows, selections=now.baked.selections, devices=now.baked.devices)


def _report_stale(project: Project, stale: Iterable[Unfresh], freshness: Freshness, reporter: Reporter) -> None:
    """Warn of what is stale, one line per kernel."""
    by_kernel: dict[str, list[Unfresh]] = {}
    for finding in stale:
        by_kernel.setdefault(finding.kernel, []).append(finding)
    for kernel, found in by_kernel.items():
        known = kernel in freshness.specs
        what = "stale, so the default is baked instead" if known else "not baked"
        remedy = "run `pretuned tune`" if known else "run `pretuned prune --stale`"
        reporter.warning(
            f"{in_numbers_of(found)} {what}",
            place=f"{project.lock.name}: {kernel}",
            remedy=f"{remedy}; first: {found[0]}",
        )


def _report_untuned(
    project: Project, now: LockStatus, device: TuningDevice | None, freshness: Freshness, reporter: Reporter
) -> None:
    """Report what is baked without tuning, and why. Raises DeviceError where the project requires tuned rows."""
    lock = now.holds
    if device is not None:
        reporter.info(f"{device.name}: every row of {project.lock.name} is fresh; nothing to tune")
        return
    known = {(row.kernel, row.problem) for row in lock.rows} | {(entry.kernel, entry.problem) for entry in lock.skipped}
    _require(project, len(_wanted(freshness.specs) - known), f"there is no GPU, and {project.lock.name} lacks")
    if now.baked.rows:
        reporter.info(f"no GPU here: {_baking(project.lock, now.baked)}")
    else:
        what = "only stale rows" if now.stale else "no rows"
        reporter.warning(
            f"no GPU here and {what} in {project.lock.name}: only the defaults are baked",
            remedy="run `pretuned tune` on a machine with a GPU and commit the lock",
        )


def _require(project: Project, missing: int, why: str) -> None:
    if project.require_tuned and missing:
        raise DeviceError(f"require-tuned: {why} {counted(missing, 'row')}")


def _report(project: Project, tuned: Tuned, reporter: Reporter) -> None:
    """Report what was tuned. An interrupted build ends, and so does one that requires rows which it did not get."""
    if tuned.interrupted:
        raise KeyboardInterrupt
    if tuned.wrong:
        raise TuningError(tuned.wrong)
    if tuned.trouble and project.require_tuned:
        raise DeviceError(tuned.trouble)
    if tuned.trouble:
        reporter.warning(f"the tuning ended early: {tuned.trouble}")
    spending = tuned.spending
    stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in spending.longest() if seconds >= 0.05)  # noqa: PLR2004 - shown to a tenth
    why = "anew (mode force)" if project.mode == "force" else f"that {project.lock.name} lacks"
    done = f"{counted(spending.compiled, 'source')} compiled, {counted(spending.launched, 'measurement')}"
    seconds = f"; seconds: {stages}" if stages else ""
    found = in_numbers(len(tuned.rows), len(tuned.selections))
    reporter.info(f"{tuned.device.name}: tuned {found} {why}: {done}{seconds}")
    _require(project, tuned.left, "the tuning did not reach")
    if tuned.left and not tuned.trouble:
        reporter.warning(
            f"{counted(tuned.left, 'row')} not reached; what was measured is kept",
            remedy="build again, raise `budget`, or run `pretuned tune`",
        )
