"""What a wrong output is reported as."""

from __future__ import annotations

import numpy as np

from pretuned.measure.data import HostArray
from pretuned.measure.machine import CheckResult


def difference(out: HostArray, reference: HostArray, finding: CheckResult, rtol: float, atol: float) -> str:
    """Return how many elements are off and by how much, and the first of them; `finding` is of a wrong output."""
    assert finding.first is not None  # it is wrong
    found, wanted = out.flat[finding.first], reference.flat[finding.first]
    place = ", ".join(str(position) for position in np.unravel_index(finding.first, out.shape))
    by = f" by up to {_number(finding.largest)}" if finding.largest else ""
    head = f"{finding.count:,} of {out.size:,} elements are off{by}, first at [{place}]"
    if out.dtype == bool:
        found = out.view(np.uint8).flat[finding.first]  # the byte: one that is neither 0 nor 1 is wrong as well
        return f"{head}: {found} instead of {int(wanted)}"
    allowed = atol + rtol * abs(float(wanted))
    if out.dtype.kind != "f":
        allowed = int(allowed)
    return f"{head}: {_number(found)} instead of {_number(wanted)}; allowed: {_number(allowed)}"


def _number(value: float) -> str:
    """Return an integer in full, and a real number with 8 digits."""
    return str(value) if isinstance(value, int | np.integer) else f"{value:.8g}"
