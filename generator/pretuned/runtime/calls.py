"""A call from its beginning: check, look up, prepare, launch. What the fast path leaves ends here, or in an error.

What depends on the problem alone is worked out once and remembered: here for every class of call, by the types, shapes
and alignments of its arrays, and in the fast path for the usual class, where every array is aligned for every
configuration.
"""

from __future__ import annotations

import sys
import threading

from .adapters import absent, adapter_of, handle_of, nameless, on_gpu, on_register, view
from .arrays import collapse, leading_input, refuse_overlaps, same_device, views_of
from .binaries import residency
from .bound import Binding, bind
from .checks import keyword_values, modulus, problem
from .devices import in_hand
from .driver import DriverError, failed
from .driver import driver as find_driver
from .errors import ArgumentTypeError, UntunedWarning, qualified, warn
from .fastpath.paths import FastPath, known_again
from .libraries import call, missing
from .lists import aligning, together
from .lookup import decide
from .overrides import ambient, on_change, process_overrides
from .plans import REMEMBERED, PreparedCall, keep_captured, make, remember
from .scalars import type_of, wrong_scalar
from .table import PACKAGE
from .text import described
from .types import INVALID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .adapters import Adapter, ArrayView
    from .lookup import Decision
    from .overrides import Overrides
    from .plans import LaunchPlan
    from .records import Value
    from .table import Foreign, Kernel, Run, Scalar

_PLAIN = frozenset({int, float, complex, bool})
callers: dict[str, Caller] = {}
kinds: dict[str, Callable[[Kernel], Caller]] = {}  # of kernels whose calls have more to decide, by name
_warned: set[tuple[str, str | None]] = set()  # the devices at hand, and whose rows they take
_lock = threading.RLock()


def caller(kernel: Kernel) -> Caller:
    """Return what runs a kernel; raises UnavailableError where there is no GPU, OverrideError for a wrong override."""
    process_overrides()
    with _lock:
        if kernel.name not in callers:
            callers[kernel.name] = kinds.get(kernel.name, Caller)(kernel)
    return callers[kernel.name]


def _forget() -> None:
    """Begin anew with what is remembered, because overrides or adapters have changed."""
    with _lock:
        for one in callers.values():
            one.forget()


on_change.append(_forget)
on_register.append(_forget)


class Caller:
    """A kernel's calls on this machine: what is asked once, the problems seen so far, and the fast paths."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.driver, self.name = kernel, find_driver(qualified(kernel.name)), qualified(kernel.name)
        self.arrays = kernel.arrays
        self.places = tuple(f"{self.name}: {array.name}" for array in self.arrays)  # as messages begin
        self.results = tuple(index for index, array in enumerate(self.arrays) if array.role != "in")
        self.moduli = tuple(modulus(kernel, array) for array in self.arrays)
        # The first input: its library allocates outputs, and says which stream is the current one.
        self.lead = leading_input(self.arrays)
        self.collapses = any(array.trailing is not None for array in self.arrays)
        # Where a call says, ahead of its stream, how many arrays lists have: for each such number there is a fast path.
        counts, first = {one.count for one in kernel.lists}, -1 - len(kernel.keywords)
        self._counts = [place for place, name in enumerate(kernel.keywords, first) if name in counts]
        self.forget()

    def forget(self) -> None:
        """Begin anew: no plans, no fast paths."""
        self.plans: dict[Overrides, dict[Foreign, LaunchPlan]] = {}
        self.paths: dict[tuple[Foreign, ...], FastPath] = {}
        self.by_type: dict[tuple[Foreign, ...], Run] = {}
        self.kernel.run = self.dispatch

    def dispatch(self, *call: Foreign) -> Foreign:
        """Run a call by the fast path of its library; from its beginning where there is none."""
        path = self.by_type.get((type(call[self.lead]), *[call[place] for place in self._counts]))
        return self.slow(*self._parted(call)) if path is None else path(*call)

    def _parted(self, call: Sequence[Foreign]) -> tuple[Foreign, Foreign, Foreign, Foreign]:
        """Return arrays, numbers, keywords and the stream of a call."""
        arrays, numbers = len(self.arrays), len(self.arrays) + len(self.kernel.scalars)
        return call[:arrays], call[arrays:numbers], call[numbers:-1], call[-1]

    def slow(
        self, arrays: Sequence[Foreign], scalars: Sequence[Foreign], keywords: tuple[Value, ...], stream: Foreign
    ) -> Foreign:
        """Run a call from its beginning, or bind it; return its outputs.

        Arrays come in launch order, None for an output to allocate.
        """
        try:
            if isinstance(stream, Binding):
                bound = self.prepared(arrays, scalars, keywords, stream.stream, launches_only=True)
                return bind(self.driver, self.kernel, bound, self._answer(bound))
            return self._run(self.prepared(arrays, scalars, keywords, stream))
        except DriverError as error:  # an earlier kernel of the process has failed, as a rule
            raise failed(self.name, error) from None

    def _run(self, prepared: PreparedCall) -> Foreign:
        """Launch a call, count it, remember it; return its outputs."""
        plan = prepared.plan
        with self.driver.on(prepared.ordinal):
            self._launch(prepared)
            if plan.call is not None:
                arrays = {one.name: array for one, array in zip(self.arrays, prepared.arrays, strict=True)}
                call(plan.call, arrays, prepared.arrays[self.results[0]], prepared.handle, prepared.ordinal)
            if prepared.scratch:
                keep_captured(self.driver, prepared)
        if plan.counter is not None:
            next(plan.counter)
        self._remember(prepared)
        return self._answer(prepared)

    def _answer(self, prepared: PreparedCall) -> Foreign:
        results = [prepared.arrays[index] for index in self.results]
        if self.kernel.lists:
            results = together(self.kernel, results)
        return results[0] if len(results) == 1 else tuple(results)

    def prepared(
        self,
        arrays: Sequence[Foreign],
        scalars: Sequence[Foreign],
        keywords: tuple[Value, ...],
        stream: Foreign,
        *,
        launches_only: bool = False,
    ) -> PreparedCall:
        """Return a call with everything that it needs, checked; launches nothing.

        A library's function is passed over with `launches_only`, and while a graph is captured: it may allocate.
        """
        lead = arrays[self.lead]
        if keywords:
            keywords = tuple(keyword_values(self.kernel, keywords).values())
        overrides, adapter = ambient(), adapter_of(lead) or nameless()
        device = adapter.device_of(lead)
        at_hand = self.driver.current() if device is None else device
        handle = adapter.current_stream(at_hand) if stream is None else handle_of(self.name, stream, at_hand)
        given = views_of(self.kernel, self.places, arrays, handle)
        ordinal = same_device(self.kernel, given, self.lead, at_hand)
        leading, flat = collapse(self.kernel, given) if self.collapses else (None, given)
        with self.driver.on(ordinal):
            plan, usual = self._plan(overrides, ordinal, handle, keywords, flat), True
            if plan.call is not None and (launches_only or self.driver.capturing(handle)):
                plan, usual = self._plan(overrides, ordinal, handle, keywords, flat, launches_only=True), False
        self._check_scalars(plan, scalars)
        outputs = self._unfolded(plan, leading)
        made, scratch = self._allocated(plan, adapter, ordinal, None if stream is None else handle, outputs, arrays)
        views = [
            seen or (view(place, array, handle) if array is not None else absent(ordinal, *output))
            for seen, place, array, output in zip(given, self.places, made, outputs, strict=True)
        ]
        refuse_overlaps(self.kernel, views)
        rooms = [view(f"{self.name}: scratch", room, handle).address for room in scratch]
        values = (*(seen.address for seen in views), *scalars, *rooms)
        return PreparedCall(
            overrides=overrides,
            adapter=adapter,
            ordinal=ordinal,
            handle=handle,
            keywords=keywords,
            scalars=scalars,
            plan=plan,
            usual=usual,
            arrays=made,
            views=views,
            scratch=scratch,
            values=values,
        )

    def _allocated(
        self,
        plan: LaunchPlan,
        adapter: Adapter,
        ordinal: int,
        stream: int | None,
        outputs: Sequence[tuple[tuple[int, ...], str]],
        arrays: Sequence[Foreign],
    ) -> tuple[Sequence[Foreign], Sequence[Foreign]]:
        """Return the arrays with the outputs that were missing, and scratch; in the order of the stream, if one is."""
        lacking = {i for i, one in enumerate(self.arrays) if arrays[i] is None and outputs[i][1] and not one.optional}
        if not lacking and not plan.scratch:
            return arrays, ()
        with adapter.allocating(self.name, ordinal, stream) as empty:
            made = [empty(*outputs[i]) if i in lacking else one for i, one in enumerate(arrays)]
            return made, [empty((nbytes,), "uint8") for nbytes in plan.scratch]

    def _unfolded(self, plan: LaunchPlan, leading: tuple[int, ...] | None) -> Sequence[tuple[tuple[int, ...], str]]:
        """Return the shape and dtype of each array with all its leading dimensions."""
        if leading is None:
            return plan.outputs
        return [
            (shape if one.trailing is None else (*leading, *shape[1:]), dtype)
            for one, (shape, dtype) in zip(self.arrays, plan.outputs, strict=True)
        ]

    def _launch(self, prepared: PreparedCall) -> None:
        """Enqueue a call; raises what is wrong with a number, or what the driver reports."""
        try:
            status = prepared.plan.launch(self.driver, prepared.handle, prepared.values)
        except INVALID:
            raise wrong_scalar(self.kernel, prepared.plan.numbers, prepared.scalars) from None
        if status:
            raise failed(self.name, self.driver.named(status))

    def _plan(
        self,
        overrides: Overrides,
        ordinal: int,
        handle: int,
        keywords: tuple[Value, ...],
        views: Sequence[ArrayView | None],
        *,
        launches_only: bool = False,
    ) -> LaunchPlan:
        """Return the plan of a class of calls, made at its first; None stands for an output that is yet to be made."""
        classes = tuple(
            [
                seen and (seen.dtype, seen.shape, seen.strides, seen.address % m)
                for seen, m in zip(views, self.moduli, strict=True)
            ]
        )
        key, memo = (ordinal, keywords, classes, launches_only), self.plans.setdefault(overrides, {})
        found = memo.get(key)
        if found is None:
            found = self.planned(overrides, ordinal, handle, keywords, views, launches_only=launches_only)
            remember(memo, key, found, REMEMBERED)
        return found

    def planned(
        self,
        overrides: Overrides,
        ordinal: int,
        handle: int,
        keywords: tuple[Value, ...],
        views: Sequence[ArrayView | None],
        *,
        launches_only: bool,
    ) -> LaunchPlan:
        """Check a problem that was not seen before, decide what runs it, and prepare that."""
        kernel, device = self.kernel, in_hand(self.driver, ordinal)
        given = dict(zip(kernel.keywords, keywords, strict=True))
        found = problem(kernel, views, given, device)
        aligned = aligning(self.arrays, views)

        def uncalled(module: str, function: str) -> str | None:
            return f"{module}.{function} may allocate" if launches_only else missing(module, function)

        held = residency(self.driver, kernel, device, handle)
        decision = decide(kernel, found, aligned, overrides, uncalled, held)
        _report(kernel, decision, device.name, overrides)
        plan = make(self.driver, kernel, decision, device, handle)
        if overrides.usage:
            from .usage import counter_of  # noqa: PLC0415 - brings json, which few processes need

            plan.counter = counter_of(kernel, device.name, found.specialisation, found.values, overrides.usage)
        return plan

    def _check_scalars(self, plan: LaunchPlan, scalars: Sequence[Foreign]) -> None:
        for scalar, dtype, value in zip(self.kernel.scalars, plan.numbers, scalars, strict=True):
            if type(value) not in _PLAIN:
                self._refuse_array(scalar, value)
            if not type_of(self.kernel, dtype).packs(value):
                raise wrong_scalar(self.kernel, plan.numbers, scalars)

    def _refuse_array(self, scalar: Scalar, value: object) -> None:
        """Refuse a number that lies on the GPU: reading it would wait for all that was launched."""
        if on_gpu(value):
            raise ArgumentTypeError(
                f"{self.name}: {scalar.name}: expected a number, found an array on the GPU; "
                f"pass {scalar.name}.item(), which waits for the GPU"
            )

    def _remember(self, prepared: PreparedCall) -> None:
        """Enter the problem into the fast path of the call's library, if that can take it."""
        plan = prepared.plan
        if not (prepared.overrides.fast_path and known_again(self.kernel, self.moduli, prepared)):
            return
        if not plan.again:  # a fast path takes as long to write as many calls: not for the first of a problem
            plan.again = True
            return
        with _lock:  # or overrides could change in the middle, and the fast path would stay with the old ones
            if prepared.overrides is ambient():
                self._enter(prepared)

    def _enter(self, prepared: PreparedCall) -> None:
        """Put a call's problem into the fast path of its library, which is opened with the first."""
        adapter, counts = prepared.adapter, [prepared.keywords[place + 1] for place in self._counts]
        path = self.paths.get((adapter.name, *counts))
        if path is None:
            expressions = adapter.expressions()
            if expressions is None:
                return
            path = FastPath(self.kernel, self.driver, self.moduli, expressions, prepared, self.slow)
            self.paths[adapter.name, *counts] = path
        path.enter(prepared)
        kind = (type(prepared.arrays[self.lead]), *counts)
        if kind not in self.by_type:
            self.by_type[kind] = path.call
            self.kernel.run = path.call if len(self.by_type) == 1 and not counts else self.dispatch


def _report(kernel: Kernel, decision: Decision, device: str, overrides: Overrides) -> None:
    """Log a first dispatch; warn once for a device without rows, and once for rows of another that is not like it."""
    if (logging := sys.modules.get("logging")) is not None:  # nothing listens where it was never imported
        log = logging.getLogger(PACKAGE)
        if log.isEnabledFor(logging.DEBUG):
            ran = described(decision.shipped.implementation, decision.shipped.configuration)
            log.debug("%s on %s: %s: %s", kernel.name, device, ran, "; ".join(decision.why))
    if not decision.warning or not overrides.warn:
        return
    with _lock:
        if (device, decision.device) in _warned:
            return
        _warned.add((device, decision.device))
    warn(caution(kernel, decision), UntunedWarning)


def caution(kernel: Kernel, decision: Decision) -> str:
    """Return the warning that a decision is worth."""
    default = "" if decision.tuned else ": the default runs, untuned"
    return (
        f"{qualified(kernel.name)}: {decision.warning}{default}; tune on such a device with `pretuned tune`, "
        "choose rows with PRETUNED_DEVICE, or silence this with PRETUNED_WARN=0"
    )
