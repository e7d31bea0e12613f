"""What a measurement says, for tables and for the plots of the documentation. It needs the standard library alone.

A measurement is an entry of `kernels.json`: `us` and `off` by contestant have device time in microseconds and the
largest error as a share of the spec's tolerance, against float64; `errors` has the messages of those that failed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Measured = Mapping[str, Any]
OURS = "ours"
COPIES = ("copy", "copy by a kernel")  # the first is the driver's, the ceiling
READS = ("read at once", "read in a loop")  # the faster is the ceiling
CEILINGS = (*COPIES, *READS)
TUNED, ALIGNED, RAGGED = "tuned", "aligned", "ragged"
KINDS = (TUNED, ALIGNED, RAGGED)
WRONG = 100.0  # times the tolerance: a peer that is less exact than we ask of ours still computes the same


def title(one: Measured) -> str:
    """Return sizes and specialisation in a few words."""
    sizes = [f"{name}={size}" for name, size in one["problem"].items()]
    return ", ".join(part for part in (*sizes, specialisation(one)) if part)


def specialisation(one: Measured) -> str:
    """Return the specialisation in a few words: types by themselves, other choices with their names."""
    return ", ".join(v if isinstance(v, str) else f"{k}={str(v).lower()}" for k, v in one["specialisation"].items())


def kind(one: Measured) -> str:
    """Return how the sizes were chosen, and whether the arrays are misaligned."""
    return f"{one['kind']}, misaligned" if one["shift"] else str(one["kind"])


def ceiling_us(one: Measured) -> float | None:
    """Return the time of the driver's copy of as many bytes, or of the faster of the kernels that read them."""
    return min((us for name, us in one["us"].items() if name in {COPIES[0], *READS}), default=None)


def fastest_us(one: Measured) -> float | None:
    """Return the least time of all that memory was measured with."""
    return min((us for name, us in one["us"].items() if name in CEILINGS), default=None)


def is_right(one: Measured, name: str) -> bool:
    """Return whether a contestant was measured, with results that are not wrong."""
    return name in one["us"] and remark(one, name) != "wrong"


def remark(one: Measured, name: str) -> str:
    """Return `wrong` or `less exact` of a contestant whose results are; of ours, all beyond the tolerance are wrong."""
    off = one["off"].get(name, 0.0)
    return "" if off <= 1.0 else "wrong" if off > WRONG or name == OURS else "less exact"


def ratio(one: Measured, peer: str) -> float | None:
    """Return our time by the peer's; None where the peer has no right result, or we no result."""
    if OURS not in one["us"] or not is_right(one, peer):
        return None
    return float(one["us"][OURS] / one["us"][peer])


def peers_of(found: Iterable[Measured]) -> list[str]:
    """Return who takes part besides us."""
    every = (name for one in found for name in (*one["us"], *one["errors"]))
    return [name for name in dict.fromkeys(every) if name not in {OURS, "case", *CEILINGS}]


def geomean(values: Sequence[float]) -> float:
    """Return the geometric mean; NaN of nothing."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan
