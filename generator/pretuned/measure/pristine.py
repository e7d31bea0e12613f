"""What the inputs of a problem hold before a call, in the machine's memory: copies of pools that lie there already.

Theory of operation. A pool goes to the machine when an array is first cut out of it, and stays there: a new problem
whose inputs come from pools costs copies within the machine, and nothing of the host. What is laid out stays as long as
the problem is prepared, wherever its buffers move to meanwhile.

Results are judged by these copies, and later ones are made from the pools. Both are sealed where the machine can do
that; where it cannot, their digests are watched (`Stage.digests`), and a pool that has changed is written anew.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pretuned.measure.data import POOLS, HostArray, Pool, Stored
from pretuned.measure.machine import Digest, MachineMemory, Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """Memory with its bytes, and the answer to its digest at the beginning; None where it is sealed."""

    memory: Memory
    nbytes: int
    digest: int | None

    @property
    def check(self) -> Digest:
        """What shows whether it has changed."""
        return Digest(address=self.memory.address, nbytes=self.nbytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pristine:
    """The inputs of a problem by name, and the pools that they were cut out of."""

    inputs: Mapping[str, Watched]
    pools: Sequence[Watched]

    @property
    def nbytes(self) -> int:
        """The bytes of the inputs."""
        return sum(one.nbytes for one in self.inputs.values())


def watched(machine: MachineMemory, memories: Sequence[tuple[Memory, int]]) -> list[Watched]:
    """Return memories, each with its bytes, with the digests of those that are not sealed."""
    checks = [Digest(address=memory.address, nbytes=nbytes) for memory, nbytes in memories if not memory.sealed]
    answers = iter(machine.ask(checks))
    return [
        Watched(memory=memory, nbytes=nbytes, digest=None if memory.sealed else next(answers).count)
        for memory, nbytes in memories
    ]


class Pools:
    """The pools that lie on a machine, of which those used last stay."""

    def __init__(self, machine: MachineMemory) -> None:
        self._machine = machine
        self._held: OrderedDict[Pool, Watched] = OrderedDict()  # the least recently used first

    def lay_out(self, stored: Mapping[str, Stored]) -> Pristine:
        """Return arrays on the machine, and whether they are still what they were; raises OutOfMemory."""
        wanted = dict.fromkeys(one.pool for one in stored.values() if one.pool is not None)
        pools = {pool: self._held[pool].memory if pool in self._held else self._written(pool.values) for pool in wanted}
        inputs = {name: self._laid_out(one, pools) for name, one in stored.items()}
        sizes = [pool.values.nbytes for pool in pools] + [_nbytes(one) for one in stored.values()]
        found = watched(self._machine, list(zip([*pools.values(), *inputs.values()], sizes, strict=True)))
        now = dict(zip(pools, found, strict=False))
        if changed := [pool for pool, one in now.items() if one != self._held.get(pool, one)]:
            for pool in changed:
                del self._held[pool]
            return self.lay_out(stored)
        for pool, one in now.items():
            self._held[pool] = one
            self._held.move_to_end(pool)
        while len(self._held) > POOLS:
            self._held.popitem(last=False)
        return Pristine(inputs=dict(zip(inputs, found[len(pools) :], strict=True)), pools=found[: len(pools)])

    def _written(self, values: HostArray) -> Memory:
        memory = self._machine.allocate(max(1, values.nbytes))
        if values.nbytes:
            self._machine.write(memory.address, values)
        memory.seal()
        return memory

    def _laid_out(self, stored: Stored, pools: Mapping[Pool, Memory]) -> Memory:
        """Return memory that holds an array: what repeats in it goes there once, and is doubled there."""
        total, filled = _nbytes(stored), 0
        memory = self._machine.allocate(max(1, total))
        if stored.pool is None and total:
            self._machine.write(memory.address, stored.values)
            filled = stored.values.nbytes
        elif stored.pool is not None:
            begin = stored.begin * stored.values.itemsize
            for source, nbytes in ((begin, stored.values.nbytes - begin), (0, begin)):
                if part := min(nbytes, total - filled):
                    self._machine.copy(memory.address + filled, pools[stored.pool].address + source, part)
                    filled += part
        while filled < total:  # `filled` is whole turns
            part = min(filled, total - filled)
            self._machine.copy(memory.address + filled, memory.address, part)
            filled += part
        memory.seal()
        return memory


def _nbytes(stored: Stored) -> int:
    return math.prod(stored.shape) * stored.values.itemsize
