"""Device memory between holes, with a driver that counts what it gives: nothing is lost, and memory is used again."""

from __future__ import annotations

import pytest

from pretuned.measure.cuda import enclosure
from pretuned.measure.cuda.enclosure import Fences
from pretuned.measure.machine import OutOfMemory
from pretuned.measure.regions import HOLE_BYTES

UNIT = 2 << 20


class FakeDriver:
    """The virtual memory management of a driver with room for `blocks` blocks, and `limit` addresses in a piece."""

    def __init__(self, blocks=10, limit=1 << 60, supported=1):
        self.blocks, self.limit, self.calls, self.failure = blocks, limit, [], b""
        self.supported = supported

    def __getattr__(self, name):
        answers = {
            "cuMemAddressReserve": self.reserve,
            "cuMemCreate": self.create,
            "cuMemRelease": self.release,
            "cuMemGetAllocationGranularity": self.granularity,
            "cuDeviceGetAttribute": self.attribute,
            "cuGetErrorName": self.error_name,
        }

        def call(*arguments):
            self.calls.append(name)
            return answers[name](*arguments) if name in answers else 0

        return call

    def _refused(self):
        self.failure = b"CUDA_ERROR_OUT_OF_MEMORY"
        return 2

    def reserve(self, address, size, *_):
        address._obj.value = 1 << 40
        return self._refused() if size.value > self.limit else 0

    def create(self, handle, *_):
        if not self.blocks:
            return self._refused()
        self.blocks -= 1
        handle._obj.value = 7
        return 0

    def release(self, _handle):
        self.blocks += 1
        return 0

    def granularity(self, unit, *_):
        unit._obj.value = UNIT
        return 0

    def attribute(self, value, *_):
        value._obj.value = self.supported
        return 0

    def error_name(self, _status, name):
        name._obj.value = self.failure
        return 0

    def count(self, name):
        return self.calls.count(name)


@pytest.fixture
def made(monkeypatch):
    def make(driver):
        monkeypatch.setattr(enclosure, "load_libcuda", lambda: driver)
        return Fences(0, lambda: driver.calls.append("synchronize"))

    return make


def test_rooms_lie_one_behind_the_other_behind_a_hole_and_the_last_takes_the_rest(made):
    (first, last) = made(FakeDriver()).enclose([512, 1024]).rooms
    assert first.begin == (1 << 40) + HOLE_BYTES
    assert (first.end - first.begin, last.begin, last.end) == (512, first.end, first.begin + UNIT)


def test_memory_is_used_again_and_given_back_once_the_device_is_done(made):
    driver = FakeDriver()
    fences = made(driver)
    for _ in range(5):
        fences.enclose([512])
    assert (driver.count("cuMemCreate"), fences.kept_bytes) == (1, UNIT)
    fences.trim()
    assert (driver.blocks, fences.kept_bytes) == (10, 0)
    assert driver.calls[-4:] == ["synchronize", "cuMemUnmap", "cuMemRelease", "cuMemAddressFree"]


def test_what_nothing_uses_makes_room_and_a_refusal_leaves_nothing_behind(made):
    driver = FakeDriver(blocks=2)
    fences = made(driver)
    fences.enclose([UNIT])
    held = [fences.enclose([2 * UNIT]) for _ in range(2)]
    with pytest.raises(OutOfMemory, match="CUDA_ERROR_OUT_OF_MEMORY"):
        fences.enclose([UNIT])
    assert held[0].rooms
    held.clear()
    fences.trim()
    assert driver.blocks == 2
    assert driver.count("cuMemAddressFree") == driver.count("cuMemCreate")


def test_where_addresses_are_short_holes_shrink_and_at_last_are_given_up(made):
    (room,) = made(FakeDriver(limit=16 << 30)).enclose([512]).rooms
    assert room.begin == (1 << 40) + (4 << 30)
    assert made(FakeDriver(limit=1 << 30)).enclose([512]) is None


def test_a_device_without_such_memory_has_no_rooms_between_holes(made):
    fences = made(FakeDriver(supported=0))
    assert fences.enclose([512]) is None
    fences.trim()
    assert fences.kept_bytes == 0
