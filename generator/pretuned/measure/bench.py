"""The side that holds the machine: problems and candidates; verifies and times.

A `Bench` may be used in the process at hand, for tests and for trying a kernel; tuning runs it in a child
(`pretuned.measure.server`), since a candidate may hang, crash or poison the context.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Generic

from pretuned.measure.interleaving import interleaved
from pretuned.measure.launch import BoundLaunch, absent, initialised, launches, scalars, scratch
from pretuned.measure.layouts import laid_out
from pretuned.measure.machine import K, Machine, OutOfMemory, Refused
from pretuned.measure.prepared import PreparedProblems
from pretuned.measure.pristine import Pools
from pretuned.measure.references import DeviceReferences
from pretuned.measure.regions import CallBuffers
from pretuned.measure.requests import (
    CompiledCandidate,
    PrepareRequest,
    Raced,
    RaceRequest,
    Screened,
    ScreenRequest,
    Verified,
)
from pretuned.measure.rounds import summary
from pretuned.measure.sampling import is_told
from pretuned.measure.stage import Stage
from pretuned.measure.verdict import judge, wrong
from pretuned.measure.workspace import POISONS, GuardCheck, Workspace
from pretuned.outcome import SCRATCH, Failure, LaunchFailed, Timed, WrongResult
from pretuned.spec.expressions import ExpressionError
from pretuned.spec.space import Pairs, Problem

SCREEN_SETS: Final = 4  # judged again after screening; finals judge all, time and again
SETTLED: Final = 64  # executions of a finalist that are judged: one wrong in 16 shows in 98 of 100
SETTLING_S: Final = 0.008  # but no more than this long for one finalist, beyond once on every set
LAID_OUT: Final = 8  # of a finalist in every other layout of its arrays
SMALL_BYTES: Final = 1 << 16  # of the arrays of a call that is verified with every poison
ALONE: Final = ", and right without"  # what is wrong in one layout of the arrays alone
UNSET: Final = "right where outputs and scratch held NaN before the call"
EARLY: Final = (
    "right where nothing before it on the stream wrote its arrays: with `overlap` a kernel has to execute "
    "cudaGridDependencySynchronize() before it reads or writes memory"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded(Generic[K]):
    """A loaded candidate with the buffers of its calls, and the scratch among them, which lives as long as it does."""

    entry: CompiledCandidate
    kernel: K
    buffers: CallBuffers
    scratch: Workspace | None = None
    overlaps: bool = False


class Bench(Generic[K]):
    """A machine, which so many `processes` share, with the problems that candidates are tried at: one is current."""

    def __init__(self, machine: Machine[K], processes: int = 1) -> None:
        self.machine = machine
        self._host = ThreadPoolExecutor(1, thread_name_prefix="reference")
        pools = Pools(machine)
        self.references = DeviceReferences(machine, pools)
        self._prepared = PreparedProblems(machine, pools, processes)
        self._images: dict[str, bytes] = {}
        self._first_s = 0.0  # of the last candidate that was verified: its first launch

    def prepare(self, request: PrepareRequest) -> None:
        """Make a problem current; raises OutOfMemory, FunctionError, or Refused where the default has no reference."""
        self._keep_image(request.default)
        if self._prepared.prepare(request):
            self._keep_defaults(request.default)
        if request.reference != "none":
            self.stage.begin_reference(self._host, self.references)
        if request.reference == "now":
            _ = self.stage.references

    def _keep_defaults(self, default: CompiledCandidate) -> None:
        """Have the default make the reference of the problem, where nothing else does."""
        if self.stage.by_default:
            try:
                self._run(self.load(default), 0)
            except Refused:
                self._prepared.forget_current()
                raise
            self.stage.keep_outputs()

    @property
    def stage(self) -> Stage:
        """The problem that was prepared last."""
        return self._prepared.current

    def _keep_image(self, entry: CompiledCandidate) -> None:
        if entry.image:
            self._images[entry.digest] = entry.image

    def load(self, entry: CompiledCandidate) -> _Loaded[K]:
        """Load a candidate for the current problem; raises Refused or Poisoned."""
        request, workspace = self.stage.request, self.stage.workspace
        spec, problem = request.spec, request.problem
        call = spec.all_implementations[entry.configuration.implementation].call
        zeroed = initialised(spec, entry.configuration)
        if call is not None:
            (output,) = spec.outputs
            buffers = workspace.call_buffers(zeroed=zeroed)
            kernel = self.machine.load_call(call, buffers, output=output.name)
            return _Loaded(entry=entry, kernel=kernel, buffers=buffers)
        self._keep_image(entry)
        planned = self._planned(entry, problem)
        own = self._scratch(entry)
        buffers = workspace.call_buffers(zeroed=zeroed, scratch=own)
        types = {name: region.buffer.dtype for name, region in buffers.sets[0].items()} | absent(spec, problem)
        values = scalars(spec, problem, entry.configuration, self.machine.facts)
        kernel = self.machine.load(self._images[entry.digest], planned, values, types=types)
        overlaps = any(launch.overlap for launch in planned)
        return _Loaded(entry=entry, kernel=kernel, buffers=buffers, scratch=own, overlaps=overlaps)

    def _planned(self, entry: CompiledCandidate, problem: Problem) -> tuple[BoundLaunch, ...]:
        held = partial(self.machine.held, self._images[entry.digest])
        planned = launches(self.stage.request.spec, problem, entry.configuration, self.machine.facts, held)
        if isinstance(planned, LaunchFailed):
            raise Refused(planned)
        return planned

    def _scratch(self, entry: CompiledCandidate) -> Workspace | None:
        """Return as many sets of a candidate's scratch buffers as the problem has; raises Refused."""
        request, count = self.stage.request, self.stage.workspace.count
        try:
            buffers = scratch(request.spec, request.problem, entry.configuration, self.machine.facts)
            own = Workspace(self.machine, buffers, {}, count) if buffers else None
        except (ExpressionError, OutOfMemory) as error:
            raise Refused(LaunchFailed(message=f"{SCRATCH}{error}")) from None
        if own is not None and own.count < count:
            message = f"{SCRATCH}{own.count} of the {count} sets to rotate through fit into the memory"
            raise Refused(LaunchFailed(message=message))
        return own

    def verify(self, entry: CompiledCandidate) -> Verified:
        """Run `entry` once on poisoned buffers and judge what it wrote."""
        loaded = self.load(entry)
        try:
            failure, error = self._verified(loaded)
            return Verified(failure=failure, error=error)
        finally:
            loaded.kernel.unload()

    def screen(self, request: ScreenRequest) -> Iterator[Screened]:
        """Yield what becomes of each entry; raises Poisoned where one takes the machine with it."""
        best_us = request.best_us
        for entry in request.entries:
            try:
                screened = self._screened(entry, request.verify, best_us)
            except Refused as refused:
                screened = Screened(outcome=refused.outcome)
            if isinstance(screened.outcome, Timed):
                best_us = min(best_us, screened.outcome.time_us)
            yield screened

    def _screened(self, entry: CompiledCandidate, verify: bool, best_us: float) -> Screened:
        """Verify, time, and judge what the timing left behind."""
        started = time.perf_counter()
        loaded = self.load(entry)
        load_s = time.perf_counter() - started
        outcome: Timed | Failure
        try:
            begun = time.perf_counter()
            if verify:
                failure, _ = self._verified(loaded)
                first_us = self._first_s * 1e6
                told = is_told(first_us, best_us) and not entry.is_call
                if failure is not None or told:
                    outcome = failure or Timed(time_us=first_us, spread=0.0, samples=1)
                    return Screened(outcome=outcome, load_s=load_s, verify_s=time.perf_counter() - begun)
            verified = time.perf_counter()
            samples, sets, device_s = self.machine.screen(loaded.kernel, loaded.buffers, best_us)
            timed = time.perf_counter()
            outcome = summary(samples)
            if verify:
                outcome = self._judge(loaded, sets[-SCREEN_SETS:])[0] or outcome
            verify_s = verified - begun + time.perf_counter() - timed
            return Screened(outcome=outcome, load_s=load_s, verify_s=verify_s, device_s=device_s)
        finally:
            loaded.kernel.unload()

    def race(self, request: RaceRequest) -> Raced:
        """Time the entries in interleaved rounds; then, if asked, run each time and again and judge every result."""
        self.stage.move(request.place)
        racing: list[_Loaded[K]] = []
        try:
            for entry in request.entries:
                try:
                    racing.append(self.load(entry))
                except Refused as refused:  # by this one: the others are no worse for it
                    return Raced.not_begun(request, len(racing), refused.outcome)
            calls = [(loaded.kernel, loaded.buffers) for loaded in racing]
            raced = interleaved(self.machine, calls, request)
            failures = tuple(self._settle(loaded) if request.judge else None for loaded in racing)
            return replace(raced, failures=failures)
        finally:
            for loaded in racing:
                loaded.kernel.unload()

    def _settle(self, loaded: _Loaded[K]) -> Failure | None:
        """Run a kernel back to back on every set, as the timing does, and judge every result: races show here."""
        sets = range(loaded.buffers.count)
        failure = self._strayed(loaded)
        if failure is not None:
            return failure
        end = time.perf_counter() + SETTLING_S
        for _ in range(-(-SETTLED // len(sets))):
            self._reset(loaded, sets)
            for index in sets:
                self.machine.call(loaded.kernel, loaded.buffers, index)
            self.machine.synchronize()
            failure, _ = self._judge(loaded, sets)
            if failure is not None or time.perf_counter() > end:
                break
        return failure or self._laid_out(loaded, times=LAID_OUT)

    def _laid_out(self, loaded: _Loaded[K], times: int = 1) -> Failure | None:
        """Run a kernel on set 0 in each layout that the spec allows besides, so many times, and judge every result."""
        for layout in self.stage.elsewhere.layouts(loaded.entry.configuration, self.machine.facts):
            buffers, kernel = laid_out(layout, loaded.buffers), loaded.kernel
            if layout.strides:
                try:
                    kernel = self._with_strides(loaded, layout.strides)
                except Refused:  # as a call with these strides is
                    continue
            for _ in range(times):
                self._reset(loaded, [0])
                layout.begin(self.machine)
                self.machine.call(kernel, buffers, 0)
                self.machine.synchronize()
                layout.bring_back(self.machine, self.stage.workspace.sets[0])
                failure, _ = self._judge(loaded, [0], layout.guard_checks())
                if isinstance(failure, WrongResult):
                    return replace(failure, message=f"{failure.message}; {layout}{ALONE}")
        return None

    def _with_strides(self, loaded: _Loaded[K], strides: Pairs) -> K:
        """Return a kernel as it is launched where rows lie so far apart; raises Refused."""
        spec, entry = self.stage.request.spec, loaded.entry
        problem = replace(self.stage.request.problem, strides=strides)
        values = scalars(spec, problem, entry.configuration, self.machine.facts)
        return self.machine.relaunched(loaded.kernel, self._planned(entry, problem), values)

    def _verified(self, loaded: _Loaded[K]) -> tuple[Failure | None, float]:
        """Return what `_alone` does; what a library gets wrong counts where it is wrong again with more memory free.

        CuPy ignores the status of CUB, which leaves the result as it was where memory is short.
        """
        failure, error = self._alone(loaded)
        if isinstance(failure, WrongResult) and loaded.entry.is_call:
            self.machine.trim()
            failure, error = self._alone(loaded)
        return failure, error

    def _alone(self, loaded: _Loaded[K]) -> tuple[Failure | None, float]:
        """Run a kernel once, on set 0, and return what `_judge` does; a small problem is run with every poison."""
        failure = self._strayed(loaded)
        if failure is not None:
            return failure, 0.0
        failure, error = self._judge(loaded, [0])
        failure = failure or self._laid_out(loaded)
        small = loaded.buffers.nbytes <= SMALL_BYTES * loaded.buffers.count
        for turn in range(1, len(POISONS)) if small and failure is None else ():
            self._run(loaded, 0, turn)
            failure, _ = self._judge(loaded, [0])
            if isinstance(failure, WrongResult):
                return replace(failure, message=f"{failure.message}; {UNSET}"), error
        if failure is None and loaded.overlaps:
            failure = self._behind_writers(loaded)
        return failure, error

    def _behind_writers(self, loaded: _Loaded[K]) -> Failure | None:
        """Run a kernel once, on set 0, behind launches that write what it takes, and return what is wrong."""
        self._reset(loaded, [0])
        try:
            self.machine.call_behind_writers(loaded.kernel, loaded.buffers, 0)
        except OutOfMemory:  # of its arrays twice: a smaller problem shows what is wrong
            return None
        self.machine.synchronize()
        failure, _ = self._judge(loaded, [0])
        return replace(failure, message=f"{failure.message}; {EARLY}") if isinstance(failure, WrongResult) else failure

    def _strayed(self, loaded: _Loaded[K]) -> Failure | None:
        """Run a kernel once, on set 0, and return what is wrong if it wrote to others."""
        copies = [self.stage.workspace, *([loaded.scratch] if loaded.scratch is not None else [])]
        checks = [check for workspace in copies for check in workspace.elsewhere(0)]
        before = self.machine.ask(checks)
        self._first_s = self._run(loaded, 0)
        if self.machine.ask(checks) == before:
            return None
        return wrong(self.stage.request.spec.outputs[0].name, "written far outside, to the arrays of other calls")

    def _run(self, loaded: _Loaded[K], index: int, turn: int = 0) -> float:
        """Run a kernel once, and return the seconds that the host waited for it."""
        self._reset(loaded, [index], turn)
        self.machine.synchronize()
        begun = time.perf_counter()
        self.machine.call(loaded.kernel, loaded.buffers, index)
        self.machine.synchronize()
        return time.perf_counter() - begun

    def _judge(
        self, loaded: _Loaded[K], sets: Sequence[int], more: Sequence[GuardCheck] = ()
    ) -> tuple[Failure | None, float]:
        return judge(self.machine, self.stage, sets, scratch=loaded.scratch, more=more)

    def _reset(self, loaded: _Loaded[K], sets: Sequence[int], turn: int = 0) -> None:
        self.stage.workspace.reset(sets, turn)
        if loaded.scratch is not None:
            loaded.scratch.reset(sets, turn)
