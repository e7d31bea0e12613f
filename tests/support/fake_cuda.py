# ruff: noqa: N802 - the functions have the driver's names
"""As much of libcuda as the runtime uses, over no GPU: called as by ctypes, it records loads, zeros and launches."""

from __future__ import annotations

import ctypes
import itertools
import struct
import threading
import types

# How the entry points of the sample kernels take their arguments, as struct codes.
SIGNATURES = {"affine": "QQfii", "accumulate": "QQQi", "partials": "QQi", "finish": "QQQ"}
CONFIGURATION = struct.Struct("=7I4xQQI4x")
ATTRIBUTE = struct.Struct("=I4x64s")
H100 = {
    "name": "NVIDIA H100 80GB HBM3",
    16: 132,
    75: 9,
    76: 0,
    38: 50 * 2**20,
    97: 232448,
    1: 1024,
    12: 65536,
    36: 2619000,
    37: 5120,
}


def attributes_at(address, count):
    """Return the integers of each attribute in a list, by its number, without zeros at the end."""
    found = {}
    for place in range(count):
        number, value = ATTRIBUTE.unpack(ctypes.string_at(address + ATTRIBUTE.size * place, ATTRIBUTE.size))
        found[number] = struct.unpack("=16i", value)[: len(value.rstrip(b"\0")) // 4 + 1]
    return found


class Launched(types.SimpleNamespace):
    """One launch: function, image of its module, grid, block, shared_bytes, stream, attributes, arguments, device.

    `attributes` are the integers of each, by the number of CUlaunchAttributeID.
    """


class FakeCuda:
    """The library, with knobs: `devices`, `version`, `refused` images, `captured` streams, `status` of launches.

    With `eager` an image is refused as it is loaded, else when a function of it is asked for in a context; `loaded` has
    an image once for each context, `libraries` those of all contexts.

    `resident` is how many blocks, or clusters, a multiprocessor, or the device, holds at once.

    `during` is called in the middle of each launch, before its arguments are read, `after` with each. `refusing` has
    what memsets and questions for captures answer in place of success, by the function's name.

    Contexts are numbered 1000 + ordinal. Those of threads are their own, as in CUDA, and none at first.
    """

    def __init__(self):
        self.devices, self.version = [dict(H100), dict(H100)], 13000
        self.refused, self.captured, self.status = set(), set(), 0
        self.during, self.after, self.refusing = lambda: None, lambda _launched: None, {}
        self.loaded, self.launches, self.memsets, self.limits, self.events, self.waits = [], [], [], {}, [], []
        self.direct, self.direct_error = 0, RuntimeError
        self.resident, self.asked = 2, []
        self.mapped = []  # tensor maps that were encoded
        self.eager, self.libraries, self._kernels, self._in_contexts = True, {}, {}, set()
        self.in_use = {0}  # devices whose primary context the process has made
        self.addresses = {}  # address -> device, for arrays of other libraries
        self._functions, self._handles, self._local = {}, itertools.count(1), threading.local()

    # Devices and contexts.

    def cuInit(self, _flags):
        return 0

    def cuDriverGetVersion(self, found):
        found._obj.value = self.version
        return 0

    def cuDeviceGetCount(self, found):
        found._obj.value = len(self.devices)
        return 0 if self.devices else 100

    def cuDeviceGet(self, found, ordinal):
        found._obj.value = 50 + ordinal.value  # a handle is no ordinal
        return 0

    def cuDeviceGetName(self, text, _length, device):
        text.value = self.devices[device.value - 50]["name"].encode()
        return 0

    def cuDeviceGetAttribute(self, found, attribute, device):
        found._obj.value = self.devices[device.value - 50][attribute.value]
        return 0

    def cuDevicePrimaryCtxRetain(self, found, device):
        found._obj.value = 1000 + device.value - 50
        return 0

    def cuDevicePrimaryCtxGetState(self, device, _flags, active):
        active._obj.value = int(device.value - 50 in self.in_use)
        return 0

    def cuThreadExchangeStreamCaptureMode(self, mode):
        self._local.mode, mode._obj.value = mode._obj.value, getattr(self._local, "mode", 0)
        return 0

    def cuCtxGetCurrent(self, found):
        found._obj.value = getattr(self._local, "context", None)
        return 0

    def cuCtxSetCurrent(self, context):
        self._local.context = context.value
        return 0

    def cuCtxGetDevice(self, found):
        found._obj.value = self._local.context - 1000 + 50
        return 0

    @property
    def context(self):
        """The calling thread's context, or None."""
        return getattr(self._local, "context", None)

    @property
    def device(self):
        """The device of that context, or None."""
        return None if self.context is None else self.context - 1000

    @property
    def no_context(self):
        return 201 if self.device is None else 0

    # Modules and functions.

    def cuLibraryLoadData(self, found, image, *options):
        assert isinstance(image, bytes)
        assert image.endswith(b"\0")
        assert [getattr(one, "value", one) for one in options] == [None, None, 0] * 2
        text = image.rstrip(b"\0").decode()
        if self.eager and self._refuses(text):
            return 209
        found._obj.value = next(self._handles)
        self.libraries[found._obj.value] = text
        return 0

    def cuLibraryUnload(self, library):
        del self.libraries[library.value]
        return 0

    def cuLibraryGetKernel(self, found, library, name):
        found._obj.value = next(self._handles)
        self._kernels[found._obj.value] = name.decode(), self.libraries[library.value]
        return 0

    def cuKernelGetFunction(self, found, kernel):
        name, text = self._kernels[kernel.value]
        if self.device is None:
            return 201
        if self._refuses(text):
            return 209
        if (text, self.device) not in self._in_contexts:
            self._in_contexts.add((text, self.device))
            self.loaded.append(text)
        key = name, text, self.device
        known = {of: handle for handle, of in self._functions.items()}
        found._obj.value = known.get(key, 1 + len(known))
        self._functions[found._obj.value] = key
        return 0

    def _refuses(self, text):
        return any(part in text for part in self.refused)

    def cuFuncLoad(self, _function):
        return 0

    def cuFuncGetAttribute(self, found, _attribute, _function):
        found._obj.value = 0
        return 0

    def cuFuncSetAttribute(self, function, attribute, value):
        self.limits[function.value] = attribute.value, value.value
        return 0

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, found, function, threads, shared_bytes):
        self.asked.append((self._functions[function.value][0], threads.value, shared_bytes.value))
        found._obj.value = self.resident
        return 0

    def cuOccupancyMaxActiveClusters(self, found, function, configuration):
        *extents, attributes, count = CONFIGURATION.unpack(configuration)
        self.asked.append((self._functions[function.value][0], *extents[:6], attributes_at(attributes, count)))
        found._obj.value = self.resident
        return 0

    # Work.

    def cuTensorMapEncodeTiled(self, tensor_map, dtype, rank, address, *described):
        dims, strides, box, steps, *modes = described
        assert tensor_map.value % 64 == 0
        if address.value % 16:
            return 1
        self.mapped.append(
            types.SimpleNamespace(
                dtype=dtype.value,
                address=address.value,
                dims=tuple(dims),
                strides=tuple(strides)[: rank.value - 1],
                box=tuple(box),
                steps=tuple(steps),
                modes=tuple(mode.value for mode in modes),
            )
        )
        # What a kernel gets: what was encoded, and at which address.
        ctypes.memmove(tensor_map.value, struct.pack("=QQ112x", address.value, len(self.mapped)), 128)
        return 0

    def cuLaunchKernelEx(self, configuration, function, addresses, extra):
        assert extra is None
        name, image, device = self._functions[function.value]
        if self.device is None:
            return 201
        if self.device != device:
            return 400
        if self.status:
            return self.status
        self.during()
        x, y, z, bx, by, bz, shared_bytes, stream, attributes, count = CONFIGURATION.unpack(
            ctypes.string_at(configuration.value, CONFIGURATION.size)
        )
        codes = SIGNATURES[name]
        pointers = (ctypes.c_uint64 * len(codes)).from_address(addresses.value)
        for code, pointer in zip(codes, pointers, strict=True):
            assert code != "128s" or pointer % 64 == 0  # a CUtensorMap
        arguments = tuple(
            struct.unpack(f"={code}", ctypes.string_at(pointer, struct.calcsize(f"={code}")))[0]
            for code, pointer in zip(codes, pointers, strict=True)
        )
        self.events.append(name)
        launched = Launched(
            function=name,
            image=image,
            grid=(x, y, z),
            block=(bx, by, bz),
            shared_bytes=shared_bytes,
            stream=stream,
            attributes=attributes_at(attributes, count),
            arguments=arguments,
            device=device,
        )
        self.launches.append(launched)
        self.after(launched)
        return 0

    def launch_kernel(self, function, *rest):
        """Launch as CuPy's binding does: numbers in, an exception out."""
        *extents, stream, addresses, extra = rest
        assert extra == 0
        block = ctypes.create_string_buffer(CONFIGURATION.pack(*extents, stream, 0, 0))
        self.direct += 1
        address = ctypes.c_void_p(ctypes.addressof(block))
        if status := self.cuLaunchKernelEx(address, ctypes.c_void_p(function), ctypes.c_void_p(addresses), None):
            raise self.direct_error(str(status))

    def cuMemsetD8Async(self, address, value, nbytes, stream):
        if status := self.refusing.get("cuMemsetD8Async") or self.no_context:
            return status
        self.memsets.append((address.value or 0, value.value, nbytes.value, stream.value or 0))
        self.events.append("memset")
        return 0

    def cuStreamIsCapturing(self, stream, found):
        if status := self.refusing.get("cuStreamIsCapturing") or self.no_context:
            return status
        found._obj.value = int((stream.value or 0) in self.captured)
        return 0

    def cuPointerGetAttribute(self, found, attribute, address):
        assert attribute.value == 9
        found._obj.value = self.addresses.get(address.value, 0)
        return 0

    def cuEventCreate(self, found, _flags):
        if self.device is None:
            return 201
        found._obj.value = 5
        return 0

    def cuEventRecord(self, _event, stream):
        self.events.append(f"record on {stream.value or 0}")
        return 0

    def cuStreamWaitEvent(self, stream, _event, _flags):
        self.events.append(f"{stream.value or 0} waits")
        return 0

    def cuEventDestroy_v2(self, _event):
        return 0

    def cuGetErrorName(self, status, found):
        names = {100: b"CUDA_ERROR_NO_DEVICE", 201: b"CUDA_ERROR_INVALID_CONTEXT", 209: b"CUDA_ERROR_NO_BINARY_FOR_GPU"}
        names |= {400: b"CUDA_ERROR_INVALID_HANDLE", 700: b"CUDA_ERROR_ILLEGAL_ADDRESS"}
        found._obj.value = names.get(status.value)
        return 0 if status.value in names else 1
