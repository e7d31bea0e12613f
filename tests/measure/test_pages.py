"""Rooms between holes and sealed pages, as the operating system gives them."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from pathlib import Path

import pytest

from pretuned.measure.host.pages import LEAST_HOLE_BYTES, PAGE, HostEnclosure, SealablePages
from pretuned.measure.launch import BoundBuffer
from pretuned.measure.machine import OutOfMemory
from pretuned.measure.regions import HOLE_BYTES, placed, span


def buffer(size):
    return BoundBuffer(name="y", role="out", dtype="float32", shape=(size,))


def ended_by(function):
    """Return the signal that ends a fork which runs `function`, or 0."""
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        try:
            function()
        finally:
            os._exit(0)
    return os.WTERMSIG(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("size", [0, 1, 1000, 1024, 100_003])
def test_a_buffer_lies_against_the_end_of_a_room_between_holes(size):
    enclosure = HostEnclosure([span(buffer(size)), 512])
    one, other = enclosure.rooms
    region = placed(buffer(size), one)
    assert one.hole_bytes == HOLE_BYTES == other.begin - one.end
    assert (region.address - region.front_bytes, region.end + region.tail_bytes) == one[:2]
    assert region.tail_bytes < 512
    assert not region.address % 512
    assert not ended_by(lambda: ctypes.memset(one.begin, 1, one.end - one.begin))
    for address in (one.begin - 1, one.end, one.begin - HOLE_BYTES, one.end + HOLE_BYTES - 1):
        assert ended_by(lambda address=address: ctypes.memset(address, 1, 1)) == signal.SIGSEGV


def test_sealed_pages_are_read_only_to_their_last_byte():
    pages = SealablePages(PAGE + 1)
    ctypes.memset(pages.address, 7, 2 * PAGE)
    pages.seal()
    assert pages.sealed
    assert ctypes.string_at(pages.address + PAGE, 1) == b"\7"
    for address in (pages.address, pages.address + 2 * PAGE - 1):
        assert ended_by(lambda address=address: ctypes.memset(address, 1, 1)) == signal.SIGSEGV


def limited(more_bytes, function):
    """Return what `function` returns, a small number, in a fork that may map so many bytes more than it has."""
    pid = os.fork()
    if not pid:
        answer = 255
        try:
            mapped = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * PAGE
            resource.setrlimit(resource.RLIMIT_AS, (mapped + more_bytes,) * 2)
            answer = function()
        finally:
            os._exit(answer)
    return os.WEXITSTATUS(os.waitpid(pid, 0)[1])


def test_where_addresses_are_limited_holes_shrink_and_then_vanish():
    assert limited(2 << 30, lambda: HostEnclosure([512]).rooms[0].hole_bytes >> 28) == 2
    assert limited(200 << 20, lambda: HostEnclosure([512]).rooms[0].hole_bytes >> 20) == 64
    assert limited(LEAST_HOLE_BYTES, lambda: HostEnclosure([512]).rooms[0].hole_bytes) == 0


def test_where_memory_is_limited_a_refusal_is_an_error():
    def refused():
        try:
            HostEnclosure([1 << 30])
        except OutOfMemory:
            return 3
        return 4

    assert limited(100 << 20, refused) == 3
