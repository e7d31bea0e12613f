"""`pretuned.check`: are the specs sound, do kernels take what launches pass, and is the lock fresh?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pretuned.api.projects import CallingReporter, Report, ignore, opened, specs_of
from pretuned.bake.plan import OLDEST, number_of
from pretuned.build.contract import compare_specs
from pretuned.build.core import demand_same_declarations
from pretuned.build.freshness import Freshness, Unfresh
from pretuned.build.table import unlockable
from pretuned.build.targets import check_targets
from pretuned.config import GPU, Place, Project
from pretuned.config.toml import spelled
from pretuned.diagnostics import Reporter
from pretuned.errors import SpecError
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.spec.check.extents import negative_extents
from pretuned.spec.check.launch_bounds import bound_blocks
from pretuned.spec.model import KernelSpec
from pretuned.spec.scalars import alike
from pretuned.spec.space import Pairs, problems, specialisations

_MANY: Final = 1_000_000  # combinations: what is legal of fewer can be searched


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedProject:
    """A lock, the specs by kernel that it was checked against, and what keeps mode locked from taking it.

    `found` is not fresh; `unfit` says why a build does not take rows that are, or is empty; `lossy` has a line for each
    selection that is not certified to keep to the table's `max-loss`. `unselected` has rows and no selection, which
    keeps mode locked from nothing else.
    """

    lock: Lock
    specs: Mapping[str, KernelSpec]
    found: Sequence[Unfresh]
    unfit: str
    lossy: Sequence[str]
    unselected: Sequence[tuple[str, str, Pairs]]

    @property
    def fresh(self) -> bool:
        """Whether mode locked takes it."""
        return bool(self.lock.rows) and not self.found and not self.unfit and not self.lossy

    def to_json(self) -> dict[str, Any]:
        """Return plain data, as `pretuned check --json` prints it."""
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


def check(
    project: str | Path = ".", *, kernels: Sequence[str] = (), on: Place | str | None = None, report: Report = ignore
) -> CheckedProject:
    """Check a project's specs and its lock. It needs no GPU.

    Kernels are compared with their specs where NVRTC is installed; `report` is told where it is not.

    Args:
        project: The folder of pyproject.toml.
        kernels: The names of the only kernels to check; others may be wrong.
        on: `"host"`: check the host device's lock. By default that of the GPUs.
        report: Called with each `pretuned.Diagnostic`: what to look at, though it keeps a build from nothing.

    Returns:
        What keeps mode `locked` from taking the lock, if anything; `fresh` is true where nothing does.

    Raises:
        ConfigError: The project's table or an environment variable is wrong.
        SpecError: A kernel spec is wrong, or a kernel does not take what its spec passes.
        UsageError: There is no such kernel.
        LockError: The lock cannot be read.
    """
    found, settings = opened(project, GPU if on is None else on)
    return check_project(found, kernels, settings.cache, CallingReporter(report))


def check_project(
    project: Project, kernels: Sequence[str] | None, cache: Path | None, reporter: Reporter
) -> CheckedProject:
    """Check the specs of a project, and return what is wrong with its lock; `cache` is the folder of the user cache."""
    specs = specs_of(project, kernels)
    _demand_countable(specs.values())
    demand_same_declarations(project)
    lock = lockfile.read(project.lock)
    if kernels:
        lock = lock.without(key for key in lock.keys if key[0] not in specs)
    check_targets(project, specs.values(), lock, reporter)
    _warn_of_swaps(specs.values(), reporter)
    _warn_of_blindness(specs.values(), reporter)
    _warn_of_bounds(specs.values(), reporter)
    _warn_of_unverified(specs.values(), reporter)
    _warn_of_extents(specs.values(), reporter)
    _demand_contract(project, specs, lock, cache, reporter)
    freshness = Freshness(specs)
    return CheckedProject(
        lock=lock,
        specs=specs,
        found=list(freshness.unfresh(lock, lock.devices)),
        unfit=unlockable(project, lock),
        lossy=list(freshness.lossy(lock, project.max_loss)),
        unselected=list(freshness.unselected(lock, lock.devices)),
    )


def _demand_countable(specs: Iterable[KernelSpec]) -> None:
    """Raise SpecError for a space of more configurations than can be searched."""
    for spec in specs:
        lists = [one.space for one in spec.all_implementations.values() if isinstance(one.space, dict)]
        if sum(math.prod(len(values) for values in space.values()) for space in lists) > _MANY:
            from pretuned.tune.space.points import Points  # noqa: PLC0415 - brings numpy, which few spaces need

            for specialisation in specialisations(spec):
                Points.of(spec, specialisation, list(problems(spec, specialisation)))


def _warn_of_blindness(specs: Iterable[KernelSpec], reporter: Reporter) -> None:
    """Warn of what would make a wrong result look right: scalars of 0, and tolerances that 0 keeps to."""
    for spec in specs:
        for place, argument in enumerate(spec.arguments):
            if argument in spec.scalars and _hides(argument.passed):
                reporter.warning(
                    f"tuning passes {spelled(argument.passed)}, so that it would not see what else a kernel makes of "
                    f"'{argument.name}'",
                    place=f"{spec.file}: arguments[{place}].value",
                    remedy="write a value without a 0",
                )
        rtol = spec.verify.rtol
        shares = rtol.values() if isinstance(rtol, dict) else [rtol or 0.0]
        if max(shares, default=0.0) >= 1:
            reporter.warning(
                f"is {spelled(max(shares))}, by which a result of 0 is right",
                place=f"{spec.file}: verify.rtol",
                remedy="write a share far below 1",
            )


def _hides(passed: object) -> bool:
    """Whether a number for tuning, or a part of a complex one, is 0."""
    if isinstance(passed, complex):
        return not (passed.real and passed.imag)
    return isinstance(passed, float) and not passed


def _warn_of_swaps(specs: Iterable[KernelSpec], reporter: Reporter) -> None:
    """Warn of scalars whose parameters could be swapped without a wrong result."""
    for spec in specs:
        names = [argument.name for argument in spec.arguments]
        for argument, other in alike(spec):
            reporter.warning(
                f"tuning passes '{argument.name}' and '{other.name}' the same {argument.dtype}, "
                f"{spelled(argument.passed)}, so that it would not see them swapped",
                place=f"{spec.file}: arguments[{names.index(argument.name)}].value",
                remedy="write different values",
            )


def _warn_of_bounds(specs: Iterable[KernelSpec], reporter: Reporter) -> None:
    """Warn of configurations that can never be launched, since the kernel names fewer threads than their blocks."""
    for spec in specs:
        for found in bound_blocks(spec):
            remedy = f"{found.remedy}, or take such configurations out of the space"
            reporter.warning(f"{found.configuration}: {found}", place=f"{spec.file}: {found.path}", remedy=remedy)


def _warn_of_unverified(specs: Iterable[KernelSpec], reporter: Reporter) -> None:
    """Warn of kernels that are compared with their own default alone."""
    for spec in specs:
        if spec.verify.reference is None and spec.verify.compare is None:
            reporter.warning(
                "there is none, so that results are compared with what the default computes, right or wrong",
                place=f"{spec.file}: verify.reference",
                remedy=f'write `[verify]` with `reference = "reference.py:{spec.name}"`',
            )


def _warn_of_extents(specs: Iterable[KernelSpec], reporter: Reporter) -> None:
    """Warn of shapes that have extents below 0 at sizes that calls may have."""
    for spec in specs:
        for found in negative_extents(spec):
            reporter.warning(str(found), place=f"{spec.file}: {found.path}", remedy=found.remedy)


def _demand_contract(
    project: Project, specs: Mapping[str, KernelSpec], lock: Lock, cache: Path | None, reporter: Reporter
) -> None:
    """Raise SpecError where a kernel does not take what its launches pass; report what cannot be compared here."""
    gpus = [device.architecture for device in lock.devices.values() if device.is_gpu]
    oldest = min(map(number_of, (*gpus, *project.architectures)), default=OLDEST)
    compared = compare_specs(specs.values(), cache, oldest)
    if isinstance(compared, str):
        reporter.info(f"kernels were not compared with their specs: {compared}")
        return
    if compared.faults:
        raise SpecError(compared.faults[key] for key in sorted(compared.faults))
    for name, reason in compared.unknown.items():
        reporter.warning(f"its kernels were not compared with it, since they do not compile: {reason}", place=name)


def _json(finding: Unfresh) -> dict[str, object]:
    return {
        "kernel": finding.kernel,
        "device": finding.device,
        "specialisation": dict(finding.specialisation),
        "problem": None if finding.problem is None else dict(finding.problem.dims),
        "state": finding.word,
        "reason": finding.reason,
    }
