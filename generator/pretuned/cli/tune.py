"""`pretuned tune`: tune what the lock lacks on this machine's GPU, and write the lock."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pretuned.build import usage
from pretuned.build.freshness import Freshness
from pretuned.build.usage import Usage
from pretuned.cli.progress import progress_line
from pretuned.cli.project import UsageError, console, place_of, specs_of
from pretuned.config import Project
from pretuned.errors import DeviceError, ExitCode, LockError, counted
from pretuned.measure.runner import TuningError
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.report.certificates import certificate_json, summary
from pretuned.report.effort import by_kernel, describe, stages
from pretuned.report.lines import of_rows
from pretuned.report.text import columns, table
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Pairs, Problem, all_problems, specialisations
from pretuned.strategies import named
from pretuned.tune.events import (
    Certified,
    Decided,
    Effort,
    Event,
    Failed,
    Listener,
    Measuring,
    Noisy,
    OutOfBudget,
    Passed,
    Planned,
    Refining,
    Waiting,
)
from pretuned.tune.request import TuningDevice, TuningRequest, find_device, label
from pretuned.tune.session import Tuned, tune
from pretuned.tune.workbench import Demands


def run(options: Namespace) -> ExitCode:
    """Tune what is stale and missing (with `--force` all) or renew certificates, write the lock, and print that."""
    named(options.strategy)  # an unknown one is an error, even if there is nothing to tune
    project, settings = place_of(options)
    specs = specs_of(project, options.kernel)
    lock = lockfile.read(project.lock)
    device = find_device(settings.device, lock.devices)
    if device is None:
        raise DeviceError(
            "use `--on host` to try things on this machine's processor: "
            f"there is no {label(settings.device)} here to tune on (`pretuned devices` lists what there is)"
        )
    wanted = _wanted(options, project, lock, specs, device)
    if not wanted:
        return _nothing(options, project, lock, device)
    demands = _demands(options, project, device)
    with _progress(verbose=options.verbose) as listen:
        tuned = tune(
            wanted,
            device,
            cache_folder=None if options.force else settings.cache,
            budget_s=settings.budget_s if options.budget is None else options.budget,
            demands=demands,
            listen=listen,
        )
    lock = lockfile.read(project.lock)  # which the tuning of another GPU may have written meanwhile
    kept = lock.without([] if options.kernel else _obsolete(project, lock))
    renewed = [] if options.certify is None else [rule.key for rule in tuned.selections]
    fresh = kept.without(renewed).updated(
        {device.name: device.record},
        tuned.rows,
        tuned.skipped,
        tuned.selections,
        max_loss=demands.max_loss,
    )
    changed = lockfile.write(project.lock, fresh)
    _print(options, project, tuned, changed=changed)
    if tuned.wrong:
        raise TuningError(tuned.wrong)
    if tuned.trouble:
        raise DeviceError(tuned.trouble)
    return ExitCode.INTERRUPTED if tuned.interrupted else ExitCode.SUCCESS


def _wanted(
    options: Namespace, project: Project, lock: Lock, specs: Mapping[str, KernelSpec], device: TuningDevice
) -> list[TuningRequest]:
    """Return what is to be tuned, or to be certified."""
    called = _called(options, project, specs)
    if options.certify is not None:
        return usage.weighed(_certifications(options, project, lock, specs, device), called)
    max_loss = _demands(options, project, device).max_loss
    most = project.max_configurations
    wanted = Freshness(specs).requests(lock, device, everything=options.force, max_loss=max_loss, most=most)
    wanted = usage.weighed(wanted, called)
    return usage.narrowed(wanted, called) if options.from_usage is not None and called is not None else wanted


def _certifications(
    options: Namespace, project: Project, lock: Lock, specs: Mapping[str, KernelSpec], device: TuningDevice
) -> list[TuningRequest]:
    """Return requests to renew the certificates of the device's selections; raises LockError where it has none."""
    if options.force or options.from_usage is not None:
        raise UsageError("`--certify` tunes nothing; leave out --force, and write --usage in place of --from-usage")
    fresh = Freshness(specs).status(lock).holds.selections
    rules = [rule for rule in fresh if rule.device == device.name and rule.kernel in specs]
    if not rules:
        raise LockError(
            f"{project.lock.name} has no selection for {device.name} that is not stale; run `pretuned tune`"
        )
    kernels = dict.fromkeys(rule.kernel for rule in rules)
    return [
        TuningRequest(spec=specs[name], problems=(), selections=tuple(rule for rule in rules if rule.kernel == name))
        for name in kernels
    ]


def _nothing(options: Namespace, project: Project, lock: Lock, device: TuningDevice) -> ExitCode:
    """Report that everything is fresh, and remove what the specs no longer have."""
    kept = lock.without([] if options.kernel else _obsolete(project, lock))
    gone = len(lock.rows) - len(kept.rows)
    changed = kept != lock and lockfile.write(project.lock, kept)
    removed = f"; {counted(gone, 'obsolete row')} removed" if changed else ""
    rows = "every row" if options.from_usage is None else "every row that was called"
    console.info(f"{project.lock.name}: {rows} for {device.name} is fresh; nothing to tune{removed}")
    if options.json:
        _print_json(Tuned(device=device, rows=(), skipped=(), left=0, effort=Effort()))
    return ExitCode.SUCCESS


def _called(options: Namespace, project: Project, specs: Mapping[str, KernelSpec]) -> Usage | None:
    """Return what was called by the file that the options name, else the table; raises UsageError for the options'."""
    file: Path | None = options.from_usage or options.usage
    if file is None:
        return usage.of_table(project, specs, console)
    try:
        called = usage.read(file, project, specs, console)
    except OSError as error:
        raise UsageError(f"'{file}' cannot be read: {error.strerror}") from None
    if not called:
        raise UsageError(
            f"run a program with PRETUNED_USAGE={file.name}, which adds its calls when it ends: "
            f"'{file}' has {usage.lacking(project, specs)}"
        )
    return called


def _demands(options: Namespace, project: Project, device: TuningDevice) -> Demands:
    """Return what the options ask for, else the table; on the host device only the option asks for a loss."""
    return Demands(
        strategy=named(options.strategy),
        max_configurations=project.max_configurations,
        max_loss=device.held_to(project.max_loss) if options.max_loss is None else options.max_loss,
        certify=options.certify,
        seed=options.seed,
    )


def _obsolete(project: Project, lock: Lock) -> list[lockfile.Key]:
    """Return what stands there for kernels, specialisations and problems that the specs no longer have."""
    specs = specs_of(project)
    wanted: set[tuple[str, Problem | Pairs]] = set()
    for name, spec in specs.items():
        wanted |= {(name, problem) for problem in all_problems(spec)}
        wanted |= {(name, specialisation) for specialisation in specialisations(spec)}
    return [key for key in lock.keys if (key[0], key[2]) not in wanted]


def _print(options: Namespace, project: Project, tuned: Tuned, *, changed: bool) -> None:
    if options.json:
        _print_json(tuned)
    else:
        max_loss = _demands(options, project, tuned.device).max_loss
        blocks = [table(of_rows(tuned.rows)), "\n".join(summary(tuned.certified, max_loss))]
        if (tuned.rows or tuned.certified) and not tuned.device.backend.ships:
            held = ", and the table's max-loss holds GPUs alone" if project.max_loss is not None else ""
            blocks.append(f"times of the {tuned.device.name} device say nothing about a GPU{held}")
        print("".join(f"{block}\n\n" for block in blocks if block), end="")
        print("\n".join(stages(tuned.effort)))
        if options.verbose:
            table_of_kernels = by_kernel(tuned.effort)
            print()
            print("\n".join(columns(table_of_kernels, frozenset(range(1, len(table_of_kernels[0]))))))
    confirmed = tuned.rows and not (tuned.wrong or tuned.left)
    unchanged = "every row confirmed, nothing to write" if confirmed else "nothing to write"
    console.info(f"{project.lock.name}: " + ("written" if changed else unchanged))
    if tuned.interrupted:
        console.info("interrupted; what was measured is kept")
    if tuned.left and not tuned.wrong:
        console.info(f"run the same command again to go on: {counted(tuned.left, 'row')} not reached")


def _print_json(tuned: Tuned) -> None:
    data = {
        "device": tuned.device.name,
        "rows": [line.to_json() for line in of_rows(tuned.rows)],
        "certificates": list(map(_certified, tuned.certified)),
        "left": tuned.left,
        "seconds": {name: round(seconds, 3) for name, seconds in tuned.effort.seconds.items()},
        "device seconds": round(tuned.effort.device_s, 3),
        "pruned": dict(tuned.effort.pruned),
        "compiled": tuned.effort.compiled,
        "launched": tuned.effort.launched,
    }
    print(json.dumps(data, indent=2))


def _certified(event: Certified) -> dict[str, object]:
    return {
        "kernel": event.kernel,
        "specialisation": dict(event.specialisation),
        **certificate_json(event.certificate),
        "refinements": event.attempts,
        "budget spent": event.spent,
    }


@contextmanager
def _progress(*, verbose: bool) -> Iterator[Listener]:
    """Show progress: a bar on a terminal, lines elsewhere, every step with `verbose`."""
    with progress_line(quiet=verbose) as line:
        if line is None:
            yield lambda event: _line(event, verbose=verbose)
            return

        def listen(event: Event) -> None:
            match event:
                case Measuring(kernel=kernel, problem=problem, done=done, rows=rows):
                    line.show(f"{kernel} {problem}", done, rows)
                case Failed() | OutOfBudget() | Passed() | Waiting() | Planned() | Noisy():
                    line.print(describe(event))
                case _:
                    line.show(describe(event))

        yield listen


_TOLD: Final = Waiting | Planned | Noisy | Decided | Passed | Refining | Certified | OutOfBudget


def _line(event: Event, *, verbose: bool) -> None:
    if verbose or isinstance(event, _TOLD):
        console.info(describe(event))
