"""What the candidates of a task are compiled from and to: sources, binaries, and why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pretuned.compile.result import Binary, Resources
from pretuned.measure.libraries import release
from pretuned.measure.requests import CompiledCandidate
from pretuned.measure.runner import TuningError
from pretuned.outcome import Failure, LaunchFailed, detail
from pretuned.remedies import remedy
from pretuned.render import Candidate, candidate, located
from pretuned.spec.library import LibraryCall
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Pairs, pairs
from pretuned.tune.contract import KernelContract
from pretuned.tune.workbench import Workbench


class TaskSources:
    """The sources and binaries of `spec` for one specialisation, on the device of `workbench`."""

    def __init__(self, workbench: Workbench, spec: KernelSpec, specialisation: Pairs) -> None:
        self.workbench, self.spec, self.specialisation = workbench, spec, specialisation
        self._candidates: dict[Configuration, Candidate] = {}
        self._architecture_of = workbench.device.record.architecture_of
        self._contract = KernelContract(workbench.binaries, self._architecture_of, self.candidate, spec, specialisation)

    def candidate(self, configuration: Configuration) -> Candidate:
        """Return a configuration's candidate, rendered at the first need."""
        if configuration not in self._candidates:
            with self.workbench.spending.stage("rendering"):
                self._candidates[configuration] = candidate(self.spec, self.specialisation, configuration)
        return self._candidates[configuration]

    def request(self, configurations: Sequence[Configuration], *, first: bool = False) -> int:
        """Request the binaries of `configurations` that are missing, and return how many sources that is."""
        self._contract.request({configuration.implementation for configuration in configurations})
        sources = [self.candidate(c).source for c in configurations if self.call(c) is None]
        jobs = [(source, self._architecture_of(source)) for source in sources if source is not None]
        return self.workbench.binaries.request(jobs, first=first)

    def withdraw(self, configurations: Sequence[Configuration]) -> list[Configuration]:
        """Take back the requests whose sources no worker has begun with; return whose they were."""
        sources = {c: source for c in configurations if (source := self.candidate(c).source) is not None}
        jobs = [(source, self._architecture_of(source)) for source in sources.values()]
        gone = {source.key for source, _ in self.workbench.binaries.withdraw(jobs)}
        return [c for c, source in sources.items() if source.key in gone]

    def call(self, configuration: Configuration) -> LibraryCall | None:
        """Return the library function that a configuration stands for; None for a template."""
        return self.spec.all_implementations[configuration.implementation].call

    def compiled(self, configuration: Configuration) -> Binary | LibraryCall | Failure | None:
        """Return a configuration's binary, why there is none, or None while the compiler is at it.

        A library call, which needs no compiler, is there from the beginning.
        """
        source = self.candidate(configuration).source
        if source is None:
            return self.call(configuration)
        return self._contract.held(configuration, self.workbench.binaries.find(source, self._architecture_of(source)))

    def binary(self, configuration: Configuration) -> Binary | LibraryCall | Failure:
        """Return a configuration's binary or library call, or why there is none; waits for the compiler."""
        call = self.call(configuration)
        if call is not None:
            return call
        source = self.candidate(configuration).source
        assert source is not None  # only library calls have none
        made = self.workbench.binaries.get(source, self._architecture_of(source))
        return self._contract.held(configuration, made) or made

    def entry(self, configuration: Configuration) -> CompiledCandidate:
        """Return a configuration with its binary, ready to be measured; waits for the compiler."""
        binary = self.binary(configuration)
        if isinstance(binary, LibraryCall):
            return CompiledCandidate.of_call(configuration)
        if not isinstance(binary, Binary):
            said = located(self.spec, self.specialisation, configuration, detail(binary))
            wrong = "cannot be launched" if isinstance(binary, LaunchFailed) else "does not compile"
            advice = f"; {remedy(binary, self.spec)}".removesuffix("; ")
            raise TuningError(f"{self.spec.name}: {configuration} {wrong}: {said}{advice}")
        return CompiledCandidate.of(configuration, binary)

    def shipped(self, configuration: Configuration) -> tuple[str, str]:
        """Return the digest of a configuration's cubin and the release of the library that it calls; one is empty.

        Raises TuningError where there is neither.
        """
        if (call := self.call(configuration)) is not None:
            return "", release(call.module)
        binary = self.binary(configuration)
        if not isinstance(binary, Binary):
            self.entry(configuration)  # which says why
        assert isinstance(binary, Binary)
        return binary.digest, ""

    def resources(self, configuration: Configuration) -> Mapping[str, Resources]:
        """Return what a configuration's entry points take, by function; nothing where there is no binary."""
        binary = self.binary(configuration)
        return binary.resources if isinstance(binary, Binary) else {}

    def headers(self, configurations: Iterable[Configuration]) -> Pairs:
        """Return the digests of the project's headers that the sources of configurations include, by name."""
        sources = [self.candidate(configuration).source for configuration in configurations]
        return pairs({name: d for source in sources if source for name, d in source.header_digests.items()})
