"""PyTorch: its tensors and streams."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import partial

from ..errors import ArgumentError, ArgumentTypeError
from .adapter import ArrayView, Expressions, nameable, reach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..table import Foreign
    from .adapter import Allocate

NAME = "torch"


class PyTorch:
    """PyTorch's tensors on a GPU."""

    name = NAME

    def owns(self, value: object) -> bool:
        """Return whether a value is a tensor."""
        module = sys.modules.get(NAME)
        return module is not None and isinstance(value, getattr(module, "Tensor", ()))

    def view(self, where: str, value: Foreign, stream: int, *, written: bool = False) -> ArrayView:
        """Return a tensor as launches see it."""
        del stream, written
        name = where.rpartition(" ")[2]
        if not value.is_cuda:
            raise ArgumentTypeError(
                f"{where}: expected an array on the GPU, found a torch.Tensor on {value.device}; "
                f"move it with {name}.cuda()"
            )
        if value.requires_grad and sys.modules[NAME].is_grad_enabled():
            raise ArgumentError(
                f"{where}: requires a gradient, and autograd does not record this call; pass {name}.detach(), or call "
                "under torch.no_grad()"
            )
        _demand_values(where, name, value)
        shape, size = tuple(value.shape), value.element_size()
        dtype = str(value.dtype).removeprefix("torch.")
        if not value.is_contiguous():
            strides = tuple([stride * size for stride in value.stride()])
            nbytes = reach(shape, strides, size)
            return ArrayView(value.data_ptr(), dtype, shape, value.get_device(), nbytes, value, strides)
        return ArrayView(value.data_ptr(), dtype, shape, value.get_device(), value.numel() * size, value)

    def device_of(self, value: Foreign) -> int | None:
        """Return the ordinal of a tensor's device; None for one on the CPU."""
        return int(value.get_device()) if value.is_cuda else None

    def current_stream(self, device: int) -> int:
        """Return the handle of PyTorch's current stream."""
        return int(sys.modules[NAME].cuda.current_stream(device).cuda_stream)

    def stream_of(self, stream: Foreign) -> tuple[int, int | None] | None:
        """Return a stream's handle and device."""
        known = hasattr(stream, "cuda_stream") and hasattr(stream, "device_index")  # Warp's have the first alone
        return (int(stream.cuda_stream), stream.device_index) if known else None

    @contextmanager
    def on(self, device: int, stream: int | None) -> Iterator[None]:
        """Make a device, and a stream if one is given, those that PyTorch works on."""
        cuda = sys.modules[NAME].cuda
        stream_of = cuda.ExternalStream(stream, device=device) if stream is not None else None
        with cuda.device(device), cuda.stream(stream_of):
            yield

    @contextmanager
    def allocating(self, where: str, device: int, stream: int | None) -> Iterator[Allocate]:
        """Give what makes a new tensor."""
        del where
        torch = sys.modules[NAME]
        with self.on(device, stream):
            yield lambda shape, dtype: torch.empty(shape, dtype=getattr(torch, dtype), device=device)

    def taken_in(self, value: Foreign) -> Foreign:
        """Return an array of another library as a tensor, over the same memory."""
        named, dtype = nameable(value)
        torch = sys.modules[NAME]
        tensor = torch.as_tensor(named, device="cuda")
        return tensor if dtype is None else tensor.view(getattr(torch, dtype.name))

    def expressions(self) -> Expressions:
        """Return how the fast path asks tensors. A `torch.Size` equals a tuple, and hashes as one.

        The current stream and device are asked where PyTorch itself asks them, as long as that is there, since their
        public names cost too much.
        """
        torch = sys.modules[NAME]
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # noqa: SLF001 - guarded; see above
        return Expressions(
            address="{a}.data_ptr()",
            dtype="{a}.dtype",
            device="{a}.get_device()",
            contiguous="{a}.is_contiguous()",
            before="not ({a}.requires_grad and recorded())",
            on_gpu="{a}.is_cuda",
            lazy="{a}.is_conj() or {a}.is_neg()",
            stream="stream_of().cuda_stream" if raw is None else "raw(ordinal)",
            current_device="get_device()",
            names={
                "get_device": getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device),  # noqa: SLF001
                "stream_of": torch.cuda.current_stream,
                "raw": raw,
                "recorded": torch.is_grad_enabled,
                "strides_of": torch.Tensor.stride,
            },
            type_of=partial(getattr, torch),
            maker=_maker,
        )


def _maker(shape: tuple[int, ...], dtype: Foreign) -> Callable[[], Foreign]:
    """Return what makes a tensor on the current device.

    That is what the code calls that `torch.compile` generates, as long as it is there: it goes round the dispatcher,
    which costs a call more than all its checks do.
    """
    torch = sys.modules[NAME]
    compiled = getattr(getattr(torch._C, "_dynamo", None), "guards", None)  # noqa: SLF001 - guarded; see above
    empty_strided = getattr(compiled, "_empty_strided_cuda", None)
    if empty_strided is None:
        return partial(torch.empty, shape, dtype=dtype, device="cuda")
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * max(1, extent))
    return partial(empty_strided, shape, tuple(strides[: len(shape)]), dtype)


def _demand_values(where: str, name: str, value: Foreign) -> None:
    """Raise ArgumentError for a tensor whose memory does not hold its elements, one after another."""
    if value.layout is not sys.modules[NAME].strided:
        raise ArgumentError(f"{where}: expected a dense tensor, found one of {value.layout}; pass {name}.to_dense()")
    for lazy, kind, resolved in (
        (value.is_conj(), "conjugate", "resolve_conj"),
        (value.is_neg(), "negative", "resolve_neg"),
    ):
        if lazy:
            raise ArgumentError(
                f"{where}: expected elements as they lie in memory, found a lazy {kind}; pass {name}.{resolved}()"
            )
