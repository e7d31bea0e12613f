"""What the GPU's judge lets pass, and what it does not."""

from __future__ import annotations

import numpy as np
import pytest

from judged import CASES, COMPLEX_CASES, RTOL, complex_finding
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


@pytest.mark.parametrize(("out", "reference", "right"), COMPLEX_CASES)
def test_a_complex_number_is_right_by_its_magnitude(out, reference, right):
    pytest.importorskip("cupy")
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - imports CuPy

    assert (complex_finding(CudaMachine(0), out, reference).first is None) is right


def test_complex_outputs_become_references_of_twice_the_width():
    pytest.importorskip("cupy")
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - imports CuPy

    machine, values = CudaMachine(0), np.array([1 + 2j, -3 - 4j, 0.5j], np.complex64)
    ours, wide = machine.allocate(values.nbytes), machine.allocate(2 * values.nbytes)
    machine.write(ours.address, values)
    machine.widen(ours.address, "complex64", values.size, wide.address)
    found = np.empty(values.size, np.complex128)
    machine.read(wide.address, found)
    assert np.array_equal(found, values.astype(np.complex128))
