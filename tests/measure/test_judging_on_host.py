"""What the host's judge lets pass, and what it does not: the same as the GPU's."""

from __future__ import annotations

import numpy as np
import pytest

from judged import CASES, RTOL
from pretuned.measure.host.machine import HostMachine
from pretuned.measure.machine import Off


@pytest.mark.parametrize(("out", "reference", "right"), CASES)
def test_an_element_is_right_within_its_tolerance_and_infinities_only_as_such(out, reference, right):
    machine = HostMachine()
    ours, theirs = machine.allocate(4), machine.allocate(8)
    machine.write(ours.address, np.array([out], np.float32))
    machine.write(theirs.address, np.array([reference], np.float64))
    check = Off(address=ours.address, dtype="float32", reference=theirs.address, size=1, rtol=RTOL, atol=0.0)
    (finding,) = machine.ask([check])
    assert (finding.first is None) is right
