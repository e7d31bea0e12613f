"""What a tuning is asked for, and which rows, selections and certificates that means for a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from pretuned.build import usage as calls
from pretuned.build.freshness import Freshness
from pretuned.build.usage import Usage
from pretuned.config import Effort, Project, Settings
from pretuned.config.project import bad_effort
from pretuned.diagnostics import Reporter
from pretuned.errors import LockError, UsageError
from pretuned.measure.turns import MOST_PROCESSES
from pretuned.record.lock import Lock
from pretuned.runtime.text import no_such
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Problem
from pretuned.strategies import AUTO, named
from pretuned.tune.request import TuningDevice, TuningRequest
from pretuned.tune.workbench import Demands


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningOptions:
    """What a tuning is asked for; the fields are `tune`'s parameters."""

    kernels: Sequence[str] = ()
    budget_s: float | None = None
    force: bool = False
    max_loss: float | None = None
    strategy: str = AUTO
    effort: Effort | None = None
    usage: str | Path | None = None
    from_usage: str | Path | None = None
    certify: int | None = None
    seed: int | None = None
    again: Sequence[str] = ()
    executor: Executor | str | None = None
    processes: int | None = None

    def __post_init__(self) -> None:
        if self.effort is not None and self.effort not in get_args(Effort):
            raise UsageError(f"effort {bad_effort(self.effort)}")
        if self.budget_s is not None and not self.budget_s >= 0:
            raise UsageError(f"budget_s is {self.budget_s}; write seconds, 0 or more, or math.inf for no limit")
        if self.processes is not None and not 1 <= self.processes <= MOST_PROCESSES:
            raise UsageError(f"processes is {self.processes}; write 1 to {MOST_PROCESSES}, or leave it out")
        if self.processes is not None and self.executor is not None:
            raise UsageError("processes are those of this machine's devices; an executor has workers of its own")
        if self.again and (self.force or self.certify is not None or self.from_usage is not None):
            raise UsageError("again names all that is tuned; leave out force, certify and from_usage")
        if self.certify is not None and (self.force or self.from_usage is not None):
            raise UsageError("certify tunes nothing; leave out force, and write usage in place of from_usage")

    def completed(self, settings: Settings) -> TuningOptions:
        """Return the options, with the settings where they say nothing."""
        return replace(
            self,
            budget_s=settings.budget_s if self.budget_s is None else self.budget_s,
            effort=settings.effort if self.effort is None else self.effort,
        )

    def demands(self, project: Project, device: TuningDevice) -> Demands:
        """Return what is asked for, else the table; on the host device only the options ask for a loss."""
        return Demands(
            strategy=named(self.strategy),
            max_configurations=project.max_configurations,
            max_loss=device.held_to(project.max_loss) if self.max_loss is None else self.max_loss,
            certify=self.certify,
            seed=self.seed,
            anew=self.force or bool(self.again),
        )


def tuning_requests(
    options: TuningOptions,
    project: Project,
    lock: Lock,
    specs: Mapping[str, KernelSpec],
    device: TuningDevice,
    reporter: Reporter,
) -> list[TuningRequest]:
    """Return what is to be tuned or certified of a project on a device; raises UsageError or LockError."""
    called = _called(options, project, specs, reporter)
    if options.certify is not None:
        return calls.weighed(_certifications(project, lock, specs, device), called)
    wanted = Freshness(specs).requests(
        lock,
        device,
        everything=options.force or bool(options.again),
        max_loss=options.demands(project, device).max_loss,
        most=project.max_configurations,
    )
    if options.again:
        wanted = _again(options.again, wanted)
    wanted = calls.weighed(wanted, called)
    return calls.narrowed(wanted, called) if options.from_usage is not None and called is not None else wanted


def _again(texts: Sequence[str], requests: Sequence[TuningRequest]) -> list[TuningRequest]:
    """Return of `requests`, which are for all problems, those that `texts` name; raises UsageError."""
    known = {request.spec.name: request for request in requests}
    found: dict[str, set[Problem]] = {}
    for text in texts:
        kernel, _, values = (part.strip() for part in text.partition(":"))
        if kernel not in known:
            raise UsageError(f"again {text}: {no_such('kernel', kernel, known)}")
        problems = known[kernel].problems
        for part in filter(None, values.split(",")):
            wanted = part.replace(" ", "")
            fitting = tuple(problem for problem in problems if wanted in str(problem).split(", "))
            if not fitting:
                listed = sorted({one for problem in problems for one in str(problem).split(", ")})
                raise UsageError(f"again {text}: no row of {kernel} has {wanted}; they have {', '.join(listed)}")
            problems = fitting
        found.setdefault(kernel, set()).update(problems)
    return [
        replace(known[kernel], problems=tuple(p for p in known[kernel].problems if p in chosen), select=())
        for kernel, chosen in found.items()
    ]


def _certifications(
    project: Project, lock: Lock, specs: Mapping[str, KernelSpec], device: TuningDevice
) -> list[TuningRequest]:
    """Return requests to renew the certificates of the device's selections; raises LockError where it has none."""
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


def _called(
    options: TuningOptions, project: Project, specs: Mapping[str, KernelSpec], reporter: Reporter
) -> Usage | None:
    """Return what was called by the file that the options name, else the table; raises UsageError for the options'."""
    named_file = options.from_usage or options.usage
    if named_file is None:
        return calls.of_table(project, specs, reporter)
    file = Path(named_file)
    try:
        called = calls.read(file, project, specs, reporter)
    except OSError as error:
        raise UsageError(f"'{file}' cannot be read: {error.strerror}") from None
    if not called:
        raise UsageError(
            f"run a program with PRETUNED_USAGE={file.name}, which adds its calls when it ends: "
            f"'{file}' has {calls.lacking(project, specs)}"
        )
    return called
