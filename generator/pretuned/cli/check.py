"""`pretuned check`: are the specs sound and the lock fresh?"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pretuned.backends import lock_path
from pretuned.bake.plan import OLDEST, number_of
from pretuned.build.between_sizes import report_between_sizes
from pretuned.build.contract import compare_specs
from pretuned.build.core import demand_same_declarations
from pretuned.build.freshness import Freshness, Unfresh, in_numbers
from pretuned.build.table import unlockable
from pretuned.build.targets import check_targets
from pretuned.cli.project import console, project_of, specs_of
from pretuned.config import GPU, Project, read_settings
from pretuned.config.toml import spelled
from pretuned.errors import ExitCode, SpecError, counted
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.report.certificates import chosen, whole
from pretuned.report.text import columns
from pretuned.spec.model import KernelSpec
from pretuned.spec.scalars import alike
from pretuned.spec.space import Pairs

WORDS = ("stale", "missing", "unverified", "incomplete")  # from the worst on


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A lock, and what keeps mode locked from taking it.

    `found` is not fresh; `unfit` says why a build does not take rows that are, or is empty; `lossy` has a line for each
    selection that is not certified to keep to the table's `max-loss`. `unselected` has rows and no selection, which
    keeps mode locked from nothing else.
    """

    lock: Lock
    found: Sequence[Unfresh]
    unfit: str
    lossy: Sequence[str]
    unselected: Sequence[tuple[str, str, Pairs]]

    @property
    def fresh(self) -> bool:
        """Whether mode locked takes it."""
        return bool(self.lock.rows) and not self.found and not self.unfit and not self.lossy

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        return {
            "fresh": self.fresh,
            "rows": len(self.lock.rows),
            "selections": len(self.lock.selections),
            "findings": list(map(_json, self.found)),
            "unfit": self.unfit,
            "over max-loss": list(self.lossy),
            "without a selection": [
                {"kernel": kernel, "device": device, "specialisation": dict(specialisation)}
                for kernel, device, specialisation in self.unselected
            ],
        }


def run(options: Namespace) -> ExitCode:
    """Print what of the lock is not fresh, and why, by kernel; the status is 0 where `locked` takes it, or LOCK.

    With `--verbose` each row is named.
    """
    project = project_of(options)
    if options.on is not None:
        project = replace(project, lock=lock_path(project.lock, options.on.backend))
    specs = specs_of(project, options.kernel)
    demand_same_declarations(project)
    lock = lockfile.read(project.lock)
    if options.kernel:
        lock = lock.without(key for key in lock.keys if key[0] not in specs)
    check_targets(project, specs.values(), lock, console)
    _warn_of_swaps(specs.values())
    _demand_contract(project, specs, lock)
    freshness = Freshness(specs)
    checked = Checked(
        lock=lock,
        found=list(freshness.unfresh(lock, lock.devices)),
        unfit=unlockable(project, lock),
        lossy=list(freshness.lossy(lock, project.max_loss)),
        unselected=list(freshness.unselected(lock, lock.devices)),
    )
    if options.json:
        print(json.dumps(checked.to_json(), indent=2))
    else:
        print("\n".join(_lines(checked, project, options)))
        report_between_sizes(project, lock, freshness, console, f"run `{_tune(options)}`")
        if project.max_loss is not None and any(not device.is_gpu for device in lock.devices.values()):
            console.info("max-loss holds GPUs alone: the host's times say nothing about one", place=project.lock.name)
    return ExitCode.SUCCESS if checked.fresh else ExitCode.LOCK


def _tune(options: Namespace) -> str:
    return "pretuned tune" + (f" --on {options.on}" if options.on is not None else "")


def _lines(checked: Checked, project: Project, options: Namespace) -> Iterator[str]:
    """Yield what is wrong, and a last line that says what to do about the worst of it."""
    lock, name = checked.lock, project.lock.name
    tune = _tune(options)
    holds = in_numbers(len(lock.rows), len(lock.selections))
    if not lock.rows:
        gpu = "" if options.on is not None and options.on != GPU else " on a machine with a GPU"
        yield f"{name}: no rows; run `{tune}`{gpu}"
        return
    if checked.found:
        by_kernel = columns(list(_by_kernel(lock, checked.found)), frozenset({2}))
        yield from map(str, checked.found) if options.verbose else by_kernel
    yield from checked.lossy
    certificates = [
        (chosen(rule.kernel, rule.specialisation), rule.certificate) for rule in lock.selections if rule.certificate
    ]
    if certificates and not checked.found:
        yield f"{name}: {whole(certificates)}"
    if checked.found:
        yield f"{name}: {_not_fresh(lock, checked.found)}; run `{tune}`"
    elif checked.unfit:
        yield f"{name}: {holds}, all fresh, but mode locked does not take them: {checked.unfit}"
    elif checked.lossy:
        yield (
            f"{name}: {holds}, all fresh, but {len(checked.lossy)} not certified to keep to max-loss "
            f"({project.max_loss:g}); run `{tune}`, which refines them, or raise `max-loss` in the table"
        )
    else:
        yield f"{name}: {holds} for {', '.join(lock.devices)}, all fresh"


def _not_fresh(lock: Lock, found: Sequence[Unfresh]) -> str:
    """Return `3 of 36 rows and 1 of 4 selections are not fresh, 2 missing`."""
    rules = sum(finding.problem is None for finding in found)
    missing = sum(finding.state is None for finding in found)
    parts = [f"{len(found) - missing - rules} of {len(lock.rows)} rows"]
    parts += [f"{rules} of {counted(len(lock.selections), 'selection')}"] if rules else []
    return f"{' and '.join(parts)} are not fresh" + (f", {missing} missing" if missing else "")


def _warn_of_swaps(specs: Iterable[KernelSpec]) -> None:
    """Warn of scalars whose parameters could be swapped without a wrong result."""
    for spec in specs:
        names = [argument.name for argument in spec.arguments]
        for argument, other in alike(spec):
            console.warning(
                f"tuning passes '{argument.name}' and '{other.name}' the same {argument.dtype}, "
                f"{spelled(argument.passed)}, so that it would not see them swapped",
                place=f"{spec.file}: arguments[{names.index(argument.name)}].value",
                remedy="write different values",
            )


def _demand_contract(project: Project, specs: Mapping[str, KernelSpec], lock: Lock) -> None:
    """Raise SpecError where a kernel does not take what its launches pass; report what cannot be compared here."""
    gpus = [device.architecture for device in lock.devices.values() if device.is_gpu]
    oldest = min(map(number_of, (*gpus, *project.architectures)), default=OLDEST)
    compared = compare_specs(specs.values(), read_settings().cache, oldest)
    if isinstance(compared, str):
        console.info(f"kernels were not compared with their specs: {compared}")
        return
    if compared.faults:
        raise SpecError(compared.faults[key] for key in sorted(compared.faults))
    for name, reason in compared.unknown.items():
        console.warning(f"its kernels were not compared with it, since they do not compile: {reason}", place=name)


def _by_kernel(lock: Lock, found: Sequence[Unfresh]) -> Iterator[tuple[str, ...]]:
    """Yield one line per kernel and device: how much is in which state, and why the worst of it is."""
    groups: dict[tuple[str, str], list[Unfresh]] = {}
    for row in lock.rows:
        groups.setdefault((row.kernel, row.device), [])
    for finding in found:
        groups.setdefault((finding.kernel, finding.device), []).append(finding)
    yield "kernel", "device", "rows", "state", "why"
    for (kernel, device), wrong in sorted(groups.items()):
        rows = sum((row.kernel, row.device) == (kernel, device) for row in lock.rows)
        counts = [(sum(finding.word == word for finding in wrong), word) for word in WORDS]
        state = ", ".join(f"{count} {word}" for count, word in counts if count) or "fresh"
        worst = min(wrong, key=lambda finding: (not finding.reason, WORDS.index(finding.word)), default=None)
        yield kernel, device, str(rows), state, worst.reason if worst is not None else ""


def _json(finding: Unfresh) -> dict[str, object]:
    return {
        "kernel": finding.kernel,
        "device": finding.device,
        "specialisation": dict(finding.specialisation),
        "problem": None if finding.problem is None else dict(finding.problem.dims),
        "state": finding.word,
        "reason": finding.reason,
    }
