"""As much of PyTorch as the runtime meets: tensors that are addresses, streams; it records what is allocated."""

from __future__ import annotations

import itertools
import math
import threading
import types
from contextlib import contextmanager

from pretuned.runtime.types import DTYPES as ELEMENT_TYPES

BYTES = {name: record.size_bytes for name, record in ELEMENT_TYPES.items()}
_addresses = itertools.count(1 << 50, 1 << 40)


class Dtype:
    """A type, one object for each name."""

    def __init__(self, name):
        self.name, self.itemsize = name, BYTES[name]

    def __repr__(self):
        return f"torch.{self.name}"


STRIDED = "torch.strided"
DTYPES = {name: Dtype(name) for name in BYTES}


class Size(tuple):
    """A shape: it equals a tuple, and reads otherwise."""

    __slots__ = ()

    def __repr__(self):
        return f"torch.Size({list(self)})"


class Tensor:
    """A tensor on the GPU `device`, or on the CPU for "cpu"; not contiguous if `strides`, in elements, are given."""

    __module__ = "torch"

    def __init__(self, shape, dtype="float32", *, device=0, offset=0, address=None, strides=None, requires_grad=False):
        self.requires_grad = requires_grad
        self.layout, self.lazy = STRIDED, ""
        self.shape, self.dtype = Size(shape), DTYPES[str(dtype).removeprefix("torch.")]
        self.is_cuda = device != "cpu"
        self.device = f"cuda:{device}" if self.is_cuda else "cpu"
        self._ordinal = device if self.is_cuda else -1
        self._address = (next(_addresses) if address is None else address) + offset
        self._strides = strides

    def data_ptr(self):
        return self._address

    def get_device(self):
        return self._ordinal

    def is_contiguous(self):
        return self._strides is None

    def view(self, dtype):
        assert dtype.itemsize == self.dtype.itemsize
        return Tensor(self.shape, dtype, device=self._ordinal if self.is_cuda else "cpu", address=self._address)

    def stride(self):
        dense = tuple(math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))
        return dense if self._strides is None else self._strides

    def is_conj(self):
        return self.lazy == "conjugate"

    def is_neg(self):
        return self.lazy == "negative"

    def numel(self):
        return math.prod(self.shape)

    def element_size(self):
        return self.dtype.itemsize

    def __array__(self):
        raise AssertionError("the runtime copied a tensor to the host")

    def __float__(self):  # which waits for the GPU: a call that was let through shows as a launch
        return 1.0

    def __index__(self):
        return 1

    def __dlpack__(self, **_options):
        return self

    def __dlpack_device__(self):
        return (2, self._ordinal) if self.is_cuda else (1, 0)


class FakeTorch(types.ModuleType):
    """The module `torch`, for `sys.modules`; `vars(fake._C).clear()` leaves it the public ways only."""

    def __init__(self):
        super().__init__("torch")
        self.__dict__.update(DTYPES)
        self.allocated, self.Tensor, self.strided = [], Tensor, STRIDED
        self._local = threading.local()
        self.cuda = self._cuda()
        self._C = types.SimpleNamespace(
            _cuda_getCurrentRawStream=self._raw_stream,
            _cuda_getDevice=self.cuda.current_device,
            _dynamo=types.SimpleNamespace(guards=types.SimpleNamespace(_empty_strided_cuda=self._empty_strided)),
        )

    def _raw_stream(self, _ordinal):
        return self.cuda.current_stream().cuda_stream

    def is_grad_enabled(self):
        return getattr(self._local, "grad", True)

    @contextmanager
    def no_grad(self):
        self._local.grad = False
        try:
            yield
        finally:
            self._local.grad = True

    def empty(self, shape, *, dtype, device):
        ordinal = self.cuda.current_device() if device == "cuda" else device
        self.allocated.append((tuple(shape), dtype.name, self.cuda.current_stream().cuda_stream))
        return Tensor(shape, dtype, device=ordinal)

    def _empty_strided(self, shape, strides, dtype):
        made = self.empty(shape, dtype=dtype, device="cuda")
        assert strides == tuple(max(1, stride) for stride in made.stride())
        return made

    def from_dlpack(self, value):
        return value.__dlpack__()

    def _cuda(self):
        local = self._local
        cuda = types.ModuleType("torch.cuda")

        class Stream:
            def __init__(self, cuda_stream=0, device=0):
                self.cuda_stream, self.device_index = cuda_stream, device

        @contextmanager
        def device(ordinal):
            before, local.device = cuda.current_device(), ordinal
            try:
                yield
            finally:
                local.device = before

        @contextmanager
        def stream(one):
            before = cuda.current_stream()
            local.stream = before if one is None else one
            try:
                yield
            finally:
                local.stream = before

        cuda.Stream = cuda.ExternalStream = Stream
        cuda.device, cuda.stream = device, stream
        cuda.current_device = lambda: getattr(local, "device", 0)
        cuda.current_stream = lambda _device=None: getattr(local, "stream", None) or Stream()
        return cuda
