"""The problems that stay prepared on a machine, so that candidates come back to them at no cost.

They may take a part of the memory that was free at the beginning. Where a new one needs room, those that were not used
for longest are forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pretuned.measure.launch import BoundBuffer, arrays
from pretuned.measure.machine import MachineMemory
from pretuned.measure.pristine import Pools
from pretuned.measure.requests import PrepareRequest
from pretuned.measure.stage import Stage, footprint

RESIDENT_SHARE: Final = 0.5  # of the machine's free memory, for problems that stay prepared
RESIDENT_ARRAYS: Final = 512  # of these: on the host two sets of each reserve half of the addresses of a process


class PreparedProblems:
    """The problems that are prepared on `machine`, of which the one that was asked for last is current.

    So many `processes` share its memory.
    """

    def __init__(self, machine: MachineMemory, pools: Pools, processes: int = 1) -> None:
        self._machine = machine
        self._pools = pools
        self._stages: OrderedDict[tuple[object, ...], Stage] = OrderedDict()  # the least recently used first
        self._room = RESIDENT_SHARE * machine.free_bytes() / processes

    @property
    def current(self) -> Stage:
        """The problem that was asked for last."""
        assert self._stages, "prepare() comes first"
        return next(reversed(self._stages.values()))

    def prepare(self, request: PrepareRequest) -> bool:
        """Make a problem current, and return whether it was laid out anew; raises OutOfMemory or FunctionError."""
        request = self._as_kept(request)
        key = request.key
        stage = self._stages.get(key)
        if stage is not None and stage.request.spec == request.spec and stage.trusts(self._machine.ask(stage.digests)):
            self._stages.move_to_end(key)
            return False
        self._stages.pop(key, None)
        self._make_room(arrays(request.spec, request.problem))
        self._stages[key] = Stage(self._machine, request, self._pools)
        return True

    def forget_current(self) -> None:
        """Give the current problem up."""
        self._stages.popitem()

    def forget_all(self) -> None:
        """Give all problems up."""
        self._stages.clear()

    def _as_kept(self, request: PrepareRequest) -> PrepareRequest:
        """Return a request that judges nothing with the inputs that its problem is prepared with already, if it is."""
        if request.reference == "none" and request.key not in self._stages:
            for kept in (stage.request for stage in reversed(self._stages.values())):
                if kept.problem == request.problem and kept.spec == request.spec:
                    return replace(request, seed=kept.seed, trust_default=kept.trust_default)
        return request

    def _make_room(self, buffers: Sequence[BoundBuffer]) -> None:
        """Forget the problems that were not used for longest, until the rest and a new one of `buffers` fit."""
        needed = footprint(buffers)
        while self._stages:
            held = sum(stage.nbytes for stage in self._stages.values())
            count = sum(len(stage.workspace.buffers) + stage.elsewhere.rooms for stage in self._stages.values())
            fits = held + needed <= self._room and count + len(buffers) <= RESIDENT_ARRAYS
            if fits and needed < self._machine.free_bytes() / 2:
                return
            self._stages.popitem(last=False)
            self._machine.trim()
