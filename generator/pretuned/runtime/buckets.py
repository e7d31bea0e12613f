"""The rule of buckets: which measured size answers for a size, and which measured problem is the nearest.

Between two measured sizes, a and b, the edge is `isqrt(a * b)`, lower bound inclusive, so that a size goes to the
measured one that is nearest by ratio, up to the rounding of the edge.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def edges(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the inner edges between sorted, distinct `sizes`: one fewer than there are sizes.

    An edge lies above the smaller size even where both are so close that the root is rounded down to it, as between 1
    and 2: a measured size is always in its own bucket.
    """
    return tuple(max(math.isqrt(a * b), a + 1) for a, b in itertools.pairwise(sizes))


def bucket_of(sizes: Sequence[int], inner: Sequence[int], size: int) -> int:
    """Return the measured size that answers for `size`; `inner` are the edges between `sizes`."""
    return sizes[bisect_right(inner, size)]


def distance(left: Mapping[str, int], right: Mapping[str, int]) -> float:
    """Return how far two problems are apart: the length of the vector of the logarithms of their sizes' ratios."""
    return math.hypot(*(math.log(max(1, left[name]) / max(1, size)) for name, size in right.items()))
