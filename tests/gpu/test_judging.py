"""What the GPU's judge lets pass, and what it does not."""

from __future__ import annotations

import numpy as np
import pytest

from judged import CASES, RTOL
from pretuned.measure.machine import Off

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("out", "reference", "right"), CASES)
def test_an_element_is_right_within_its_tolerance_and_infinities_only_as_such(out, reference, right):
    pytest.importorskip("cupy")
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - imports CuPy

    machine = CudaMachine(0)
    ours, theirs = machine.allocate(4), machine.allocate(8)
    machine.write(ours.address, np.array([out], np.float32))
    machine.write(theirs.address, np.array([reference], np.float64))
    check = Off(address=ours.address, dtype="float32", reference=theirs.address, size=1, rtol=RTOL, atol=0.0)
    (finding,) = machine.ask([check])
    assert (finding.first is None) is right
