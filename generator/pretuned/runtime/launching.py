"""A launch as cuLaunchKernelEx reads it: CUlaunchConfig, and the attributes that it may point to.

Names, numbers and layouts are those of cuda.h. Attributes stand in a list of their own, which is written once, so that
they cost a call nothing.
"""

from __future__ import annotations

import math
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIGURATION = struct.Struct("=7I4xQQI4x")  # grid, block, shared bytes; stream; attributes, their number
NO_CLUSTER = (1, 1, 1)
# CUlaunchAttributeID
_COOPERATIVE = 2
_CLUSTER_DIMENSION = 4
_PROGRAMMATIC_STREAM_SERIALIZATION = 6
_ATTRIBUTE = struct.Struct("=I4x64s")  # CUlaunchAttribute: the number, then a union of 64 bytes
ATTRIBUTE_BYTES = _ATTRIBUTE.size


def attributes(cluster: Sequence[int], *, cooperative: bool, overlap: bool) -> bytes:
    """Return the list of a launch's attributes; empty where it needs none. A cluster of one block is none."""
    found = b""
    if math.prod(cluster) > 1:
        found += _ATTRIBUTE.pack(_CLUSTER_DIMENSION, struct.pack("=3I", *cluster))
    if cooperative:
        found += _ATTRIBUTE.pack(_COOPERATIVE, struct.pack("=i", 1))
    if overlap:
        found += _ATTRIBUTE.pack(_PROGRAMMATIC_STREAM_SERIALIZATION, struct.pack("=i", 1))
    return found
