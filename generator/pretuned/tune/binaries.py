"""The binaries of sources: from this process, from the user cache, or from the compile workers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from pretuned.compile.nvrtc import NVRTC
from pretuned.compile.outside import CompileJob, Outside
from pretuned.compile.pool import CompilePool, processors
from pretuned.compile.result import AND, Binary, Toolchain
from pretuned.outcome import Failure
from pretuned.record.cache import Cache
from pretuned.render import Source, digest
from pretuned.runtime import prelude
from pretuned.tune.events import Listener, SourcesCompiled
from pretuned.tune.spending import Spending

_EMPTY = Source(text='extern "C" __global__ void empty() {}', options=(), functions=("empty",))


class BinaryStore:
    """Gives binaries for sources; use it in a `with` statement, which ends the workers.

    `workers` and `hurried` as for `CompilePool`. A source that did not compile is tried again by the next build, and
    not before.
    """

    def __init__(
        self,
        cache: Cache,
        spending: Spending,
        *,
        workers: int | None = None,
        toolchain: Toolchain = NVRTC,
        hurried: bool = False,
        listen: Listener = lambda _event: None,
    ) -> None:
        self._toolchain = toolchain
        self._listen = listen
        self._cache = cache
        self._spending = spending
        self._workers = workers
        self._hurried = hurried
        self._pool: CompilePool | None = None
        self._outside: Outside | None = None
        self._known: dict[tuple[str, str, str], Binary | Failure] = {}  # by source, architecture and compiler
        self._under_way: set[tuple[str, str]] = set()
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
            self._pool = CompilePool(self._workers, toolchain=self._toolchain, hurried=self._hurried)
            if self._outside is not None:
                self._pool.borrow(self._outside)
        return self._pool

    def borrow(self, outside: Outside) -> None:
        """Have compilers elsewhere compile too, from the start of the workers on."""
        self._outside = outside

    @property
    def refused(self) -> dict[str, str]:
        """The workers elsewhere from which nothing more is taken, and why."""
        return {} if self._outside is None else dict(self._outside.refused)

    @property
    def compiler(self) -> str:
        """The compiler's full version: that of the installed package, or else what a worker reports."""
        if self._compiler is None:
            self._compiler = self._toolchain.installed()
        if self._compiler is None:
            ((_, result),) = self.start().compile([(_EMPTY, self._toolchain.any_architecture)])
            self._compiler = result.compiler if isinstance(result, Binary) else "unknown"
        return self._compiler

    def missing(self, jobs: Iterable[CompileJob], compiler: str | None = None) -> list[CompileJob]:
        """Return the jobs that neither this process nor the cache has binaries of, for this compiler version."""
        wanted = {(source.key, architecture): (source, architecture) for source, architecture in jobs}
        return [job for key, job in wanted.items() if self._find(*key, compiler or self.compiler) is None]

    def request(self, jobs: Iterable[CompileJob], *, first: bool = False) -> int:
        """Begin to compile what is missing while the caller goes on, and return how many sources that is.

        With `first` they go before others that wait.
        """
        fresh = [job for job in self.missing(jobs) if (job[0].key, job[1]) not in self._under_way]
        if fresh:
            self._under_way.update((source.key, architecture) for source, architecture in fresh)
            self.start().put(fresh, first=first)
            self._report()
        return len(fresh)

    def withdraw(self, jobs: Iterable[CompileJob]) -> list[CompileJob]:
        """Take back those of `jobs` that no worker has begun with, and return them."""
        gone = [] if self._pool is None else self._pool.withdraw(jobs)
        self._under_way.difference_update((source.key, architecture) for source, architecture in gone)
        return gone

    @property
    def workers(self) -> int:
        """How many sources are compiled at once."""
        if self._outside is not None and self._pool is not None:
            return self._pool.slots
        return self._workers or processors()

    def compile_s(self, source: Source) -> float | None:
        """Return the mean seconds that sources of the same functions took a worker; None where too few have ended."""
        return None if self._pool is None else self._pool.mean_s(source)

    def poll(self, *, wait_s: float | None = 0.0) -> None:
        """Take what has been compiled since, and wait for it up to `wait_s` seconds (None: as long as it takes)."""
        if self._pool is None or not self._under_way:
            return
        with contextlib.nullcontext() if wait_s == 0 else self._spending.stage("waiting for compilers"):
            ended = self._pool.take(wait_s=wait_s)
        if self._outside is not None:
            self._spending.elsewhere.update(self._pool.elsewhere)
            self._pool.elsewhere.clear()
        for (source, architecture), result in ended:
            self._under_way.discard((source.key, architecture))
            self._spending.compiled += 1
            wanted, _, beside = architecture.partition(AND)
            if isinstance(result, Binary) and result.ptx is not None:
                self._keep(source.key, beside, result.ptx)
                self._keep(source.key, wanted, replace(result, ptx=None))
            else:
                self._keep(source.key, wanted, result)
        if ended:
            self._report()

    def _keep(self, source: str, architecture: str, result: Binary | Failure) -> None:
        """Remember what became of a source for one architecture."""
        if isinstance(result, Binary):
            self._cache.put_binary(_key(source, architecture, result.compiler), result)
        self._known[source, architecture, self.compiler] = result

    def _report(self) -> None:
        done = self._spending.compiled
        self._listen(SourcesCompiled(done=done, asked=done + len(self._under_way), workers=self.workers))

    def find(self, source: Source, architecture: str) -> Binary | Failure | None:
        """Return the binary of a source, why it did not compile, or None while it is not compiled."""
        if (source.key, architecture) in self._under_way:  # nothing has it: this is asked for each of thousands
            return None
        return self._find(source.key, architecture, self.compiler)

    def compile(self, jobs: Iterable[CompileJob]) -> None:
        """Compile what is missing, and wait for it."""
        listed = list(jobs)
        self.request(listed, first=True)
        while any((source.key, architecture) in self._under_way for source, architecture in listed):
            self.poll(wait_s=None)

    def get(self, source: Source, architecture: str) -> Binary | Failure:
        """Return the binary of a source, or why it did not compile; compiles it if need be."""
        self.compile([(source, architecture)])
        found = self.find(source, architecture)
        assert found is not None  # it has been compiled
        return found

    def all(
        self, jobs: Iterable[CompileJob], compiler: str | None = None
    ) -> Mapping[tuple[str, str], Binary | Failure]:
        """Return the binaries of `jobs` by (source key, architecture), compiling what is missing.

        With `compiler`, a version, its binaries are used if the cache has all of them, and none of them otherwise.
        """
        listed = list(jobs)
        if compiler is not None and not self.missing(listed, compiler):
            chosen = compiler
        else:
            if self._toolchain.joins and self._outside is None:
                self.compile(_joined(self.missing(listed)))
            self.compile(listed)  # where ptxas refused a cubin, the PTX as well
            chosen = self.compiler
        found = {(source.key, arch): self._find(source.key, arch, chosen) for source, arch in listed}
        return {key: value for key, value in found.items() if value is not None}

    def _find(self, source: str, architecture: str, compiler: str) -> Binary | Failure | None:
        key = source, architecture, compiler
        if key not in self._known and (cached := self._cache.binary(_key(*key))) is not None:
            self._known[key] = cached
        return self._known.get(key)


def _joined(jobs: Iterable[CompileJob]) -> Iterator[CompileJob]:
    """Yield the jobs, those for `sm_90` and `compute_90` of one source as one."""
    wanted = {(source.key, architecture): source for source, architecture in jobs}
    for (key, architecture), source in wanted.items():
        real, portable = architecture.replace("compute_", "sm_"), architecture.replace("sm_", "compute_")
        if real == portable or not {(key, real), (key, portable)} <= wanted.keys():
            yield source, architecture
        elif architecture == real:
            yield source, f"{real}{AND}{portable}"


def _key(source: str, architecture: str, compiler: str) -> str:
    return digest([source, architecture, compiler, prelude.VERSION])
