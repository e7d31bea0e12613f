"""A call from its beginning: check, look up, prepare, launch. What a lane leaves undone ends here, or in an error.

What depends on the problem alone is worked out once and remembered: here for every class of call, by the types, shapes
and alignments of its arrays, and in the lane for the usual class, where every array is aligned for every configuration.
"""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from functools import partial

from . import PACKAGE, Binding
from .arrays import allocating, current_stream, device_at_hand, handle_of, library_of, view
from .checks import arrays_of, call_scalars, keyword_values, modulus, problem, refuse_overlaps, same_device
from .configurations import describe
from .devices import in_hand
from .dialects import dialect_of
from .driver import DriverError, direct, failed
from .driver import driver as find_driver
from .errors import ArgumentTypeError, UntunedWarning, qualified, warn
from .lanes import Lane
from .libraries import call, missing
from .lookup import decide
from .made import Made, keep_captured
from .overrides import ambient, process_overrides, watched
from .plans import INVALID, REMEMBERED, Packed, make, packs, wrong_scalar
from .types import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from . import Array, Foreign, Kernel, Run, Scalar, Value
    from .arrays import View
    from .lanes import Start
    from .lookup import Decision
    from .overrides import Overrides
    from .plans import Plan

_PLAIN = frozenset({int, float, bool})
_callers: dict[str, Caller] = {}
_warned: set[str] = set()
_lock = threading.RLock()


def caller(kernel: Kernel) -> Caller:
    """Return what runs a kernel; raises UnavailableError where there is no GPU, OverrideError for a wrong override."""
    process_overrides()
    with _lock:
        if kernel.name not in _callers:
            _callers[kernel.name] = Caller(kernel)
    return _callers[kernel.name]


def forget() -> None:
    """Begin anew with what is remembered, because overrides have changed."""
    with _lock:
        for one in _callers.values():
            one.forget()


class Caller:
    """A kernel's calls on this machine: what is asked once, the problems seen so far, and the lanes."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.driver = kernel, find_driver(qualified(kernel.name))
        self.arrays: tuple[Array, ...] = arrays_of(kernel)
        self.scalars = call_scalars(kernel)
        self.names = tuple(array.name for array in self.arrays)
        self.results = tuple(index for index, array in enumerate(self.arrays) if array.role != "in")
        self.moduli = tuple(modulus(kernel, array) for array in self.arrays)
        # The first input: its library allocates outputs, and says which stream is the current one.
        self.lead = next((index for index, array in enumerate(self.arrays) if array.role != "out"), 0)
        self.forget()

    def forget(self) -> None:
        """Begin anew: no plans, no lanes."""
        self.plans: dict[Overrides, dict[Foreign, Plan]] = {}
        self.lanes: dict[str, Opened] = {}
        self.by_type: dict[type, Run] = {}
        self.kernel.run = self.dispatch

    def dispatch(self, *call: Foreign) -> Foreign:
        """Run a call, given as a lane takes it, by the lane of its library; from its beginning where there is none."""
        lane = self.by_type.get(type(call[self.lead]))
        return self.slow(*self.parted(call)) if lane is None else lane(*call)

    def parted(self, call: Sequence[Foreign]) -> tuple[Foreign, Foreign, Foreign, Foreign]:
        """Return arrays, numbers, keywords and the stream of a call."""
        arrays, numbers = len(self.arrays), len(self.arrays) + len(self.scalars)
        return call[:arrays], call[arrays:numbers], call[numbers:-1], call[-1]

    def slow(
        self, arrays: Sequence[Foreign], scalars: Sequence[Foreign], keywords: tuple[Value, ...], stream: Foreign
    ) -> Foreign:
        """Run a call from its beginning, or bind it; return its outputs.

        Arrays come in launch order, None for an output to allocate.
        """
        try:
            if isinstance(stream, Binding):
                from .bound import bind  # noqa: PLC0415 - it imports this module

                return bind(self, (arrays, scalars, keywords, stream.stream))
            return self.run(self.made(arrays, scalars, keywords, stream))
        except DriverError as error:  # an earlier kernel of the process has failed, as a rule
            raise failed(qualified(self.kernel.name), error) from None

    def run(self, made: Made) -> Foreign:
        """Launch a call, count it, remember it; return its outputs."""
        plan = made.plan
        with self.driver.on(made.ordinal):
            self.launch(made)
            if plan.call is not None:
                named = dict(zip(self.names, made.arrays, strict=True))
                call(plan.call, named, made.arrays[self.results[0]], made.handle, made.ordinal)
            if made.scratch:
                keep_captured(self.driver, made)
        if plan.counter is not None:
            next(plan.counter)
        self.remember(made)
        results = [made.arrays[index] for index in self.results]
        return results[0] if len(results) == 1 else tuple(results)

    def made(
        self,
        arrays: Sequence[Foreign],
        scalars: Sequence[Foreign],
        keywords: tuple[Value, ...],
        stream: Foreign,
        *,
        launches_only: bool = False,
    ) -> Made:
        """Return a call with everything that it needs, checked; launches nothing.

        A library's function is passed over with `launches_only`, and while a graph is captured: it may allocate.
        """
        name, lead = self.kernel.name, arrays[self.lead]
        if keywords:
            keywords = tuple(keyword_values(self.kernel, keywords).values())
        made = Made(scalars, keywords, ambient())
        made.library = library = library_of(lead)
        at_hand = device_at_hand(self.driver, library, lead)
        made.handle = current_stream(library, at_hand) if stream is None else handle_of(name, stream, at_hand)
        made.alive = taken = [
            None
            if array is None and one.role == "out"
            else view(name, one.name, array, made.handle, written=one.role != "in")
            for one, array in zip(self.arrays, arrays, strict=True)
        ]
        given = [None if entry is None else entry[0] for entry in taken]
        made.ordinal = same_device(name, self.names, given, at_hand)
        with self.driver.on(made.ordinal):
            made.plan = self.plan(made, given)
            if made.plan.call is not None and (launches_only or self.driver.capturing(made.handle)):
                made.plan, made.usual = self.plan(made, given, launches_only=True), False
        for scalar, value in zip(self.scalars, scalars, strict=True):
            if type(value) not in _PLAIN:
                self.check_scalar(scalar, value)
            if not packs(scalar.dtype, value):
                raise wrong_scalar(self.kernel, scalars)
        self.allocate(made, arrays, given, explicit=stream is not None)
        refuse_overlaps(name, self.arrays, made.views)
        rooms = [view(name, "scratch", room, made.handle)[0][0] for room in made.scratch]
        made.values = (*(seen[0] for seen in made.views), *scalars, *rooms)
        return made

    def allocate(self, made: Made, arrays: Sequence[Foreign], given: Sequence[View | None], *, explicit: bool) -> None:
        """Fill in the outputs that are missing, and scratch; on an explicit stream, in its order."""
        name, plan = self.kernel.name, made.plan
        made.arrays = list(arrays)
        if None in given or plan.scratch:
            with allocating(name, made.library, made.ordinal, made.handle if explicit else None) as empty:
                made.arrays = [empty(*plan.outputs[i]) if given[i] is None else one for i, one in enumerate(arrays)]
                made.scratch = [empty((nbytes,), "uint8") for nbytes in plan.scratch]
        made.views = [
            view(name, self.names[i], made.arrays[i], made.handle)[0] if seen is None else seen
            for i, seen in enumerate(given)
        ]

    def launch(self, made: Made) -> None:
        """Enqueue a call; raises what is wrong with a number, or what the driver says."""
        try:
            status = made.plan.launch(self.driver, made.handle, made.values)
        except INVALID:
            raise wrong_scalar(self.kernel, made.scalars) from None
        if status:
            raise failed(qualified(self.kernel.name), self.driver.named(status))

    def plan(self, made: Made, views: Sequence[View | None], *, launches_only: bool = False) -> Plan:
        """Return the plan of a class of calls, made at its first; None stands for an output that is yet to be made."""
        classes = tuple([seen and (seen[1], seen[2], seen[0] % m) for seen, m in zip(views, self.moduli, strict=True)])
        key, memo = (made.ordinal, made.keywords, classes, launches_only), self.plans.setdefault(made.overrides, {})
        found = memo.get(key)
        if found is None:
            found = self.planned(made, views, launches_only=launches_only)
            if len(memo) >= REMEMBERED:
                memo.clear()
            memo[key] = found
        return found

    def planned(self, made: Made, views: Sequence[View | None], *, launches_only: bool) -> Plan:
        """Check a problem that was not seen before, decide what runs it, and prepare that."""
        kernel, device = self.kernel, in_hand(self.driver, made.ordinal)
        given = dict(zip(kernel.keywords, made.keywords, strict=True))
        specialisation, values = problem(kernel, views, given, device)
        addresses = {name: seen[0] if seen else 0 for name, seen in zip(self.names, views, strict=True)}

        def aligned(name: str, nbytes: int) -> bool:
            return addresses[name] % nbytes == 0

        def uncalled(module: str, function: str) -> str | None:
            return f"{module}.{function} may allocate" if launches_only else missing(module, function)

        decision = decide(kernel, device, specialisation, values, aligned, made.overrides, uncalled)
        _tell(kernel, decision, device.name, made.overrides)
        plan = make(self.driver, kernel, decision, device, made.handle)
        if made.overrides.usage:
            from .usage import counter_of  # noqa: PLC0415 - brings json, which few processes need

            plan.counter = counter_of(kernel, device.name, decision, made.overrides.usage)
        return plan

    def check_scalar(self, scalar: Scalar, value: object) -> None:
        """Refuse a number that lies on the GPU: reading it would wait for all that was launched."""
        if library_of(value):
            raise ArgumentTypeError(
                f"{qualified(self.kernel.name)}: {scalar.name}: expected a number, found an array on the GPU; "
                f"pass {scalar.name}.item(), which waits for the GPU"
            )

    def remember(self, made: Made) -> None:
        """Let the lane of the call's library know the problem, if every array is aligned as lanes ask."""
        plan, views = made.plan, made.views
        if any(seen[0] % m for seen, m in zip(views, self.moduli, strict=True)) or not (plan.launches and made.usual):
            return
        if not plan.again:  # a lane takes as long to write as many calls: not for the first of a problem
            plan.again = True
            return
        with _lock:  # or overrides could change in the middle, and the lane would stay with the old ones
            if made.overrides is ambient():
                self.enter(made)

    def enter(self, made: Made) -> None:
        """Put a call's problem into the lane of its library, which is opened with the first."""
        plan, views = made.plan, made.views
        opened = self.lanes.get(made.library) or self.open(made)
        if opened is None:
            return
        memo = opened.memos[made.overrides]
        if len(memo) >= REMEMBERED:
            memo.clear()
        start = self.start(plan, made, opened)
        opened.lane.remember(memo, views, made.keywords, made.ordinal, start, plan.counter)
        kind = type(made.arrays[self.lead])
        if kind not in self.by_type:
            self.by_type[kind] = opened.call
            self.kernel.run = opened.call if len(self.by_type) == 1 else self.dispatch

    def open(self, made: Made) -> Opened | None:
        """Write the lane of a library, if it has one."""
        dialect = dialect_of(made.library)
        if dialect is None:
            return None
        ranks = [len(seen[2]) for seen in made.views]
        launch = direct()
        raises = launch[1] if launch else None
        lane = Lane(self.kernel, self.moduli, ranks, dialect, several_gpus=self.driver.count > 1, direct=raises)
        memos: defaultdict[Overrides, dict[Foreign, Foreign]] = defaultdict(dict)
        names = {
            "get": memos[made.overrides].get,
            "memos": memos,
            "active": ambient,
            "launch": self.driver.launch,
            "handle_of": partial(handle_of, self.kernel.name),
            "slow": self.slow,
        }
        call = lane.function(names, watched=watched(), counted=made.plan.counter is not None)
        self.lanes[made.library] = opened = Opened(lane, memos, call, direct=launch is not None)
        return opened

    def start(self, plan: Plan, made: Made, opened: Opened) -> Start:
        """Return how a lane's entry of a problem begins."""
        single, launch = plan.single, direct()
        if single is None:
            return _nothing, None, None, None, self.several(plan, made)
        before = len(self.arrays) + (0 if opened.direct else 1)
        scalars = enumerate(self.scalars, before)
        packed = Packed(
            single, [place for place, one in scalars if DTYPES[one.dtype].floating], stream=not opened.direct
        )
        function = single.directly(launch[0]) if opened.direct and launch else single.function
        return packed.known.get, function, packed.note, single.pool, None

    def several(self, plan: Plan, made: Made) -> Callable[[int, tuple[Foreign, ...], bool], bool]:
        """Return what runs a plan of several launches, or with zeros or scratch; its False leaves it to `slow`.

        Scratch is taken in the order of the stream: the library's current one, or else the handle.
        """
        driver, library, ordinal, name = self.driver, made.library, made.ordinal, self.kernel.name

        def run(handle: int, values: tuple[Foreign, ...], current: bool) -> bool:
            if not plan.scratch:
                return plan.launch(driver, handle, values) == 0
            try:
                if driver.capturing(handle):
                    return False
            except DriverError:  # a thread without a context, say
                return False
            with allocating(name, library, ordinal, None if current else handle) as empty:
                scratch = [empty((nbytes,), "uint8") for nbytes in plan.scratch]
            rooms = [view(name, "scratch", room, handle)[0][0] for room in scratch]
            return plan.launch(driver, handle, (*values, *rooms)) == 0

        return run


class Opened:
    """A library's lane: how it asks, what it knows by overrides and problem, the function, how it launches."""

    __slots__ = ("call", "direct", "lane", "memos")

    def __init__(self, lane: Lane, memos: dict[Overrides, dict[Foreign, Foreign]], call: Run, *, direct: bool) -> None:
        self.lane, self.memos, self.call, self.direct = lane, memos, call, direct


def _nothing(_values: object) -> None:
    """Find no packed block."""


def _tell(kernel: Kernel, decision: Decision, device: str, overrides: Overrides) -> None:
    """Log a first dispatch, for who listens, and say once a device that nothing was measured for it."""
    if (logging := sys.modules.get("logging")) is not None:  # nobody listens where it was never imported
        _, implementation, configuration, *_ = decision.shipped
        told = describe(implementation, configuration)
        logging.getLogger(PACKAGE).debug("%s on %s: %s: %s", kernel.name, device, told, "; ".join(decision.why))
    if decision.tuned or not overrides.warn:
        return
    with _lock:
        if device in _warned:
            return
        _warned.add(device)
    warn(
        f"{qualified(kernel.name)}: {decision.why[0]}: the default runs, untuned; tune on such a device with "
        "`pretuned tune`, choose rows with PRETUNED_DEVICE, or silence this with PRETUNED_WARN=0",
        UntunedWarning,
    )
