"""Kernels against their specs without a GPU: for `pretuned check`, and for what a build ships.

The default of each implementation and specialisation is compiled to PTX with a probe around it, which says what its
entry points take. Binaries go through the user cache, so that a second look costs no compiling.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pretuned.bake.plan import OLDEST, BakePlan, Compiled, by_source, number_of
from pretuned.compile.contract import Breach, LaunchedFunction, breach, launched, probe
from pretuned.compile.pool import processors
from pretuned.compile.result import Binary
from pretuned.diagnostics import Reporter
from pretuned.errors import DeviceError, Fault, SpecError
from pretuned.outcome import detail
from pretuned.record.cache import Cache
from pretuned.render import Source, located, source_of
from pretuned.spec import space
from pretuned.spec.check.implementations import prefix_of
from pretuned.spec.defaults import defaults
from pretuned.spec.model import KernelSpec
from pretuned.spec.needs import FIRST_SPECIFIC
from pretuned.spec.space import Configuration, Pairs, describe
from pretuned.tune.binaries import BinaryStore
from pretuned.tune.spending import Spending

# Where a source does not compile for the oldest architecture, it may be for newer ones.
_NEWER: Final = (90, 100, 120)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelInterface:
    """An implementation's kernels for one specialisation, by a configuration that shows them, and its source."""

    spec: KernelSpec
    specialisation: Pairs
    configuration: Configuration
    source: Source

    @property
    def key(self) -> tuple[str, str]:
        """The kernel and the implementation, of which one fault is reported."""
        return self.spec.name, self.configuration.implementation

    @property
    def passed(self) -> tuple[LaunchedFunction, ...]:
        """What the launches pass."""
        return launched(self.spec, self.specialisation, self.configuration.implementation)

    def located(self, message: str) -> str:
        """Return a message with the template's lines."""
        return located(self.spec, self.specialisation, self.configuration, message)

    def fault(self, found: Breach) -> Fault:
        """Return what is wrong as a fault of the spec."""
        chosen = f" ({describe(self.specialisation)})" if self.specialisation else ""
        path = f"{prefix_of(self.spec, self.configuration.implementation)}launches[{found.launch}]"
        return Fault(file=self.spec.file, path=path, message=self.located(found.message) + chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What comparing kernels with their specs gave.

    `faults` has one by kernel and implementation; `unknown` says by spec file why kernels could not be compared.
    """

    faults: Mapping[tuple[str, str], Fault]
    unknown: Mapping[str, str]


def interfaces(specs: Iterable[KernelSpec]) -> Iterator[KernelInterface]:
    """Yield what the default of every implementation that is a template may be, for every specialisation."""
    for spec in specs:
        for name, implementation in spec.all_implementations.items():
            for specialisation in space.specialisations(spec) if implementation.call is None else ():
                for configuration in defaults(spec, specialisation, name):
                    source = source_of(spec, specialisation, configuration)
                    yield KernelInterface(
                        spec=spec, specialisation=specialisation, configuration=configuration, source=source
                    )


def compare_specs(specs: Iterable[KernelSpec], cache_folder: Path | None, oldest: int = OLDEST) -> Comparison | str:
    """Return what is wrong with the kernels of `specs`, or why nothing here can compile them.

    `oldest` is the oldest architecture that they are compiled for, such as 80.
    """
    if importlib.util.find_spec("cupy") is None:
        return "CuPy and NVRTC are not installed"
    subjects = list(interfaces(specs))
    workers = max(1, min(processors(), len({(subject.key, subject.passed) for subject in subjects})))
    try:
        with Cache(cache_folder) as cache, BinaryStore(cache, Spending(), workers=workers) as binaries:
            return compare(subjects, binaries, oldest)
    except DeviceError as error:
        return str(error)


def compare(subjects: Iterable[KernelInterface], binaries: BinaryStore, oldest: int = OLDEST) -> Comparison:
    """Return what is wrong with the kernels of `subjects`, one fault an implementation; raises DeviceError.

    One subject stands for all to which the same is passed: flags and constant dims change what a kernel does, not what
    it takes.
    """
    pending = {(subject.key, subject.passed): subject for subject in reversed(list(subjects))}
    failed: dict[str, str] = {}
    faults: dict[tuple[str, str], Fault] = {}
    for probed in (True, False):  # a text that does not compile with the probe shows by itself why
        for rank in range(1 + len(_NEWER)):
            jobs = {
                which: (probe(subject.source) if probed else subject.source, targets[rank])
                for which, subject in pending.items()
                if rank < len(targets := _architectures(subject.source, oldest))
            }
            binaries.compile(jobs.values())
            for which, job in jobs.items():
                subject, made = pending[which], binaries.get(*job)
                if not isinstance(made, Binary):
                    failed[subject.spec.file] = subject.located(detail(made))
                    continue
                del pending[which]
                if (found := breach(subject.source, subject.passed, made.image)) is not None:
                    faults[subject.key] = subject.fault(found)
    unknown = {subject.spec.file: failed[subject.spec.file] for subject in pending.values()}
    return Comparison(faults=faults, unknown=unknown)


def demand(plans: Collection[BakePlan], compiled: Compiled, binaries: BinaryStore, reporter: Reporter) -> None:
    """Raise SpecError where what ships is not what launches pass; warn of a kernel that ships without machine code.

    Types are compared as well where something here can compile.
    """
    faults = _breaches_in(plans, compiled)
    if compiled and importlib.util.find_spec("cupy") is not None:
        oldest = min(number_of(architecture) for _, architecture in compiled)
        with contextlib.suppress(DeviceError):  # all was in the cache, and there is no NVRTC
            faults.update(compare(_shipped(plans), binaries, oldest).faults)
    if faults:
        raise SpecError(faults[key] for key in sorted(faults))
    made = {source for source, _ in compiled}
    specific = [subject for subject in _shipped(plans) if subject.source.arch_specific]
    for name in sorted({subject.spec.file for subject in specific if subject.source.key not in made}):
        reporter.warning(
            "no machine code is baked: `arch-specific` code is compiled for named architectures only, and neither the "
            "lock nor the table names one from sm_90 on",
            place=name,
            remedy='write architectures = ["sm_90"] in the table, or run `pretuned tune` on the GPU',
        )


def _breaches_in(plans: Iterable[BakePlan], compiled: Compiled) -> dict[tuple[str, str], Fault]:
    """Return in what the binaries that ship are not what their specs' launches pass, by kernel and implementation."""
    found: dict[tuple[str, str], Fault] = {}
    binaries = by_source(compiled)
    for subject in _shipped(plans):
        source, passed = subject.source, subject.passed
        for _, binary in binaries.get(source.key, ()):
            if (wrong := breach(source, passed, binary.image)) is not None:
                found.setdefault(subject.key, subject.fault(wrong))
    return found


def _shipped(plans: Iterable[BakePlan]) -> Iterator[KernelInterface]:
    """Yield what ships as source and binary."""
    for kernel in (kernel for plan in plans for kernel in plan.kernels):
        for shipped in kernel.shipped:
            if shipped.source is not None:
                yield KernelInterface(
                    spec=kernel.spec,
                    specialisation=shipped.specialisation,
                    configuration=shipped.configuration,
                    source=shipped.source,
                )


def _architectures(source: Source, oldest: int) -> Sequence[str]:
    """Return what a source is compiled for, the first that it compiles for; sm_90a has features of its own."""
    if source.arch_specific:
        return [f"compute_{number}a" for number in sorted({max(oldest, FIRST_SPECIFIC), *_NEWER})]
    return [f"compute_{number}" for number in (oldest, *(newer for newer in _NEWER if newer > oldest))]
