"""Integers on a GPU: right within the tolerance of their type, refused beyond it, at the ends of their range too."""

from __future__ import annotations

import pytest

from judged import INTEGER_CASES, found, moved, verdicts
from pretuned.compile.nvrtc import NVRTC

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def machine():
    pytest.importorskip("cupy")
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - imports CuPy

    return CudaMachine(0)


@pytest.mark.parametrize(("dtype", "out", "reference", "rtol", "atol", "off"), INTEGER_CASES)
def test_integers_are_right_within_their_tolerance_over_their_whole_range(
    machine, dtype, out, reference, rtol, atol, off
):
    finding = found(machine, dtype, out, reference, rtol, atol)
    assert (finding.first, finding.count, finding.largest) == ((None, 0, 0) if off is None else (1, 1, off))


def test_a_kernel_of_integers_is_right_by_the_types_tolerance_and_refused_with_the_largest_difference(
    machine, tmp_path
):
    said = verdicts(machine, moved(tmp_path), f"sm_{machine.facts.compute_capability}", NVRTC)
    assert set(said) == {"int8", "uint8", "int32", "int64", "uint64"}
    for messages in said.values():
        assert messages[:2] == [None, None]
        assert messages[2].startswith("y: 4,096 of 4,096 elements are off by up to 2, first at [0]: ")
        assert messages[2].endswith("; allowed: 1")
