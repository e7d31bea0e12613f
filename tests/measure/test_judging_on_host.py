"""What the host's judge lets pass, and what it does not: the same as the GPU's."""

from __future__ import annotations

import numpy as np
import pytest

from judged import CASES, COMPLEX_CASES, INTEGER_CASES, RTOL, complex_finding, found, moved, verdicts
from pretuned.compile import host
from pretuned.compile.host import CPP
from pretuned.measure.host import judge
from pretuned.measure.host.machine import HostMachine
from pretuned.measure.machine import CheckResult, Off
from pretuned.measure.verdict import difference


@pytest.mark.parametrize(("out", "reference", "right"), CASES)
def test_an_element_is_right_within_its_tolerance_and_infinities_only_as_such(out, reference, right):
    machine = HostMachine()
    ours, theirs = machine.allocate(4), machine.allocate(8)
    machine.write(ours.address, np.array([out], np.float32))
    machine.write(theirs.address, np.array([reference], np.float64))
    check = Off(address=ours.address, dtype="float32", reference=theirs.address, size=1, rtol=RTOL, atol=0.0)
    (finding,) = machine.ask([check])
    assert (finding.first is None) is right


@pytest.mark.parametrize(("out", "reference", "right"), COMPLEX_CASES)
def test_a_complex_number_is_right_by_its_magnitude(out, reference, right):
    assert (complex_finding(HostMachine(), out, reference).first is None) is right


@pytest.mark.parametrize(("dtype", "out", "reference", "rtol", "atol", "off"), INTEGER_CASES)
def test_integers_are_right_within_their_tolerance_over_their_whole_range(dtype, out, reference, rtol, atol, off):
    finding = found(HostMachine(), dtype, out, reference, rtol, atol)
    assert (finding.first, finding.count, finding.largest) == ((None, 0, 0) if off is None else (1, 1, off))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_integers_are_judged_as_python_has_it(dtype, monkeypatch):
    monkeypatch.setattr(judge, "PART", 64)  # findings of parts are put together
    draw, kind, size = np.random.default_rng(0), np.iinfo(dtype), 300
    reference = draw.integers(kind.min, kind.max, size, dtype, endpoint=True)
    out = np.where(draw.random(size) < 0.5, reference, draw.integers(kind.min, kind.max, size, dtype, endpoint=True))
    machine = HostMachine()
    ours, theirs = machine.allocate(8 * size), machine.allocate(8 * size)
    machine.write(ours.address, out)
    machine.write(theirs.address, reference)
    rtol, atol = 0.25, 3.0
    check = Off(address=ours.address, dtype=dtype, reference=theirs.address, size=size, rtol=rtol, atol=atol)
    (finding,) = machine.ask([check])
    pairs = list(zip(out.tolist(), reference.tolist(), strict=True))
    wrong = [index for index, (one, other) in enumerate(pairs) if abs(one - other) > atol + rtol * abs(other)]
    assert (finding.first, finding.count) == (wrong[0], len(wrong))
    assert finding.largest == max(abs(pairs[index][0] - pairs[index][1]) for index in wrong)
    assert 0 < finding.worst <= 1


@pytest.mark.skipif(host.compiler() is None, reason="no C++ compiler here")
def test_a_kernel_of_integers_is_right_by_the_types_tolerance_and_refused_with_the_largest_difference(tmp_path):
    said = verdicts(HostMachine(), moved(tmp_path), host.HOST, CPP)
    assert set(said) == {"int8", "uint8", "int32", "int64", "uint64"}
    for messages in said.values():
        assert messages[:2] == [None, None]
        assert messages[2].startswith("y: 4,096 of 4,096 elements are off by up to 2, first at [0]: ")
        assert messages[2].endswith("; allowed: 1")


def test_a_wrong_output_is_reported_with_count_largest_difference_and_place():
    out, reference = np.zeros((2, 3), np.int64), np.full((2, 3), 2**62 + 1)
    finding = CheckResult(first=4, count=2, worst=0.0, largest=2**62 + 1)
    assert difference(out, reference, finding, 0.0, 0.0) == (
        "2 of 6 elements are off by up to 4611686018427387905, first at [1, 1]: 0 instead of 4611686018427387905; "
        "allowed: 0"
    )
    nan = CheckResult(first=0, count=1, worst=0.0, largest=0.0)
    assert difference(np.array([np.nan]), np.array([2.0]), nan, 0.01, 0.25) == (
        "1 of 1 elements are off, first at [0]: nan instead of 2; allowed: 0.27"
    )
    wrong_byte = np.array([2], np.uint8).view(bool)
    assert difference(wrong_byte, np.array([True]), nan, 0.0, 0.0).endswith("are off, first at [0]: 2 instead of 1")
