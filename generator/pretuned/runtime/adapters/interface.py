"""Arrays of any library by __cuda_array_interface__: numba.readthedocs.io, "CUDA Array Interface", version 2 or 3."""

from __future__ import annotations

import math
import sys

from ..errors import ArgumentError, ArgumentTypeError
from .adapter import ArrayView, reach
from .nameless import BY_TYPESTR, Nameless
from .told import HOMES, LEGACY, apart, home_of, not_writable, ordinal_of, wait_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..table import Foreign
    from .told import Facts

SIZES = {typestr: int(typestr[2:]) for typestr in BY_TYPESTR}
NATIVE = {"=", "|", "<" if sys.byteorder == "little" else ">"}


class Interface(Nameless):
    """Arrays with __cuda_array_interface__."""

    name = "interface"

    def owns(self, value: object) -> bool:
        """Return whether a value has the interface; a class has what its objects have."""
        return not isinstance(value, type) and hasattr(value, "__cuda_array_interface__")

    def facts(self, value: Foreign) -> Facts:
        """Return what the interface says; raises KeyError, TypeError or AttributeError for what `view` has to see."""
        found = value.__cuda_array_interface__
        shape, (address, sealed), order, strides = found["shape"], found["data"], found["typestr"], found.get("strides")
        if found.get("mask") is not None:
            raise AttributeError
        theirs, home = found.get("stream"), HOMES.get(address)
        return (
            shape,
            BY_TYPESTR[order],
            address,
            None if strides is None else apart(shape, SIZES[order], strides),
            sealed,
            0 if theirs == LEGACY else theirs,
            home_of(address) if home is None else home,
            None,
        )

    def device_of(self, value: Foreign) -> int | None:
        """Return the ordinal of the device of an array's memory; None where `view` has to report what a call brings."""
        found: Foreign = getattr(value, "__cuda_array_interface__", None)
        try:
            return ordinal_of("", found["data"][0], found["shape"])
        except (ArgumentError, LookupError, TypeError):
            return None

    def view(self, where: str, value: Foreign, stream: int, *, written: bool) -> ArrayView:
        """Read the interface. An array that names a stream of its own is waited for on `stream`."""
        facts = value.__cuda_array_interface__
        try:
            shape, (address, sealed), order = tuple(facts["shape"]), facts["data"], facts["typestr"]
            size = int(order[2:])
        except (KeyError, IndexError, TypeError, ValueError):
            raise ArgumentTypeError(
                f"{where}: expected a __cuda_array_interface__ with shape, data and a typestr such as '<f4', "
                f"found {facts!r}"
            ) from None
        if facts.get("mask") is not None:
            raise ArgumentTypeError(
                f"{where}: expected an array without a mask, found a masked one; pass one that is filled in"
            )
        swapped = size > 1 and order[0] not in NATIVE
        dtype = order if swapped else BY_TYPESTR.get(f"|{order[1:]}", order)
        strides = apart(shape, size, facts.get("strides"))
        nbytes = size * math.prod(shape) if strides is None else reach(shape, strides, size)
        ordinal = ordinal_of(where, address, shape)
        wait_for(where, ordinal, stream, facts.get("stream"))
        if written and sealed:
            raise not_writable(where, "a read-only one")
        return ArrayView(address, dtype, shape, ordinal, nbytes, value, strides)
