"""What a launch with attributes is at a problem: its attributes as the driver reads them, or why it is not possible."""

from __future__ import annotations

import struct
import tomllib
from dataclasses import replace

import pytest

import attributed
from pretuned.compile.result import Resources
from pretuned.measure.launch import launches, residency_by
from pretuned.outcome import LaunchFailed
from pretuned.runtime.limits import blocks_of_sm
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, DeviceFacts, Problem

FACTS = DeviceFacts(sm_count=132, compute_capability=90, shared_bytes=232448, l2_bytes=50 << 20)
A100 = DeviceFacts(sm_count=108, compute_capability=80, shared_bytes=166912, l2_bytes=40 << 20)
FOUR = Configuration(implementation="main", values=(("size", 4),))
PROBLEM = Problem(specialisation=(), dims=(("n", 1024),))
RESOURCES = {"affine": Resources(registers=32, spill_bytes=0, shared_bytes=0)}


def bound(folder, launch, device=FACTS, registers=32, grid="4 * ceil_div(n, 1024)"):
    resources = {"affine": Resources(registers=registers, spill_bytes=0, shared_bytes=0)}
    spec = attributed.spec(folder, launch, grid)
    return launches(spec, PROBLEM, FOUR, device, residency_by(device, resources))


# capability, a block's most shared memory, threads, registers, shared bytes: what cuda_occupancy.h of CUDA 13.0 says
OCCUPANCY = [
    (75, 65536, 256, 255, 25245, 1),
    (75, 65536, 100, 16, 40000, 1),
    (80, 166912, 256, 40, 40000, 4),
    (80, 166912, 100, 40, 0, 12),
    (80, 166912, 384, 168, 133602, 1),
    (86, 101376, 1000, 168, 1000, 0),
    (86, 101376, 1000, 72, 73242, 0),
    (89, 101376, 512, 16, 16384, 3),
    (90, 232448, 384, 72, 16635, 2),
    (90, 232448, 1000, 40, 77041, 1),
    (100, 232448, 1000, 96, 16384, 0),
    (100, 232448, 32, 72, 0, 28),
    (120, 101376, 128, 16, 57518, 1),
]


@pytest.mark.parametrize(("capability", "limit", "threads", "registers", "shared_bytes", "held"), OCCUPANCY)
def test_a_multiprocessor_holds_what_cudas_own_calculator_says(
    capability, limit, threads, registers, shared_bytes, held
):
    found = blocks_of_sm(capability, limit, threads=threads, registers=registers, shared_bytes=shared_bytes)
    assert found == held


@pytest.mark.parametrize(
    ("launch", "attributes"),
    [
        ("", []),
        ("cluster = [1]", []),
        ("cooperative = true", [(2, 1)]),
        ('cluster = ["size", 1]', [(4, 4, 1, 1)]),
        ('overlap = "pdl"', [(6, 1)]),
        ('cluster = ["size"]\noverlap = "pdl"', [(4, 4, 1, 1), (6, 1)]),
    ],
)
def test_attributes_stand_as_the_driver_reads_them(tmp_path, launch, attributes):
    (found,) = bound(tmp_path, launch, grid='4 * ceil_div(n, 1024)", "1')
    parts = [found.attributes[begin : begin + 72] for begin in range(0, len(found.attributes), 72)]
    words = [struct.unpack("=18i", part) for part in parts]
    assert [(one[0], *one[2 : 1 + len(wanted)]) for one, wanted in zip(words, attributes, strict=True)] == attributes
    assert all(one[1] == 0 and not any(one[1 + len(wanted) :]) for one, wanted in zip(words, attributes, strict=True))


def test_resident_blocks_depend_on_what_the_binary_takes(tmp_path):
    grids = [bound(tmp_path, "", registers=one, grid="device.resident_blocks")[0].grid[0] for one in (32, 64, 255)]
    assert grids == [8 * 132, 4 * 132, 1 * 132]


@pytest.mark.parametrize(
    ("launch", "grid", "device", "message"),
    [
        (
            "cooperative = true",
            "2000",
            FACTS,
            "a cooperative grid of 2000 blocks; this device holds 1056 at once",
        ),
        ('cluster = ["size"]', "4", A100, "clusters need compute capability 9.0; this device has 8.0"),
        ('cluster = ["size"]', "6", FACTS, "grid x is 6, which is not a multiple of the cluster's 4"),
        ('cluster = ["size - 4"]', "6", FACTS, "a cluster of 0 x 1 x 1 blocks; a device takes 1 to 16"),
        ('cluster = ["5 * size"]', "20", FACTS, "a cluster of 20 x 1 x 1 blocks; a device takes 1 to 16"),
        (
            "",
            "device.resident_blocks",
            replace(FACTS, sm_count=0),
            "a block that this device cannot hold, by its registers and shared memory",
        ),
        (
            'cluster = ["size"]',
            "4",
            replace(FACTS, sm_count=0),
            "a cluster of 4 blocks that this device cannot hold, by its registers and shared memory",
        ),
    ],
)
def test_what_a_device_does_not_launch_is_an_outcome(tmp_path, launch, grid, device, message):
    text = attributed.SPEC.format(launch=launch, grid=grid)
    spec = KernelSpec.model_validate({**tomllib.loads(text), "name": "wide", "folder": tmp_path})
    found = launches(spec, PROBLEM, FOUR, device, residency_by(device, RESOURCES))
    assert found == LaunchFailed(message=f"affine: {message}")


def test_before_compute_capability_9_launches_do_not_overlap(tmp_path):
    assert [bound(tmp_path, 'overlap = "pdl"', one)[0].overlap for one in (FACTS, A100)] == [True, False]


def test_the_host_device_holds_one_block_of_a_cooperative_launch(tmp_path):
    host = replace(FACTS, one_by_one=True)
    grid = "4 * min(ceil_div(n, 1024), device.resident_blocks)"
    assert bound(tmp_path, "", host, grid=grid)[0].grid == (4, 1, 1)
    said = "affine: for GPUs only: a cooperative grid of 4 blocks; the host device runs one after the other"
    for launch in ("cooperative = true", 'cooperative = true\ncluster = ["size"]'):
        assert bound(tmp_path, launch, host, grid=grid) == LaunchFailed(message=said)
