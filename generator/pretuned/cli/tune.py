"""`pretuned tune`: tune what the lock lacks on this machine's GPU, and write the lock."""

from __future__ import annotations

import json
from argparse import Namespace

from pretuned.api.asked import TuningOptions
from pretuned.api.projects import opened
from pretuned.api.tuning import TuningResult, tune_project
from pretuned.cli.display import shown
from pretuned.cli.project import console
from pretuned.config import Project
from pretuned.errors import ExitCode, UsageError, counted
from pretuned.record import lock as lockfile
from pretuned.record.rows import rank_of_effort
from pretuned.report.certificates import summary
from pretuned.report.effort import by_kernel, stages
from pretuned.report.text import columns, table
from pretuned.tune.confirmation import in_words


def run(options: Namespace) -> ExitCode:
    """Tune what is stale and missing (with `--force` all) or renew certificates, write the lock, and print that."""
    if options.certify is not None and (options.force or options.from_usage is not None):
        raise UsageError("`--certify` tunes nothing; leave out --force, and write --usage in place of --from-usage")
    if options.again and (options.force or options.certify is not None or options.from_usage is not None):
        raise UsageError("`--again` names all that is tuned; leave out --force, --certify and --from-usage")
    project, settings = opened(options.project, options.on)
    asked = TuningOptions(
        kernels=options.kernel or (),
        budget_s=options.budget,
        force=options.force,
        max_loss=options.max_loss,
        strategy=options.strategy,
        effort=options.effort,
        usage=options.usage,
        from_usage=options.from_usage,
        certify=options.certify,
        seed=options.seed,
        again=options.again or (),
        executor=options.dask,
        processes=options.processes,
    ).completed(settings)
    with shown(settings.progress, verbose=options.verbose) as listen:
        result = tune_project(project, settings, asked, listen, console)
    if result.idle:
        _print_idle(options, result)
    else:
        _print(options, asked, project, result)
    _print_lesser(project, asked, result)
    try:
        result.demand()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    return ExitCode.SUCCESS


def _print_idle(options: Namespace, result: TuningResult) -> None:
    """Print that everything is fresh, and what was removed that the specs no longer have."""
    removed = f"; {counted(result.obsolete, 'obsolete row')} removed" if result.changed else ""
    rows = "every row" if options.from_usage is None else "every row that was called"
    console.info(f"{result.lock.name}: {rows} for {result.device} is fresh; nothing to tune{removed}")
    if options.json:
        print(json.dumps(result.to_json(), indent=2))


def _print_lesser(project: Project, asked: TuningOptions, result: TuningResult) -> None:
    """Print what of the lock was tuned with less effort than is asked for now, which leaves it fresh."""
    wanted, lock = asked.effort or project.effort, lockfile.read(project.lock)
    counts = [
        sum(
            rank_of_effort(one.effort) < rank_of_effort(wanted)
            and one.device in result.tuned.devices
            and (not asked.kernels or one.kernel in asked.kernels)
            for one in lines
        )
        for lines in (lock.rows, lock.selections)
    ]
    if any(counts):
        named = " and ".join(counted(n, what) for n, what in zip(counts, ("row", "selection"), strict=True) if n)
        console.info(f"{named} of less effort left as they are: `--force` tunes them with `{wanted}`")


def _print(options: Namespace, asked: TuningOptions, project: Project, result: TuningResult) -> None:
    tuned = result.tuned
    if options.json:
        print(json.dumps(result.to_json(), indent=2))
    else:
        blocks = [table(list(result.rows)), "\n".join(summary(tuned.certified, result.max_loss))]
        if (tuned.rows or tuned.certified) and not tuned.device.backend.ships:
            held = ", and the table's max-loss holds GPUs alone" if project.max_loss is not None else ""
            blocks.append(f"times of the {tuned.device.name} device say nothing about a GPU{held}")
        print("".join(f"{block}\n\n" for block in blocks if block), end="")
        print("\n".join([*stages(tuned.spending), *result.gains.lines()]))
        print("".join(f"{line}\n" for line in (in_words(tuned.confirmed), *tuned.notes) if line), end="")
        if options.verbose:
            table_of_kernels = by_kernel(tuned.spending)
            print()
            print("\n".join(columns(table_of_kernels, frozenset(range(1, len(table_of_kernels[0]))))))
    confirmed = tuned.rows and not (tuned.wrong or tuned.left)
    unchanged = "every row confirmed, nothing to write" if confirmed else "nothing to write"
    console.info(f"{project.lock.name}: " + ("written" if result.changed else unchanged))
    if tuned.interrupted:
        console.info("interrupted; what was measured is kept")
    if tuned.left and not tuned.wrong:
        left = f"{counted(tuned.left, 'row')} not reached"
        measured = f"no time was given to measure anything: {left}; give `--budget` some seconds, or `none`"
        console.info(measured if asked.budget_s == 0 else f"run the same command again to go on: {left}")
    if noisy := [row for row in tuned.rows if row.noise]:
        again = " ".join(f"--again {name}" for name in dict.fromkeys(row.kernel for row in noisy))
        console.info(
            f"{counted(len(noisy), 'row')} noisy ({noisy[0].noise}): `sudo nvidia-smi --lock-gpu-clocks=MHZ`, with a "
            f"clock that the GPU holds under load, keeps clocks steady; then `pretuned tune {again}`, and "
            "`sudo nvidia-smi --reset-gpu-clocks`"
        )
