"""Candidates that no SM has room for are known before they are launched."""

from __future__ import annotations

import pytest

from pretuned.compile.result import Binary, Resources
from pretuned.measure.launch import BoundLaunch
from pretuned.spec.space import DeviceFacts
from pretuned.tune.space.pruning import refusal, spills

FACTS = DeviceFacts(sm_count=132, compute_capability=90, shared_bytes=232448, l2_bytes=1 << 25)


def binary(registers=32, spill_bytes=0, shared_bytes=0):
    used = Resources(registers=registers, spill_bytes=spill_bytes, shared_bytes=shared_bytes)
    return Binary(
        module="m",
        architecture="sm_90",
        image=b"",
        digest="",
        flags=(),
        compiler="13.0.88",
        resources={"f": used},
    )


def launch(threads=256, shared_bytes=0):
    return BoundLaunch(function="f", grid=(1, 1, 1), block=(threads, 1, 1), shared_bytes=shared_bytes, arguments=())


@pytest.mark.parametrize(("threads", "registers"), [(1024, 64), (256, 255), (32, 255)])
def test_what_fits_exactly_is_launched(threads, registers):
    assert refusal(binary(registers), (launch(threads),), FACTS) is None


def test_more_registers_than_an_sm_has():
    found = refusal(binary(72), (launch(1024),), FACTS)
    assert found.message == "f: a block takes 73728 registers; there are 65536"


def test_static_and_dynamic_shared_memory_together():
    assert refusal(binary(shared_bytes=448), (launch(shared_bytes=232000),), FACTS) is None
    found = refusal(binary(shared_bytes=449), (launch(shared_bytes=232000),), FACTS)
    assert found.message == (
        "f: a block takes 232449 bytes of shared memory, static and dynamic; this device gives it 232448"
    )


def test_spills_are_seen():
    assert spills(binary(spill_bytes=8))
    assert not spills(binary())
