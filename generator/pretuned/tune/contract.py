"""The kernels of one tuning task against what its launches pass: names, numbers, sizes and C++ types."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pretuned.compile.contract import Breach, LaunchedFunction, breach, launched, probe
from pretuned.compile.outside import CompileJob
from pretuned.compile.result import Binary
from pretuned.outcome import Failure, LaunchFailed
from pretuned.render import Candidate, Source
from pretuned.spec.defaults import defaults
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Pairs
from pretuned.tune.binaries import BinaryStore

_CUBIN: Final = "sm_"
_PTX: Final = "compute_"


class KernelContract:
    """Holds binaries of `spec` for one specialisation against its launches.

    Each binary is read. The C++ types are asked for once an implementation, of its default, where sources are compiled
    for GPUs; the host device compares what it loads itself.
    """

    def __init__(
        self,
        binaries: BinaryStore,
        architecture_of: Callable[[Source], str],
        candidate: Callable[[Configuration], Candidate],
        spec: KernelSpec,
        specialisation: Pairs,
    ) -> None:
        self._binaries = binaries
        self._architecture_of = architecture_of
        self._candidate = candidate
        self._spec = spec
        self._specialisation = specialisation
        self._launches: dict[str, tuple[LaunchedFunction, ...]] = {}
        self._types: dict[str, Breach | None] = {}
        self._read: dict[tuple[str, str], Breach | None] = {}  # by implementation and the binary's digest

    def request(self, implementations: Iterable[str]) -> None:
        """Have the compiler begin with the types that implementations take, while the caller goes on."""
        jobs = [job for name in implementations if (job := self._probe(name)) is not None]
        self._binaries.request(jobs, first=True)

    def held(self, configuration: Configuration, found: Binary | Failure | None) -> Binary | Failure | None:
        """Return what was found of a configuration, or why its binary is not what the launches take."""
        if not isinstance(found, Binary):
            return found
        source = self._candidate(configuration).source
        assert source is not None  # it has a binary
        name, key = configuration.implementation, (configuration.implementation, found.digest)
        if key not in self._read:
            self._read[key] = breach(source, self._passed(name), found.image)
        wrong = self._breach_of(name) or self._read[key]
        return found if wrong is None else LaunchFailed(message=wrong.message)

    def _breach_of(self, implementation: str) -> Breach | None:
        """Return what is wrong with the types that an implementation's default takes; waits for the compiler."""
        if implementation not in self._types:
            job, found = self._probe(implementation), None
            if job is not None:
                made = self._binaries.get(*job)  # what does not compile shows in the candidate's own binary
                if isinstance(made, Binary):
                    found = breach(self._default(implementation), self._passed(implementation), made.image)
            self._types[implementation] = found
        return self._types[implementation]

    def _passed(self, implementation: str) -> tuple[LaunchedFunction, ...]:
        if implementation not in self._launches:
            self._launches[implementation] = launched(self._spec, self._specialisation, implementation)
        return self._launches[implementation]

    def _probe(self, implementation: str) -> CompileJob | None:
        """Return what is compiled to learn the types; None for a library call, and where no GPU runs them."""
        if self._spec.all_implementations[implementation].call is not None:
            return None
        source = self._default(implementation)
        architecture = self._architecture_of(source)
        return (probe(source), architecture.replace(_CUBIN, _PTX)) if architecture.startswith(_CUBIN) else None

    def _default(self, implementation: str) -> Source:
        source = self._candidate(defaults(self._spec, self._specialisation, implementation)[0]).source
        assert source is not None  # it is a template
        return source
