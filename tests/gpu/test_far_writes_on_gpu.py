"""Writes far from their arrays: no such candidate is kept, whatever the distance, and the default is never blamed."""

from __future__ import annotations

import time

import numpy as np
import pytest

from far_writes import PLACES, several
from pretuned.config import GPU
from pretuned.measure.machine import Digest
from pretuned.measure.regions import HOLE_BYTES
from pretuned.outcome import Crashed, WrongResult
from pretuned.spec.space import all_problems
from pretuned.tune.events import Failed
from pretuned.tune.request import TuningRequest, find_device
from pretuned.tune.session import tune

pytestmark = pytest.mark.gpu


def test_holes_are_wide_and_memory_comes_and_goes():
    pytest.importorskip("cupy")
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - imports CuPy

    machine = CudaMachine(0)

    def comes_and_goes():
        free = machine.free_bytes()
        for _ in range(40):
            enclosure = machine.enclose([3 << 20, 512])
            (first, last) = enclosure.rooms
            assert (first.end, last.begin) == (first.begin + (3 << 20), first.end)
            assert last.end - last.begin >= 512
            machine.fill(first.begin, 1, last.end - first.begin)
            machine.synchronize()
        del enclosure
        machine.trim()
        return machine.free_bytes() >= free - (64 << 20)

    assert any(comes_and_goes() for _ in range(5))  # other programs may take memory meanwhile
    assert machine._fences.supported
    assert machine._fences._hole_bytes == HOLE_BYTES


def test_digests_see_every_bit():
    pytest.importorskip("cupy")
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - imports CuPy

    machine = CudaMachine(0)
    for nbytes in (0, 1, 7, 8, 9, 4099):
        content = np.random.default_rng(0).integers(0, 256, nbytes, np.uint8)
        memory = machine.allocate(max(1, nbytes))
        machine.write(memory.address, content)
        (before,) = machine.ask([Digest(address=memory.address, nbytes=nbytes)])
        for place in {0, nbytes // 2, nbytes - 1} if nbytes else ():
            changed = content.copy()
            changed[place] ^= 0x10
            machine.write(memory.address, changed)
            (after,) = machine.ask([Digest(address=memory.address, nbytes=nbytes)])
            assert after.count != before.count
        machine.write(memory.address, content)
        (again,) = machine.ask([Digest(address=memory.address, nbytes=nbytes)])
        assert again == before


def test_no_candidate_that_writes_far_away_is_kept(tmp_path, capsys):
    spec = several(tmp_path / "kernels", PLACES)
    failures = {}

    def listen(event):
        if isinstance(event, Failed):
            failures.setdefault(dict(event.configuration.values)["case"], event.failure)

    started = time.monotonic()
    request = TuningRequest(spec=spec, problems=tuple(all_problems(spec)))
    tuned = tune([request], find_device(GPU, {}), cache_folder=tmp_path / "cache", listen=listen)
    with capsys.disabled():
        print(f"\n{len(PLACES)} far writes: {time.monotonic() - started:.1f} s")
        for case, failure in sorted(failures.items()):
            print(f"  {PLACES[case - 1]}: {failure}")
    assert (tuned.interrupted, tuned.trouble, tuned.skipped) == (False, "", ())
    (row,) = tuned.rows
    assert [dict(choice.configuration.values) for choice in row.choices] == [{"case": 0}]
    assert set(failures) == set(range(1, len(PLACES) + 1))
    assert {type(failure) for failure in failures.values()} == {Crashed, WrongResult}
