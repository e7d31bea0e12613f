"""As much of JAX as the runtime meets: arrays on a GPU, with the attributes that jaxlib's have."""

from __future__ import annotations

import types
from typing import NamedTuple

import numpy as np

from capsules import capsule


class Device(NamedTuple):
    platform: str
    local_hardware_id: int


class Tracer:
    """What stands for an array inside of a transformation."""

    __module__ = "jax._src.interpreters.partial_eval"


class ArrayImpl:
    """An array; one that is not `ready` is still in the making."""

    __module__ = "jaxlib._jax"

    def __init__(self, shape, dtype, address, *, devices=(0,), platform="gpu", ready=True, deleted=False):
        self.shape, self.dtype, self.asked = tuple(shape), np.dtype(dtype), []
        self._address, self._platform, self._devices = address, platform, devices
        self._ready, self._deleted = ready, deleted

    def is_deleted(self):
        return self._deleted

    def is_ready(self):
        if self._deleted:
            raise RuntimeError("Array has been deleted with shape=float32[16].")
        return self._ready

    def devices(self):
        return {Device(self._platform, one) for one in self._devices}

    def unsafe_buffer_pointer(self):
        return self._address

    @property
    def __cuda_array_interface__(self):
        if self._platform != "gpu" or len(self._devices) > 1 or self.dtype.name == "bfloat16":
            raise AttributeError("__cuda_array_interface__ is only defined for GPU buffers.")
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self._address, True), "version": 2}

    def __dlpack_device__(self):
        return 2, self._devices[0]

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.asked.append(stream)
        dtype = "int16" if self.dtype.name == "bfloat16" else self.dtype
        return capsule(self._address, self.shape, dtype, device=self._devices[0], named=self.dtype.name)


class FakeJax(types.ModuleType):
    """The module `jax`, for `sys.modules`."""

    def __init__(self):
        super().__init__("jax")

        class OfArrays(type):
            def __instancecheck__(cls, value):
                return isinstance(value, (ArrayImpl, Tracer))

        self.Array = OfArrays("Array", (), {})
