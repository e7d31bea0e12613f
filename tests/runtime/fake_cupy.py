"""As much of CuPy as the runtime uses, over no GPU: it hands out addresses and records loads, copies and launches."""

from __future__ import annotations

import ctypes
import itertools
import math
import struct
import threading
import types

import numpy as np

# How the entry points of the sample kernels take their arguments, as struct codes.
SIGNATURES = {"affine": "QQfii", "accumulate": "QQQi", "partials": "QQi", "finish": "QQQ"}
H100 = {
    "name": b"NVIDIA H100 80GB HBM3",
    "multiProcessorCount": 132,
    "major": 9,
    "minor": 0,
    "l2CacheSize": 50 * 2**20,
    "sharedMemPerBlockOptin": 232448,
    "maxThreadsPerBlock": 1024,
    "regsPerBlock": 65536,
}


class FakeRuntimeError(RuntimeError):
    pass


class FakeDriverError(RuntimeError):
    pass


class FakeNVRTCError(RuntimeError):
    pass


class Launched(types.SimpleNamespace):
    """One launch: function, image of its module, grid, block, shared_bytes, stream, arguments."""


class FakeCupy(types.ModuleType):
    """The module `cupy`, with knobs: `devices`, `cuda_version`, `refused` images, `nvrtc_works`, and the records."""

    def __init__(self) -> None:
        super().__init__("cupy")
        self.devices, self.cuda_version, self.clock_khz = [dict(H100), dict(H100)], 13000, 2619000
        self.refused, self.nvrtc_works = set(), True
        self.loaded, self.launches, self.memsets, self.allocated, self.limits, self.compiled = [], [], [], [], {}, []
        self.events = []
        self._addresses = itertools.count(1 << 40, 1 << 40)
        self._handles = itertools.count(1)
        self._functions, self._local = {}, threading.local()
        self.ndarray = self._array_type()
        self.cuda = self._cuda()

    def _array_type(self):
        fake = self

        class ndarray:  # noqa: N801 - CuPy's name
            def __init__(self, shape, dtype, *, device=None, offset=0, address=None, contiguous=True):
                self.shape, self.dtype = tuple(shape), np.dtype(dtype)
                base = next(fake._addresses) if address is None else address
                device = fake.cuda.runtime.getDevice() if device is None else device
                self.data = types.SimpleNamespace(ptr=base + offset, device_id=device)
                self.flags = types.SimpleNamespace(c_contiguous=contiguous)
                self.nbytes = math.prod(self.shape) * self.dtype.itemsize
                self.strides = (0,) * len(self.shape)

            def __array__(self):
                raise AssertionError("the runtime copied an array to the host")

            __float__ = __index__ = __array__

        return ndarray

    def empty(self, shape, dtype):
        self.allocated.append((shape, str(dtype), self.cuda.get_current_stream().ptr))
        return self.ndarray(shape, dtype)

    def _cuda(self):
        fake, local = self, self._local
        cuda = types.ModuleType("cupy.cuda")

        class Stream:
            def __init__(self, ptr=77, device_id=-1):
                self.ptr, self.device_id = ptr, device_id

            def __enter__(self):
                self.before, local.stream = getattr(local, "stream", 0), self.ptr
                return self

            def __exit__(self, *_):
                local.stream = self.before

        def alloc(size):
            fake.allocated.append((size, "scratch", cuda.get_current_stream().ptr))
            return types.SimpleNamespace(ptr=next(fake._addresses))

        cuda.Stream, cuda.alloc = Stream, alloc
        cuda.get_current_stream = lambda: types.SimpleNamespace(ptr=getattr(local, "stream", 0))
        cuda.runtime, cuda.driver, cuda.nvrtc = self._runtime(), self._driver(), self._nvrtc()
        return cuda

    def _runtime(self):
        fake, local = self, self._local

        def get_device_count():
            if not fake.devices:
                raise FakeRuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")
            return len(fake.devices)

        def memset(address, value, size, stream):
            fake.memsets.append((address, value, size, stream))
            fake.events.append("memset")

        return types.SimpleNamespace(
            CUDARuntimeError=FakeRuntimeError,
            getDeviceCount=get_device_count,
            getDevice=lambda: getattr(local, "device", 0),
            setDevice=lambda device: setattr(local, "device", device),
            driverGetVersion=lambda: fake.cuda_version,
            getDeviceProperties=lambda device: fake.devices[device],
            deviceGetAttribute=lambda key, device: {36: fake.clock_khz, 37: 5120}[key],
            memsetAsync=memset,
        )

    def _driver(self):
        fake = self

        def load(image):
            assert isinstance(image, bytes)
            if any(part in image.decode() for part in fake.refused):
                raise FakeDriverError("CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available")
            fake.loaded.append(image.decode())
            return len(fake.loaded)

        def get_function(module, name):
            handle = next(fake._handles)
            fake._functions[handle] = (name, fake.loaded[module - 1])
            return handle

        def launch(function, *rest):
            name, image = fake._functions[function]
            stream, address = rest[7], rest[8]
            codes = SIGNATURES[name]
            pointers = (ctypes.c_uint64 * len(codes)).from_address(address)
            arguments = tuple(
                struct.unpack(f"={code}", ctypes.string_at(pointer, struct.calcsize(f"={code}")))[0]
                for code, pointer in zip(codes, pointers, strict=True)
            )
            fake.events.append(name)
            fake.launches.append(
                Launched(
                    function=name,
                    image=image,
                    grid=rest[:3],
                    block=rest[3:6],
                    shared_bytes=rest[6],
                    stream=stream,
                    arguments=arguments,
                    device=fake.cuda.runtime.getDevice(),
                )
            )

        return types.SimpleNamespace(
            CUDADriverError=FakeDriverError,
            CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES=1,
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
            moduleLoadData=load,
            moduleGetFunction=get_function,
            funcGetAttribute=lambda _attribute, _function: 0,
            funcSetAttribute=lambda function, attribute, value: fake.limits.update({function: (attribute, value)}),
            launchKernel=launch,
        )

    def _nvrtc(self):
        fake = self

        def compile_program(program, options):
            fake.compiled.append((program, options))
            if not fake.nvrtc_works:
                raise FakeNVRTCError("NVRTC_ERROR_COMPILATION")

        return types.SimpleNamespace(
            NVRTCError=FakeNVRTCError,
            createProgram=lambda source, _name, _headers, _names: source,
            compileProgram=compile_program,
            getCUBIN=lambda _program: b"compiled by nvrtc",
            getProgramLog=lambda _program: "kernel.cu(1): error: identifier is undefined",
            destroyProgram=lambda _program: None,
        )
