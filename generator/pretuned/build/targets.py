"""The devices that a project is made for, and what its kernels need that they lack: said with what brought it.

Targets are the architectures that the table names, the GPUs of the lock, and the GPUs here. A kernel whose default does
not run on one is no fault, since calls there are errors in words; but few mean it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pretuned.bake.plan import number_of
from pretuned.compile.nvrtc import installed_nvrtc, newer_release
from pretuned.config import Project
from pretuned.config.toml import FILE
from pretuned.device import probe
from pretuned.diagnostics import Reporter
from pretuned.errors import ConfigError, Fault
from pretuned.record.lock import Lock
from pretuned.record.rows import TunedDevice
from pretuned.runtime.records import Value
from pretuned.spec import space
from pretuned.spec.check.implementations import prefix_of
from pretuned.spec.defaults import defaults
from pretuned.spec.expressions import Expression
from pretuned.spec.grammar import DEVICE_ATTRIBUTES
from pretuned.spec.model import KernelSpec
from pretuned.spec.needs import Need, need_of
from pretuned.spec.space import Configuration, DeviceFacts, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A device or an architecture, and where it is named; `number` is 90 for sm_90.

    `attributes` are what is known of it, by the names of expressions.
    """

    name: str
    place: str
    number: int
    attributes: Mapping[str, Value]

    def __str__(self) -> str:
        return f"{self.name} ({self.place})"


def check_targets(project: Project, specs: Iterable[KernelSpec], lock: Lock, reporter: Reporter) -> None:
    """Warn of a driver that is too old, and of kernels whose default some target does not run.

    Raises ConfigError for architectures that the NVRTC here is too old for.
    """
    _demand_architectures(project)
    driver = probe.driver()
    if driver is not None and (reason := probe.too_old(driver)):
        reporter.warning(reason, remedy="tuning and calls here need a newer one")
    listed = tuple(_targets(project, lock))
    for spec in specs:
        if (need := _need(spec)) is not None:
            _warn(spec, need, [target for target in listed if target.number < need.capability], reporter)
        _warn_of_defaults(spec, listed, reporter)


def _demand_architectures(project: Project) -> None:
    nvrtc = installed_nvrtc()
    faults = [
        Fault(
            file=FILE,
            path=f"architectures[{index}]",
            message=f"{name} came with CUDA {newer}, and NVRTC here is {nvrtc}; install that release of it, or leave "
            f"{name} out",
        )
        for index, name in enumerate(project.architectures)
        if nvrtc is not None and (newer := newer_release(name, nvrtc))
    ]
    if faults:
        raise ConfigError(faults)


def _targets(project: Project, lock: Lock) -> Iterator[Target]:
    for name in project.architectures:
        number = number_of(name)
        known = {"device.compute_capability": number}
        yield Target(name=name, place="`architectures`", number=number, attributes=known)
    for name, device in lock.devices.items():
        if device.is_gpu:
            place, number = project.lock.name, number_of(device.architecture)
            yield Target(name=name, place=place, number=number, attributes=_attributes(device))
    for gpu in probe.gpus():
        if gpu.name not in lock.devices:
            number = gpu.compute_capability
            yield Target(name=gpu.name, place="this machine", number=number, attributes=_attributes(gpu))


def _attributes(device: TunedDevice | probe.Gpu) -> Mapping[str, Value]:
    """Return what expressions may ask of a device."""
    return DeviceFacts(
        sm_count=device.sm_count,
        compute_capability=device.compute_capability,
        shared_bytes=device.shared_bytes,
        l2_bytes=device.l2_bytes,
    ).environment()


def _warn_of_defaults(spec: KernelSpec, targets: Iterable[Target], reporter: Reporter) -> None:
    """Warn of conditions about the device that exclude a default, which no other check judges."""
    for (index, expression), excluded in _excluding(spec, targets).items():
        (default, problem), *_ = excluded.values()
        reporter.warning(
            f"{expression.quoted} excludes the default ({space.describe(default.values)}) on "
            f"{' and '.join(excluded)}, as at {problem}: calls there without another choice are errors, and it cannot "
            "be tuned",
            place=f"{spec.file}: {prefix_of(spec, default.implementation)}constraints.where[{index}]",
            remedy="choose a default that every device admits",
        )


def _excluding(
    spec: KernelSpec, targets: Iterable[Target]
) -> dict[tuple[int, Expression], dict[str, tuple[Configuration, Problem]]]:
    """Return the conditions about the device that exclude a default: on which targets, and where."""
    found: dict[tuple[int, Expression], dict[str, tuple[Configuration, Problem]]] = {}
    listed = spec.all_implementations[spec.default_implementation].constraints.where
    asking = [(index, expression) for index, expression in enumerate(listed) if expression.reads_device]
    for problem in space.all_problems(spec) if asking else ():
        default = space.default_at(spec, problem)
        known = space.environment(spec, problem, default)
        for index, expression in asking:
            for target in targets:
                judged = expression.names & DEVICE_ATTRIBUTES <= target.attributes.keys()
                if judged and not space.holds((expression,), {**known, **target.attributes}):
                    found.setdefault((index, expression), {}).setdefault(str(target), (default, problem))
    return found


def _need(spec: KernelSpec) -> Need | None:
    """Return what a kernel's default needs in one of its specialisations at least."""
    found = (need_of(spec, one, default) for one in space.specialisations(spec) for default in defaults(spec, one))
    return next(filter(None, found), None)


def _warn(spec: KernelSpec, need: Need, older: Iterable[Target], reporter: Reporter) -> None:
    if names := " and ".join(dict.fromkeys(map(str, older))):
        came = f"{need.capability / 10:.1f}"
        reporter.warning(
            f"{need.what} came with compute capability {came}, which is newer than {names}: calls there are errors",
            place=f"{spec.file}: {need.path}",
            remedy="give the kernel a default without, if they should not be",
        )
