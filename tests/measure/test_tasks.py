"""The kernel that fills, copies and checks memory on a GPU, executed on the host, which answers the same itself."""

from __future__ import annotations

import ctypes
import random

import numpy as np
import pytest

from judged import CASES, COMPLEX_CASES, INTEGER_CASES, RTOL, complex_finding, found
from pretuned.compile import host
from pretuned.compile.host import CPP
from pretuned.compile.pool import compile_all
from pretuned.measure import data
from pretuned.measure.host.kernel import HostKernel, Manner
from pretuned.measure.host.machine import HostMachine
from pretuned.measure.launch import BoundLaunch, BoundScalar
from pretuned.measure.machine import ByteCopy, ByteFill, Digest, Off, Unequal, Unlike
from pretuned.render import Source
from pretuned.runtime.types import DTYPES

judge = pytest.importorskip("pretuned.measure.cuda.judge")
pytestmark = pytest.mark.skipif(host.compiler() is None, reason="no C++ compiler here")
FLOATING = [name for name, dtype in DTYPES.items() if dtype.floating]
ARGUMENTS = ("tasks", "count", "pieces", "found")
GUARD = 0xA5


class TaskMachine(HostMachine):
    """The host, on which tasks are performed by `blocks` blocks of the GPU's kernel."""

    def __init__(self, image, blocks=3, threads=64):
        super().__init__()
        self._image, self._blocks, self._threads = image, blocks, threads

    def put(self, tasks):
        self._performed(tasks)

    def ask(self, checks):
        return self._performed(checks)

    def _performed(self, tasks):
        rows, pieces = judge.table(tasks)
        slots = ctypes.create_string_buffer(judge._UNTOUCHED * len(tasks) + b"\0", len(tasks) * judge.SLOTS.size + 1)
        held = ctypes.create_string_buffer(rows, len(rows) + 1)
        launch = BoundLaunch(
            function="perform_all",
            grid=(min(pieces, self._blocks), 1, 1),
            block=(self._threads, 1, 1),
            shared_bytes=0,
            arguments=ARGUMENTS,
        )
        scalars = [
            BoundScalar(name="count", dtype="int32", value=len(tasks)),
            BoundScalar(name="pieces", dtype="uint64", value=pieces),
        ]
        types = {"tasks": "uint64", "found": "uint64"}
        kernel = HostKernel(self._image, [launch], scalars, types=types, manner=Manner(strict=True))
        kernel.launch({"tasks": ctypes.addressof(held), "found": ctypes.addressof(slots)})
        kernel.unload()
        answers = [judge.SLOTS.unpack_from(slots, index * judge.SLOTS.size) for index in range(len(tasks))]
        return [judge._result(task, *answer) for task, answer in zip(tasks, answers, strict=True)]


@pytest.fixture(scope="module")
def image():
    headers = [f"#include <{DTYPES[name].header}>" for name in FLOATING if DTYPES[name].header]
    source = Source(text="\n".join([*headers, judge.tasks_source()]), options=(), functions=("perform_all",))
    return compile_all([source], host.HOST, workers=1, toolchain=CPP)[source.key].image


@pytest.fixture
def machine(image, monkeypatch):
    monkeypatch.setattr(judge, "PIECE", 64)
    monkeypatch.setattr(judge, "ELEMENTS", 32)
    monkeypatch.setattr(judge, "PIECES", 9)
    return TaskMachine(image)


def test_fills_and_copies_of_any_alignment_touch_nothing_else(machine):
    draw, size = random.Random(0), 4096
    ours, source = machine.allocate(size), machine.allocate(size)
    machine.write(source.address, np.frombuffer(draw.randbytes(size), np.uint8))
    machine.fill(ours.address, GUARD, size)
    tasks, place = [], 0
    while place < size - 300:
        nbytes, value = draw.choice([0, 1, 7, 16, 64, 65, 200]), draw.randrange(256)
        address, begin = ours.address + place, source.address + draw.randrange(64)
        tasks.append(
            ByteFill(address=address, nbytes=nbytes, value=value)
            if draw.random() < 0.5
            else ByteCopy(address=address, source=begin, nbytes=nbytes)
        )
        place += nbytes + draw.randrange(20)
    wanted = HostMachine()
    theirs = wanted.allocate(size)
    wanted.fill(theirs.address, GUARD, size)
    wanted.put([task._replace(address=task.address - ours.address + theirs.address) for task in tasks])
    machine.put(tasks)
    assert ctypes.string_at(ours.address, size) == ctypes.string_at(theirs.address, size)


def test_checks_of_bytes_answer_as_the_host_does(machine):
    draw, size = random.Random(1), 3000
    ours, theirs = machine.allocate(size), machine.allocate(size)
    for memory in (ours, theirs):
        machine.fill(memory.address, GUARD, size)
    for memory in (ours, theirs):
        for place in draw.sample(range(size), 12):
            machine.fill(memory.address + place, draw.randrange(256), 1)
    checks = []
    for _ in range(300):
        begin, other, nbytes = (
            draw.randrange(size // 2),
            draw.randrange(size // 2),
            draw.choice([0, 1, 15, 64, 700, 1400]),
        )
        checks.append(Unlike(address=ours.address + begin, nbytes=nbytes, value=GUARD))
        checks.append(Unequal(address=ours.address + begin, other=theirs.address + other, nbytes=nbytes))
    found, wanted = machine.ask(checks), HostMachine().ask(checks)
    assert [one.first for one in found] == [one.first for one in wanted]
    counted = [index for index, check in enumerate(checks) if isinstance(check, Unequal)]
    assert [found[index].count for index in counted] == [wanted[index].count for index in counted]
    assert sum(one.first is not None for one in found) > 100


@pytest.mark.parametrize("nbytes", [1, 8, 63, 64, 65, 1000])
def test_a_digest_changes_with_any_byte_and_its_place(machine, nbytes):
    memory = machine.allocate(nbytes)
    machine.write(memory.address, np.arange(nbytes, dtype=np.uint8))
    check = Digest(address=memory.address, nbytes=nbytes)
    seen = {machine.ask([check])[0].count}
    assert {machine.ask([Unlike(address=memory.address, nbytes=0, value=0), check])[1].count} == seen
    for place in {0, nbytes // 2, nbytes - 1}:
        machine.fill(memory.address + place, 0xC3, 1)
        seen.add(machine.ask([check])[0].count)
    assert len(seen) == 1 + len({0, nbytes // 2, nbytes - 1})


def test_a_digest_changes_where_words_change_places(machine):
    values = np.arange(125, dtype=np.uint64)
    memory = machine.allocate(values.nbytes)
    check = Digest(address=memory.address, nbytes=values.nbytes)
    seen = set()
    for other in range(values.size):
        swapped = values.copy()
        swapped[[0, other]] = swapped[[other, 0]]
        machine.write(memory.address, swapped)
        seen.add(machine.ask([check])[0].count)
    assert len(seen) == values.size


@pytest.mark.parametrize(("out", "reference", "right"), CASES)
def test_an_element_is_right_within_its_tolerance_and_infinities_only_as_such(machine, out, reference, right):
    ours, theirs = machine.allocate(4), machine.allocate(8)
    machine.write(ours.address, np.array([out], np.float32))
    machine.write(theirs.address, np.array([reference], np.float64))
    check = Off(address=ours.address, dtype="float32", reference=theirs.address, size=1, rtol=RTOL, atol=0.0)
    (finding,) = machine.ask([check])
    assert (finding.first is None) is right


@pytest.mark.parametrize(("out", "reference", "right"), COMPLEX_CASES)
def test_a_complex_number_is_right_by_its_magnitude(machine, out, reference, right):
    assert (complex_finding(machine, out, reference).first is None) is right


@pytest.mark.parametrize(("dtype", "out", "reference", "rtol", "atol", "off"), INTEGER_CASES)
def test_integers_are_right_within_their_tolerance_over_their_whole_range(
    machine, dtype, out, reference, rtol, atol, off
):
    finding = found(machine, dtype, out, reference, rtol, atol)
    assert (finding.first, finding.count, finding.largest) == ((None, 0, 0) if off is None else (1, 1, off))


@pytest.mark.parametrize("dtype", FLOATING)
def test_every_floating_type_is_compared_as_the_host_does(machine, dtype):
    generator, size = np.random.default_rng(3), 1000
    parts = DTYPES[dtype].parts
    reference = generator.standard_normal(parts * size).view(DTYPES[dtype].wide)
    stored = data.encode(reference * (1 + 0.2 * (generator.random(size) < 0.01)), dtype)
    ours, theirs = machine.allocate(stored.nbytes), machine.allocate(reference.nbytes)
    machine.write(ours.address, stored)
    machine.write(theirs.address, reference)
    check = Off(address=ours.address, dtype=dtype, reference=theirs.address, size=size, rtol=0.13, atol=0.01)
    ((mine,), (wanted,)) = machine.ask([check]), HostMachine().ask([check])
    assert (mine.first, mine.count) == (wanted.first, wanted.count)
    assert mine.worst == pytest.approx(wanted.worst)
    assert mine.largest == pytest.approx(wanted.largest)
    assert mine.count
