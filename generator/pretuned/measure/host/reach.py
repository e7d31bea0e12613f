"""Far problems: arrays of more elements than an int32 counts, of which a launch's first and last blocks are executed.

Nothing is filled and nothing compared: what counts is whether an index overflows or leaves its array, which the
sanitizers report. The arrays are mapped without being backed by memory; what is read is zeros.
"""

from __future__ import annotations

from typing import Final

from pretuned.device.host import FACTS
from pretuned.measure.host.kernel import HostFault, HostKernel, Manner
from pretuned.measure.host.pages import HostEnclosure
from pretuned.measure.launch import absent, arrays, launches, scalars, scratch
from pretuned.measure.regions import placed, span
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
    buffers = [*arrays(spec, problem), *scratch(spec, problem, configuration, FACTS)]
    enclosure = HostEnclosure([span(buffer) for buffer in buffers])
    regions = [placed(buffer, room) for buffer, room in zip(buffers, enclosure.rooms, strict=True)]
    kernel = HostKernel(
        image,
        planned,
        scalars(spec, problem, configuration, FACTS),
        types={region.buffer.name: region.buffer.dtype for region in regions} | absent(spec, problem),
        manner=Manner(strict=True, blocks=BLOCKS, kept=True),
    )
    try:
        with kernel.watching(regions):
            kernel.launch({region.buffer.name: region.address for region in regions})
    except HostFault as found:
        return Crashed(message=str(found))
    finally:
        kernel.unload()
    return None
