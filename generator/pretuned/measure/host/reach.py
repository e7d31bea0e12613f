"""Far problems: arrays of more elements than an int32 counts, of which a launch's first and last blocks are executed.

Nothing is filled and nothing compared: what counts is whether an index overflows or leaves its array, which the
sanitizers report. The arrays are mapped without being backed by memory; what is read is zeros.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from typing import Final

from pretuned.device.host import FACTS
from pretuned.measure.host.kernel import HostFault, HostKernel, Manner
from pretuned.measure.launch import BoundBuffer, arrays, launches, scalars, scratch
from pretuned.measure.regions import ALIGNMENT, GUARD_BYTES, Region, span
from pretuned.measure.requests import (
    Answer,
    Opened,
    OpenRequest,
    PrepareRequest,
    Ready,
    Request,
    TooLarge,
    Trouble,
    Verified,
    VerifyRequest,
)
from pretuned.measure.server import Answerer
from pretuned.outcome import Crashed, Failure, LaunchFailed
from pretuned.spec.space import Configuration

BLOCKS: Final = 2  # of the first, and of the last
LIMIT_BYTES: Final = 64 << 30
_LAZILY: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE, mmap(2); Python names it from 3.12 on


class GuardedMapping:
    """Arrays with their guard bands, mapped one behind another."""

    def __init__(self, buffers: Sequence[BoundBuffer]) -> None:
        total = sum(span(buffer) for buffer in buffers) + ALIGNMENT
        self._memory = mmap.mmap(-1, max(total, mmap.PAGESIZE), flags=_LAZILY)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self.regions: list[Region] = []
        for buffer in buffers:
            self.regions.append(Region(buffer=buffer, address=address + GUARD_BYTES))
            address += span(buffer)


def serve() -> Answerer:
    """Return the function that answers requests in a child: to open, to prepare, and to verify."""
    prepared: list[PrepareRequest] = []
    images: dict[str, bytes] = {}

    def answer(request: Request) -> Answer:
        match request:
            case OpenRequest():
                return Opened(facts=FACTS)
            case PrepareRequest(spec=spec, problem=problem, default=default):
                prepared[:] = [request]
                images.setdefault(default.digest, default.image)
                needed = sum(buffer.nbytes for buffer in arrays(spec, problem))
                return TooLarge(reason=f"takes {needed:,} bytes") if needed > LIMIT_BYTES else Ready()
            case VerifyRequest(entry=entry):
                image = images.setdefault(entry.digest, entry.image)
                return Verified(failure=_reached(prepared[0], entry.configuration, image))
            case _:
                return Trouble(message="far problems are only verified")

    return answer


def _reached(prepared: PrepareRequest, configuration: Configuration, image: bytes) -> Failure | None:
    """Execute the outermost blocks of a candidate, and return what went wrong."""
    spec, problem = prepared.spec, prepared.problem
    planned = launches(spec, problem, configuration, FACTS)
    if isinstance(planned, LaunchFailed):
        return planned
    mapping = GuardedMapping([*arrays(spec, problem), *scratch(spec, problem, configuration, FACTS)])
    kernel = HostKernel(
        image,
        planned,
        scalars(spec, problem),
        types={region.buffer.name: region.buffer.dtype for region in mapping.regions},
        manner=Manner(strict=True, blocks=BLOCKS),
    )
    try:
        with kernel.watching(mapping.regions):
            kernel.launch({region.buffer.name: region.address for region in mapping.regions})
    except HostFault as found:
        return Crashed(message=str(found))
    finally:
        kernel.unload()
    return None
