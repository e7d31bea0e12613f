"""`pretuned.tune`: what the lock lacks, or has of yesterday, is tuned on a device of this machine, and written."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pretuned.api import crews
from pretuned.api.asked import TuningOptions, tuning_requests
from pretuned.api.merging import LockMerger
from pretuned.api.projects import CallingReporter, Report, ignore, opened, specs_of
from pretuned.config import Effort, Place, Project, Settings, place_of
from pretuned.diagnostics import Reporter
from pretuned.errors import DeviceError
from pretuned.fleet.tuning import FleetTerms, FleetWork
from pretuned.measure.runner import TuningError
from pretuned.outcome import kind_of
from pretuned.record import lock as lockfile
from pretuned.record.cache import Cache
from pretuned.record.lock import Lock
from pretuned.report.certificates import certificate_json
from pretuned.report.gains import Gains
from pretuned.report.lines import Line, of_rows
from pretuned.spec.space import Pairs, Problem, all_problems, specialisations
from pretuned.strategies import AUTO, named
from pretuned.tune.events import Certified, Listener
from pretuned.tune.request import TuningDevice, warn_of_silent
from pretuned.tune.session import Tuned
from pretuned.tune.spending import Spending


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningResult:
    """What a tuning did: the lock that it wrote, and what of that is new.

    `changed`: whether the lock is another one now. `idle`: all was fresh, and nothing was tuned. `obsolete`: rows that
    the lock had for what the specs no longer have. `max_loss`: the mean that certificates were held to, or None.
    `tuned` has all that was found, with the rows as the lock has them.
    """

    lock: Path
    changed: bool
    tuned: Tuned
    idle: bool = False
    obsolete: int = 0
    max_loss: float | None = None

    @property
    def device(self) -> str:
        """The name of the device, as rows have it; of several kinds all of them."""
        return ", ".join(self.tuned.devices)

    @property
    def rows(self) -> tuple[Line, ...]:
        """The rows that were tuned, with times in microseconds."""
        return tuple(of_rows(self.tuned.rows))

    @property
    def left(self) -> int:
        """How many rows were not reached: the budget ended before, or somebody ended the tuning."""
        return self.tuned.left

    @property
    def gains(self) -> Gains:
        """What the tuning gained, and what it cost."""
        return Gains.of(self.tuned.rows, self.tuned.spending)

    def demand(self) -> None:
        """Raise what ended the tuning early, or was wrong.

        TuningError for kernels that cannot be tuned, DeviceError where the device was lost, KeyboardInterrupt. What was
        settled before is in the lock.
        """
        if self.tuned.wrong:
            raise TuningError(self.tuned.wrong)
        if self.tuned.trouble:
            raise DeviceError(self.tuned.trouble)
        if self.tuned.interrupted:
            raise KeyboardInterrupt

    def to_json(self) -> dict[str, Any]:
        """Return plain data, as `pretuned tune --json` prints it."""
        spending = self.tuned.spending
        return {
            "device": self.device,
            "rows": [line.to_json() for line in self.rows],
            "certificates": list(map(_certified, self.tuned.certified)),
            "uncertified": [
                {"kernel": one.kernel, "specialisation": dict(one.specialisation)}
                for one in self.tuned.selections
                if one.certificate is None and not one.space  # for want of time
            ],
            "left": self.left,
            "seconds": {name: round(seconds, 3) for name, seconds in spending.seconds.items()},
            "device seconds": round(spending.device_s, 3),
            "gains": self.gains.to_json(),
            "pruned": dict(spending.pruned),
            "failed": {kind_of(kind): count for kind, count in spending.failed.items()},
            "compiled": spending.compiled,
            "launched": spending.launched,
            "confirmed": [one.to_json() for one in self.tuned.confirmed],
            "workers": list(self.tuned.notes),
        }


def tune(  # noqa: PLR0913 - each is a keyword
    project: str | Path = ".",
    *,
    kernels: Sequence[str] = (),
    on: Place | str | None = None,
    budget_s: float | None = None,
    force: bool = False,
    max_loss: float | None = None,
    strategy: str = AUTO,
    effort: Effort | None = None,
    usage: str | Path | None = None,
    from_usage: str | Path | None = None,
    certify: int | None = None,
    seed: int | None = None,
    again: Sequence[str] = (),
    executor: Executor | str | None = None,
    processes: int | None = None,
    listen: Listener = ignore,
    report: Report = ignore,
) -> TuningResult:
    """Tune what a project's lock lacks, and what has changed, and write it; the same call goes on where one ended.

    Args:
        project: The folder of pyproject.toml.
        kernels: The names of the only kernels to tune; others may be wrong.
        on: `"cuda"`, `"cuda:1"`, or `"host"`, with a lock of its own. Default: PRETUNED_TUNE_ON, or all GPUs here.
        budget_s: Seconds of tuning to stop after; with 0 only past measurements count, and math.inf is no limit.
            Default: PRETUNED_BUDGET, or no limit.
        force: Tune everything anew, fresh rows too, and ignore past measurements.
        max_loss: Refine until certificates say this mean loss or less, 0.02 for 2%. Default: the table's `max-loss`.
        strategy: How large spaces are searched: a registered name, or `"package.module:Class"`.
        effort: How much is tried: `"fast"`, `"default"` or `"thorough"`. Default: PRETUNED_EFFORT, or the table's.
        usage: A usage file by whose calls problems weigh. Default: the table's `usage`.
        from_usage: A usage file: tune only what it has, the most called first.
        certify: Only renew the certificates of the lock, at so many fresh problems of each specialisation.
        seed: What draws the problems of certificates. Default: one more than the last certificate's.
        again: Tune only these rows, anew: `"KERNEL"`, or `"KERNEL:NAME=VALUE,..."` for those with these values.
        executor: Whose workers tune, all on one kind of GPU; or the address of a Dask scheduler.
        processes: How many processes tune on each device of this machine, in turns. Default: 1.
        listen: Called with each `pretuned.Event` as it happens; `pretuned.describe` puts it into words.
        report: Called with each `pretuned.Diagnostic`: what to know about the project.

    Raises:
        ConfigError, SpecError, UsageError: The table, an environment variable, a kernel spec or a parameter is wrong.
        LockError, DeviceError: The lock cannot be read; or the device is not there, lacks something, or was lost.
        TuningError: A kernel's reference or default is wrong; the others have been tuned, and the lock is written.
    """
    options = TuningOptions(
        kernels=kernels, budget_s=budget_s, force=force, max_loss=max_loss, strategy=strategy, effort=effort,
        usage=usage, from_usage=from_usage, certify=certify, seed=seed, again=again, executor=executor,
        processes=processes,
    )  # fmt: skip
    return _demanded(project, on, options, listen, report)


def _demanded(
    project: str | Path, on: Place | str | None, options: TuningOptions, listen: Listener, report: Report
) -> TuningResult:
    """Return the result of a tuning that nothing has ended early."""
    found, settings = opened(project, on)
    result = tune_project(found, settings, options.completed(settings), listen, CallingReporter(report))
    result.demand()
    return result


def tune_project(
    project: Project, settings: Settings, options: TuningOptions, listen: Listener, reporter: Reporter
) -> TuningResult:
    """Tune what `options` ask for, and write the project's lock; raises what keeps it from beginning."""
    named(options.strategy)  # an unknown one is an error, even if there is nothing to tune
    specs = specs_of(project, options.kernels)
    lock = lockfile.read(project.lock)
    if options.executor is None:
        warn_of_silent(place_of(project, settings.device), reporter)
    _warn_of_cache(settings.cache, reporter)
    with _tuners(options, project, settings.device, lock, listen) as tuners:
        works = [
            FleetWork(device=device.at(options.effort or project.effort), requests=wanted)
            for device in tuners.devices
            if (wanted := tuning_requests(options, project, lock, specs, device, reporter))
        ]
        first = tuners.devices[0]
        if not works:
            return _idle(project, options, first)
        lockfile.demand_writable(project.lock)
        demands = options.demands(project, first)
        merger = LockMerger(project.lock, demands.max_loss)
        terms = FleetTerms(
            cache_folder=settings.cache,
            budget_s=None if options.budget_s == math.inf else options.budget_s,
            demands=demands,
            listen=listen,
            merge=merger.take if options.certify is None else ignore,
            processes=options.processes or 1,
        )
        tuned = tuners.tune(works, terms)
    result = _written(project, options, tuned, demands.max_loss)
    return replace(result, changed=result.changed or merger.changed)


def _warn_of_cache(folder: Path | None, reporter: Reporter) -> None:
    with Cache(folder) as cache:
        if cache.trouble:
            reporter.warning(
                f"the cache cannot be used, so what is measured is kept in rows alone: {cache.trouble}",
                place=str(folder),
                remedy="name a folder that can be written with PRETUNED_CACHE_DIR",
            )


def _written(project: Project, options: TuningOptions, tuned: Tuned, max_loss: float | None) -> TuningResult:
    """Write what was tuned; what the specs no longer have is taken out of the lock."""
    with lockfile.updating(project.lock):
        lock = lockfile.read(project.lock)  # which the tuning of another GPU may have written meanwhile
        obsolete = [] if options.kernels else _obsolete(project, lock)
        renewed = [] if options.certify is None else [rule.key for rule in tuned.selections]
        fresh = lock.without([*obsolete, *renewed]).updated(
            tuned.devices, tuned.rows, tuned.skipped, tuned.selections, max_loss=max_loss
        )
        changed = lockfile.write(project.lock, fresh)
    return TuningResult(lock=project.lock, changed=changed, tuned=tuned, obsolete=len(obsolete), max_loss=max_loss)


@contextmanager
def _tuners(
    options: TuningOptions, project: Project, place: Place, lock: Lock, listen: Listener
) -> Iterator[crews.Tuners]:
    """Yield what tunes: this machine's devices, or the workers that the options name."""
    if isinstance(options.executor, str):
        with crews.of_dask(options.executor, place, lock.devices, listen) as found:
            yield found
    elif options.executor is not None:
        yield crews.of_executor(options.executor, place, lock.devices)
    else:
        yield crews.of_this_machine(place, project, lock.devices)


def _idle(project: Project, options: TuningOptions, device: TuningDevice) -> TuningResult:
    """Return that nothing was tuned; what the specs no longer have is taken out of the lock."""
    with lockfile.updating(project.lock):
        lock = lockfile.read(project.lock)
        kept = lock.without([] if options.kernels else _obsolete(project, lock))
        changed = kept != lock and lockfile.write(project.lock, kept)
    nothing = Tuned(device=device, rows=(), skipped=(), left=0, spending=Spending())
    gone = len(lock.rows) - len(kept.rows)
    return TuningResult(lock=project.lock, changed=changed, tuned=nothing, idle=True, obsolete=gone)


def _obsolete(project: Project, lock: Lock) -> list[lockfile.Key]:
    """Return what stands there for kernels, specialisations and problems that the specs no longer have."""
    specs = specs_of(project)
    wanted: set[tuple[str, Problem | Pairs]] = set()
    for name, spec in specs.items():
        wanted |= {(name, problem) for problem in all_problems(spec)}
        wanted |= {(name, specialisation) for specialisation in specialisations(spec)}
    return [key for key in lock.keys if (key[0], key[2]) not in wanted]


def _certified(event: Certified) -> dict[str, object]:
    return {
        "kernel": event.kernel,
        "specialisation": dict(event.specialisation),
        **certificate_json(event.certificate),
        "refinements": event.attempts,
        "budget spent": event.spent,
        "hurried": event.hurried,
    }
