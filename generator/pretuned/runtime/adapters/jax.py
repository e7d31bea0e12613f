"""JAX: its arrays outside of transformations, which are read and never written.

JAX has no current stream, so calls go on CuPy's, and outputs come from CuPy or are given. An array may still be in the
making on a stream of JAX's own, and its __cuda_array_interface__ does not say so: where it is, JAX is asked through
DLPack to have the call's stream wait for it.
"""

from __future__ import annotations

import sys

from ..errors import ArgumentError, ArgumentTypeError
from .adapter import ArrayView, kind_of
from .dlpack import tell
from .nameless import BY_TYPESTR, Nameless
from .told import elsewhere, home_of, not_writable, viewed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..table import Foreign
    from .told import Facts

NAME = "jax"


class JAX(Nameless):
    """JAX's arrays on a GPU."""

    name = NAME

    def owns(self, value: object) -> bool:
        """Return whether a value is an array of JAX, or stands for one inside a transformation."""
        module = sys.modules.get(NAME)
        return module is not None and isinstance(value, getattr(module, "Array", ()))

    def facts(self, value: Foreign) -> Facts:
        """Return what an array tells; raises AttributeError for what `view` has to see."""
        try:
            ready = value.is_ready()
        except RuntimeError:  # it was deleted
            raise AttributeError from None
        if not ready:
            return _waited_for(value, self.current_stream(0))
        found = value.__cuda_array_interface__  # not of types that it cannot name
        address = found["data"][0]
        return found["shape"], BY_TYPESTR[found["typestr"]], address, None, True, None, home_of(address), None

    def device_of(self, value: Foreign) -> int | None:
        """Return the ordinal of an array's device; None for one that is not on one GPU."""
        device = _device_of(value)
        return None if device is None else int(device.local_hardware_id)

    def view(self, where: str, value: Foreign, stream: int, *, written: bool) -> ArrayView:
        """Return an array as launches on a stream see it, once it is made."""
        _demand_memory(where, value)
        if written:
            raise not_writable(where, f"a {kind_of(value)}, which is immutable")
        try:
            facts = _waited_for(value, stream)
        except AttributeError:
            raise ArgumentTypeError(
                f"{where}: expected an array that JAX hands over by DLPack, found one of {value.dtype}"
            ) from None
        return viewed(where, value, facts, stream)


def _waited_for(value: Foreign, stream: int) -> Facts:
    """Return what an array hands over for a stream, which waits until it is made."""
    shape, dtype, address, strides, _, theirs, device, capsule = tell(value, stream)
    return shape, dtype, address, strides, True, theirs, device, capsule


def _device_of(value: Foreign) -> Foreign:
    """Return the one device of an array; None where it has several, or is not on a GPU."""
    devices = value.devices() if hasattr(value, "unsafe_buffer_pointer") and not value.is_deleted() else ()
    return next(iter(devices)) if len(devices) == 1 and next(iter(devices)).platform == "gpu" else None


def _demand_memory(where: str, value: Foreign) -> None:
    """Raise an error for an array without memory on one GPU."""
    name = where.rpartition(" ")[2]
    if not hasattr(value, "unsafe_buffer_pointer"):
        raise ArgumentTypeError(
            f"{where}: expected an array, found a {kind_of(value)}, which stands for one inside of jax.jit, jax.grad "
            "or jax.vmap; call it outside of them"
        )
    if value.is_deleted():
        raise ArgumentError(f"{where}: expected an array, found one that JAX has deleted, or that was donated")
    devices = value.devices()
    if len(devices) > 1:
        raise ArgumentError(
            f"{where}: expected an array on one device, found one on {len(devices)}; pass its shards one by one "
            f"({name}.addressable_shards)"
        )
    if _device_of(value) is None:
        raise elsewhere(where, value, next(iter(devices)).platform, "jax.device_put({}, jax.devices('gpu')[0])")
