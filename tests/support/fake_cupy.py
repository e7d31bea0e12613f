"""As much of CuPy as the runtime meets: arrays that are addresses, streams, NVRTC; it records what is allocated."""

from __future__ import annotations

import itertools
import math
import threading
import types

import numpy as np


class FakeNVRTCError(RuntimeError):
    pass


class FakeDriverError(RuntimeError):
    pass


class FakeCupy(types.ModuleType):
    """The module `cupy` over a FakeCuda, `library`; with the knob `nvrtc_works`, and records of what it did."""

    def __init__(self, library):
        super().__init__("cupy")
        self.library = library
        self.nvrtc_works, self.allocated, self.compiled = True, [], []
        self._addresses = itertools.count(1 << 40, 1 << 40)
        self._local = threading.local()
        self.ndarray = self._array_type()
        self.cuda = self._cuda()

    def _array_type(self):
        fake = self

        class ndarray:  # noqa: N801 - CuPy's name
            def __init__(self, shape, dtype, *, device=None, offset=0, address=None, contiguous=True, strides=None):
                self.shape, self.dtype = tuple(shape), np.dtype(dtype)
                self.size, self.ndim = math.prod(self.shape), len(self.shape)
                base = next(fake._addresses) if address is None else address
                ordinal = getattr(fake._local, "device", 0) if device is None else device
                self.data = types.SimpleNamespace(ptr=base + offset, device_id=ordinal)
                self.flags = types.SimpleNamespace(c_contiguous=contiguous and strides is None)
                self.nbytes = self.size * self.dtype.itemsize
                self.strides = strides or (0,) * len(self.shape)  # in bytes

            def view(self, dtype):
                assert np.dtype(dtype).itemsize == self.dtype.itemsize
                return ndarray(self.shape, dtype, device=self.data.device_id, address=self.data.ptr)

            @property
            def _c_contiguous(self):
                return self.flags.c_contiguous

            def __array__(self):
                raise AssertionError("the runtime copied an array to the host")

            __float__ = __index__ = __array__

        return ndarray

    def empty(self, shape, dtype):
        if str(dtype).startswith("float8"):
            raise ValueError(f"Unsupported dtype {dtype}")  # as CuPy 14.2 has it, which makes views of it only
        self.allocated.append((shape, str(dtype), self.cuda.get_current_stream().ptr))
        return self.ndarray(shape, dtype, device=getattr(self._local, "device", 0))

    def _cuda(self):
        local = self._local
        cuda = types.ModuleType("cupy.cuda")

        class Stream:
            def __init__(self, ptr=77, device_id=-1):
                self.ptr, self.device_id = ptr, device_id

            def __enter__(self):
                self.before, local.stream = getattr(local, "stream", 0), self.ptr
                return self

            def __exit__(self, *_):
                local.stream = self.before

        class Device:
            def __init__(self, ordinal):
                self.ordinal = ordinal

            def __enter__(self):
                self.before, local.device = getattr(local, "device", 0), self.ordinal

            def __exit__(self, *_):
                local.device = self.before

        cuda.Stream, cuda.ExternalStream, cuda.Device = Stream, Stream, Device
        cuda.get_current_stream = lambda _device=-1: types.SimpleNamespace(ptr=getattr(local, "stream", 0))
        cuda.runtime = types.SimpleNamespace(getDevice=lambda: getattr(local, "device", 0))
        cuda.nvrtc = self._nvrtc()
        self.library.direct_error = FakeDriverError
        cuda.driver = types.SimpleNamespace(
            launchKernel=self.library.launch_kernel,
            CUDADriverError=FakeDriverError,
            ctxGetCurrent=lambda: self.library.context or 0,
        )
        return cuda

    def _nvrtc(self):
        fake = self

        def compile_program(program, options):
            fake.compiled.append((program, options))
            if not fake.nvrtc_works:
                raise FakeNVRTCError("NVRTC_ERROR_COMPILATION")

        nvrtc = types.ModuleType("cupy.cuda.nvrtc")
        nvrtc.NVRTCError = FakeNVRTCError
        nvrtc.getVersion = lambda: (13, 0)
        nvrtc.createProgram = lambda source, _name, _headers, _names: source
        nvrtc.compileProgram = compile_program
        nvrtc.getCUBIN = lambda _program: b"compiled by nvrtc"
        nvrtc.getProgramLog = lambda _program: "kernel.cu(1): error: identifier is undefined"
        nvrtc.destroyProgram = lambda _program: None
        return nvrtc


def external(facts):
    """Return an object of another library: all it has is a CUDA array interface."""
    return types.SimpleNamespace(__cuda_array_interface__=facts)
