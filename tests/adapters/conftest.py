"""Arrays of Numba, tvm-ffi and Warp, of their own classes, in the host's memory; they say that they lie on a GPU."""

from __future__ import annotations

import importlib
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from adapter_world import World
from capsules import capsule
from host_launches import at


def handed_over(tensor):
    return capsule(tensor.data_ptr(), tensor.shape, tensor.dtype.name)


class OfTvmFfi:
    """Tensors of tvm-ffi, which it makes of capsules; PyTorch allocates for it."""

    def __init__(self, world, patch):
        self._library = importlib.import_module("tvm_ffi")
        patch.setattr(world.torch.Tensor, "__dlpack__", handed_over)
        patch.setattr(self._library, "get_raw_stream", lambda _device: 0)

    def make(self, address, shape, dtype, strides, device):
        return self._library.from_dlpack(capsule(address, shape, dtype, strides, device))

    def values(self, array):
        if not isinstance(array, self._library.Tensor):
            return None
        strides = (
            None if array.is_contiguous() else [one * np.dtype(str(array.dtype)).itemsize for one in array.strides]
        )
        return at(array.data_ptr(), array.shape, str(array.dtype), strides)


class OfWarp:
    """Arrays of Warp on a device of its that is none; its stream is 91."""

    def __init__(self, world, patch):
        self._warp, self._memory = importlib.import_module("warp"), world.memory
        self._devices = [self._device(ordinal) for ordinal in range(2)]
        patch.setattr(self._warp, "get_cuda_device", lambda ordinal=0: self._devices[ordinal])
        patch.setattr(self._warp, "empty", self._empty)
        patch.setattr(self._warp, "ScopedDevice", lambda _device: nullcontext())

    def _device(self, ordinal):
        device = object.__new__(importlib.import_module("warp._src.context").Device)
        device.ordinal, device.alias = ordinal, f"cuda:{ordinal}"
        device._context, device._stream = 1, SimpleNamespace(cuda_stream=91)
        return device

    def _empty(self, shape, dtype, device):
        return self._made(next(self._memory), shape, dtype, None, device)

    def _made(self, address, shape, dtype, strides, device):
        array = self._warp.array(ptr=address, shape=shape, dtype=dtype, strides=strides, device="cpu")
        array.device = device
        return array

    def make(self, address, shape, dtype, strides, device):
        return self._made(address, shape, getattr(self._warp, dtype), strides, self._devices[device])

    def values(self, array):
        if not isinstance(array, self._warp.array):
            return None
        return (
            at(array.ptr or 0, array.shape, array.dtype.__name__, array.strides)
            if array.size
            else np.empty(array.shape)
        )


class OfNumba:
    """Arrays of Numba whose memory it did not allocate, and which no context of its holds."""

    def __init__(self, world, patch):
        self._memory = world.memory
        self._kind = importlib.import_module("numba.cuda.cudadrv.devicearray").DeviceNDArray
        cuda = importlib.import_module("numba.cuda")
        patch.setattr(cuda, "device_array", self._empty)
        patch.setattr(cuda, "gpus", [nullcontext(), nullcontext()])

    def _empty(self, shape, dtype):
        return self.make(next(self._memory), shape, dtype, None, 0)

    def make(self, address, shape, dtype, strides, device):
        array = self._kind.__new__(self._kind)
        array.shape, array.dtype, array.stream, array.ndim = tuple(shape), np.dtype(dtype), 0, len(shape)
        array.strides = strides or at(address, shape, dtype).strides
        array.size = int(np.prod(shape))
        context = SimpleNamespace(device=SimpleNamespace(id=device))
        array.gpu_data = SimpleNamespace(device_pointer_value=address, context=context)
        return array

    def values(self, array):
        if not isinstance(array, self._kind):
            return None
        return at(array.gpu_data.device_pointer_value, array.shape, array.dtype, array.strides)


KINDS = {"numba.cuda": OfNumba, "tvm_ffi": OfTvmFfi, "warp": OfWarp}


def imported(name):
    """Return whether a library is there: imported before there is a driver that is none, and a PyTorch."""
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    kinds = {name: kind for name, kind in KINDS.items() if imported(name)}
    if "warp" in kinds:
        sys.modules["warp"].init()
    with pytest.MonkeyPatch.context() as patch:
        made = World(patch, tmp_path_factory.mktemp("adapters"))
        made.libraries.update({name.partition(".")[0]: kind(made, patch) for name, kind in kinds.items()})
        yield made
