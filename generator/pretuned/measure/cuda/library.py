"""A library function as a candidate: called with arrays of its library over the workspace, on the bench's stream.

What it allocates on the way comes from memory of its own, which lives as long as it does: a captured call writes there
again whenever its graph is replayed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import cupy

from pretuned.measure.cuda.kernel import judged
from pretuned.measure.cuda.launching import ERRORS
from pretuned.measure.libraries import apply, described, function_of
from pretuned.measure.machine import Refused
from pretuned.measure.regions import CallBuffers, Region
from pretuned.outcome import LaunchFailed
from pretuned.runtime.types import DTYPES
from pretuned.spec.library import LibraryCall


class ArrayLibrary(Protocol):
    """How a library sees buffers, and how its functions get onto the bench's stream."""

    def view(self, region: Region) -> Any:  # noqa: ANN401 - an array of the library
        """Return the library's array over a buffer."""

    def calling(self) -> Any:  # noqa: ANN401 - a context manager
        """Return the context in which its functions run on the stream."""

    def close(self) -> None:
        """Give its memory back."""


class CupyLibrary:
    """CuPy: the bench's stream is current anyway."""

    def __init__(self, _stream: Any) -> None:  # noqa: ANN401 - CuPy ships no types
        self._pool = cupy.cuda.MemoryPool()

    def view(self, region: Region) -> Any:  # noqa: ANN401 - CuPy ships no types
        """Return a CuPy array over a buffer."""
        device = cupy.cuda.runtime.getDevice()
        memory = cupy.cuda.UnownedMemory(region.address, region.buffer.nbytes, owner=None, device_id=device)
        return cupy.ndarray(
            region.buffer.shape, DTYPES[region.buffer.dtype].numpy(), cupy.cuda.MemoryPointer(memory, 0)
        )

    def calling(self) -> Any:  # noqa: ANN401 - CuPy ships no types
        """Return the context in which CuPy allocates from the function's own pool."""
        return cupy.cuda.using_allocator(self._pool.malloc)

    def close(self) -> None:
        """Free the pool's blocks."""
        self._pool.free_all_blocks()


@dataclass(frozen=True, slots=True)
class _Exposed:
    """A buffer as the CUDA array interface describes it."""

    __cuda_array_interface__: Mapping[str, object]


class TorchLibrary:
    """PyTorch: it has current streams of its own, and keeps what its allocator holds for itself."""

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - CuPy ships no types
        self._torch: Any = importlib.import_module("torch")  # which type checking does without
        self._device = f"cuda:{cupy.cuda.runtime.getDevice()}"
        self._stream = self._torch.cuda.ExternalStream(stream.ptr, device=self._device)

    def view(self, region: Region) -> Any:  # noqa: ANN401 - a tensor
        """Return a tensor over a buffer; what the interface cannot name goes as integers of its size."""
        dtype = DTYPES[region.buffer.dtype]
        interface = {
            "version": 3,
            "shape": region.buffer.shape,
            "typestr": f"<{dtype.typestr or f'i{dtype.size_bytes}'}",
            "data": (region.address, False),
            "strides": None,
        }
        tensor = self._torch.as_tensor(_Exposed(interface), device=self._device)
        return tensor if dtype.typestr else tensor.view(getattr(self._torch, dtype.name))

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Make the bench's stream PyTorch's current one, and record nothing for gradients."""
        with self._torch.cuda.stream(self._stream), self._torch.no_grad():
            yield

    def close(self) -> None:
        """Do nothing: PyTorch reuses its memory by itself."""


ARRAY_LIBRARIES: Final[Mapping[str, Callable[[Any], ArrayLibrary]]] = {"cupy": CupyLibrary, "torch": TorchLibrary}


class LibraryKernel:
    """A library function at one problem, ready for its sets of buffers.

    `captured` says whether it can stand in CUDA graphs, `most_calls` how many calls the host enqueues in time; both are
    found out by the timer. Raises Refused for whatever the library raises, Poisoned where the context is lost.
    """

    def __init__(
        self,
        call: LibraryCall,
        stream: Any,  # noqa: ANN401 - CuPy ships no types
        *,
        output: str,
    ) -> None:
        self.captured = False
        self.most_calls: int | None = None
        self._call = call
        self._output = output
        self._function = function_of(call)
        self._views: dict[tuple[CallBuffers, int], dict[str, Any]] = {}
        with self._refusing():
            self._library = ARRAY_LIBRARIES[call.module](stream)

    def launch(self, buffers: CallBuffers, index: int, _stream: int) -> None:
        """Call the function on set `index`; its work goes to the bench's stream."""
        with self._refusing():
            if (buffers, index) not in self._views:
                names = {*self._call.arguments, self._output}
                self._views[buffers, index] = {name: self._library.view(buffers.sets[index][name]) for name in names}
            views = self._views[buffers, index]
            with self._library.calling():
                apply(self._call, self._function, [views[name] for name in self._call.arguments], views[self._output])

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Have what the library raises be an outcome."""
        try:
            yield
        except ERRORS as error:
            raise judged(error) from None
        except Exception as error:  # noqa: BLE001 - libraries raise what they like
            raise Refused(LaunchFailed(message=f"{self._call}: {described(error)}")) from None

    def unload(self) -> None:
        """Free what it takes."""
        self._views.clear()
        self._library.close()
