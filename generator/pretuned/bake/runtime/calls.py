"""The path of a call: check, look up, launch. What depends on the problem alone is worked out once and remembered."""

from __future__ import annotations

import math
import struct
import threading
from ctypes import addressof

from .arrays import cupy as find_cupy
from .arrays import empty, view
from .checks import arrays_of, keyword_values, problem, refuse_overlaps, same_device
from .devices import in_hand
from .errors import ArgumentTypeError, UntunedWarning, qualified, warn
from .lookup import decide
from .overrides import overrides
from .prepare import call_scalars, prepare, wrong_scalar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import Array, Foreign, Kernel, Run, Value
    from .arrays import View
    from .lookup import Decision
    from .prepare import Plan


REMEMBERED = 1024  # problems a kernel; shapes that never repeat must not fill the memory
_PLAIN = frozenset({int, float, bool})
_warned: set[str] = set()
_lock = threading.Lock()


def bind(kernel: Kernel) -> Run:
    """Return the function that runs `kernel`; raises UnavailableError without CuPy or a GPU."""
    cupy = find_cupy(kernel.name)
    overrides()
    return Caller(kernel, cupy).run


class Caller:
    """A kernel's calls on this machine: what is asked once, and the problems seen so far."""

    __slots__ = ("arrays", "cupy", "kernel", "moduli", "names", "plans", "results", "scalars")

    def __init__(self, kernel: Kernel, cupy: Foreign) -> None:
        self.kernel, self.cupy = kernel, cupy
        self.arrays: tuple[Array, ...] = arrays_of(kernel)
        self.names = tuple(array.name for array in self.arrays)
        self.scalars = len(call_scalars(kernel))
        self.results = tuple(index for index, array in enumerate(self.arrays) if array.role != "in")
        self.moduli = tuple(math.lcm(1, *(entry[4].get(name, 1) for entry in kernel.shipped)) for name in self.names)
        self.plans: dict[object, Plan] = {}

    def run(
        self, arrays: tuple[Foreign, ...], scalars: tuple[Foreign, ...], keywords: tuple[Value, ...], stream: Foreign
    ) -> Foreign:
        """Run the kernel on `arrays` (launch order, None for an output to allocate) and return its outputs."""
        cupy, name = self.cupy, self.kernel.name
        views = tuple(
            [
                None if array is None and declared.role == "out" else view(cupy, name, declared.name, array)
                for declared, array in zip(self.arrays, arrays, strict=True)
            ]
        )
        runtime = cupy.cuda.runtime
        previous = runtime.getDevice()
        ordinal = same_device(name, self.names, views)
        if ordinal is None:
            ordinal = previous
        classes = tuple([seen and (seen[1], seen[2], seen[0] % m) for seen, m in zip(views, self.moduli, strict=True)])
        if keywords:
            keywords = tuple(keyword_values(self.kernel, keywords).values())
        runtime.setDevice(ordinal)  # also binds the device's context to this thread
        try:
            plan = self.plans.get((ordinal, keywords, classes))
            if plan is None:
                plan = self.plan(views, keywords, ordinal)
                if len(self.plans) >= REMEMBERED:
                    self.plans.clear()
                self.plans[ordinal, keywords, classes] = plan
            if stream is None:
                return self.launch(plan, arrays, views, scalars, cupy.cuda.get_current_stream().ptr)
            self.check_stream(stream, ordinal)
            with stream:  # so that CuPy's pool takes the outputs' memory in the order of this stream
                return self.launch(plan, arrays, views, scalars, stream.ptr)
        finally:
            if previous != ordinal:
                runtime.setDevice(previous)

    def launch(
        self,
        plan: Plan,
        arrays: Sequence[Foreign],
        views: Sequence[View | None],
        scalars: Sequence[Foreign],
        stream: int,
    ) -> Foreign:
        """Allocate what is missing and launch on `stream`, the current one."""
        cupy, name = self.cupy, self.kernel.name
        filled = [empty(cupy, *plan.outputs[i]) if array is None else array for i, array in enumerate(arrays)]
        seen = [view(cupy, name, self.names[i], filled[i]) if old is None else old for i, old in enumerate(views)]
        refuse_overlaps(name, self.arrays, seen)
        for index, value in enumerate(scalars):
            if type(value) not in _PLAIN:
                self.check_scalar(index, value)
        scratch = [cupy.cuda.alloc(size) for size, _ in plan.scratch]
        values = [*(s[0] for s in seen), *(memory.ptr for memory in scratch), *scalars, *plan.constants]
        try:
            blocks = [launch.parameters(values) for launch in plan.launches]
        except (struct.error, OverflowError, TypeError):
            raise wrong_scalar(self.kernel, scalars) from None
        memset, start = cupy.cuda.runtime.memsetAsync, cupy.cuda.driver.launchKernel
        for index, size in plan.zeroed:
            if size:
                memset(seen[index][0], 0, size, stream)
        for memory, (size, zeroed) in zip(scratch, plan.scratch, strict=True):
            if zeroed and size:
                memset(memory.ptr, 0, size, stream)
        for one, block in zip(plan.launches, blocks, strict=True):
            start(one.function, *one.grid, *one.block, one.shared_bytes, stream, addressof(block), 0)
        results = [filled[index] for index in self.results]
        return results[0] if len(results) == 1 else tuple(results)

    def plan(self, views: Sequence[View | None], keywords: Sequence[Value], ordinal: int) -> Plan:
        """Check a problem that was not seen before, decide what runs it, and prepare that."""
        kernel = self.kernel
        device = in_hand(self.cupy, ordinal)
        given = dict(zip(kernel.keywords, keywords, strict=True))
        specialisation, values = problem(kernel, views, given, device)
        addresses = {name: seen[0] if seen else 0 for name, seen in zip(self.names, views, strict=True)}
        decision = decide(
            kernel, device, specialisation, values, lambda name, size: addresses[name] % size == 0, overrides()
        )
        _warn(kernel, decision, device.name)
        return prepare(self.cupy, kernel, decision, device, ordinal)

    def check_stream(self, stream: Foreign, ordinal: int) -> None:
        """Refuse what is no CuPy stream, or one of another device."""
        if not hasattr(stream, "ptr") or not hasattr(stream, "__enter__"):
            raise ArgumentTypeError(
                f"{qualified(self.kernel.name)}: stream: expected a cupy.cuda.Stream or None, "
                f"found {type(stream).__qualname__}"
            )
        found = getattr(stream, "device_id", -1)
        if found not in {-1, ordinal}:
            raise ArgumentTypeError(
                f"{qualified(self.kernel.name)}: stream: expected device {ordinal} as the arrays have, "
                f"found device {found}"
            )

    def check_scalar(self, index: int, value: object) -> None:
        """Refuse a number that lies on the GPU: reading it would wait for all that was launched."""
        if isinstance(value, self.cupy.ndarray):
            scalar = call_scalars(self.kernel)[index]
            raise ArgumentTypeError(
                f"{qualified(self.kernel.name)}: {scalar.name}: expected a number, found a cupy.ndarray; "
                f"pass {scalar.name}.item(), which waits for the GPU"
            )


def _warn(kernel: Kernel, decision: Decision, device: str) -> None:
    """Say once a device that nothing was measured for it."""
    if decision.tuned or not overrides().warn:
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
