"""Compiled modules: from memory, from the user cache, or from the compile workers, which start at the first need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self

from pretuned.compile.pool import CompilePool, Job
from pretuned.compile.result import Binary
from pretuned.compile.toolchain import NVRTC, Toolchain
from pretuned.outcome import Failure
from pretuned.record.cache import Cache
from pretuned.render import Module, digest
from pretuned.tune.progress import Effort

_PROBE = Module(source='extern "C" __global__ void probe() {}', options=(), functions=("probe",))


class Library:
    """Gives binaries for modules; use it in a `with` statement, which ends the workers.

    `workers` as for `CompilePool`. A module that did not compile stays a failure for as long as the library lives, and
    is tried again by the next build.
    """

    def __init__(
        self, cache: Cache, effort: Effort, *, workers: int | None = None, toolchain: Toolchain = NVRTC
    ) -> None:
        self._toolchain = toolchain
        self._cache = cache
        self._effort = effort
        self._workers = workers
        self._pool: CompilePool | None = None
        self._known: dict[tuple[str, str, str], Binary | Failure] = {}  # by module, architecture and compiler
        self._compiler: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.close()

    def start(self) -> CompilePool:
        """Start the workers, if they have not started; their start overlaps with what the caller does next."""
        if self._pool is None:
            self._pool = CompilePool(self._workers, toolchain=self._toolchain)
        return self._pool

    @property
    def compiler(self) -> str:
        """The compiler's full version: the installed one's, or else a worker is asked."""
        if self._compiler is None:
            self._compiler = self._toolchain.installed()
        if self._compiler is None:
            ((_, result),) = self.start().compile([(_PROBE, self._toolchain.probe)])
            self._compiler = result.compiler if isinstance(result, Binary) else "unknown"
        return self._compiler

    def missing(self, jobs: Iterable[Job], compiler: str | None = None) -> list[Job]:
        """Return the jobs that neither memory nor cache knows for this compiler version."""
        wanted = {(module.key, architecture): (module, architecture) for module, architecture in jobs}
        return [job for key, job in wanted.items() if self._find(*key, compiler or self.compiler) is None]

    def compile(self, jobs: Iterable[Job]) -> None:
        """Compile what is missing."""
        missing = self.missing(jobs)
        if not missing:
            return
        with self._effort.stage("compiling"):
            for (module, architecture), result in self.start().compile(missing):
                self._effort.compiled += 1
                self._known[module.key, architecture, self.compiler] = result
                if isinstance(result, Binary):
                    self._cache.put_binary(_key(module.key, architecture, result.compiler), result)

    def get(self, module: Module, architecture: str) -> Binary | Failure:
        """Return a module that was compiled before."""
        found = self._find(module.key, architecture, self.compiler)
        assert found is not None, "compile() comes first"
        return found

    def all(self, jobs: Iterable[Job], compiler: str | None = None) -> Mapping[tuple[str, str], Binary | Failure]:
        """Return the binaries of `jobs` by (module key, architecture), compiling what is missing.

        With `compiler`, a version, those that this compiler made are taken from the cache where there are all of them.
        """
        listed = list(jobs)
        if compiler is not None and not self.missing(listed, compiler):
            chosen = compiler
        else:
            self.compile(listed)
            chosen = self.compiler
        found = {(module.key, arch): self._find(module.key, arch, chosen) for module, arch in listed}
        return {key: value for key, value in found.items() if value is not None}

    def _find(self, module: str, architecture: str, compiler: str) -> Binary | Failure | None:
        key = module, architecture, compiler
        if key not in self._known and (cached := self._cache.binary(_key(*key))) is not None:
            self._known[key] = cached
        return self._known.get(key)


def _key(module: str, architecture: str, compiler: str) -> str:
    return digest([module, architecture, compiler])
