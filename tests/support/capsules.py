"""DLPack capsules of memory that passes for a GPU's."""

from __future__ import annotations

import ctypes

from host_launches import at

DEVICE_AT = 8  # of a DLTensor: behind its data pointer
CODE_AT = 20
STRIDES_AT = 32
CUDA, BFLOAT = 2, 4
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


def capsule(address, shape, dtype, strides=None, device=0, named="", *, unsigned=False):
    """Return a capsule as NumPy makes it, but on a GPU, and of bfloat16 if `named` says so; strides in bytes.

    With `unsigned` negative strides are divided as CuPy does it: as if they had no sign.
    """
    made = at(address, shape, dtype, strides).__dlpack__()
    tensor = _pointer(made, b"dltensor")
    (ctypes.c_int32 * 2).from_address(tensor + DEVICE_AT)[:] = CUDA, device
    if named == "bfloat16":
        ctypes.c_uint8.from_address(tensor + CODE_AT).value = BFLOAT
    if unsigned:
        elements = ctypes.c_int64.from_address(tensor + STRIDES_AT).value
        size = at(address, shape, dtype).itemsize
        for place, stride in enumerate(strides):
            ctypes.c_uint64.from_address(elements + 8 * place).value = (stride % (1 << 64)) // size
    return made
