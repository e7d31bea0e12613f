"""Buffers at random distances: what lies between them is watched, and all else goes on as without."""

from __future__ import annotations

import pytest

from pretuned.compile import host
from pretuned.compile.host import CPP
from pretuned.compile.pool import compile_all
from pretuned.measure.bench import SETTLED, Bench
from pretuned.measure.host.machine import HostMachine
from pretuned.measure.host.pages import HostEnclosure
from pretuned.measure.requests import CompiledCandidate, PrepareRequest, RaceRequest, ScreenRequest
from pretuned.outcome import Timed
from pretuned.render import source_of
from pretuned.spec import space
from specs import SCALE_TEMPLATE, loaded

pytestmark = pytest.mark.skipif(host.compiler() is None, reason="no C++ compiler here")
GAP_BYTES = 1 << 16


class Gapped(HostMachine):
    gap_bytes = GAP_BYTES

    def enclose(self, sizes):
        return HostEnclosure(sizes, hole_bytes=0)


def prepared(folder, template):
    spec = loaded(folder, template=f"#include <cuda_fp16.h>\n{template}")
    problem = next(p for s in space.specialisations(spec) for p in space.problems(spec, s))
    configuration = space.default(spec)
    module = source_of(spec, problem.specialisation, configuration)
    binary = compile_all([module], host.HOST, workers=1, toolchain=CPP)[module.key]
    bench, entry = Bench(Gapped()), CompiledCandidate.of(configuration, binary)
    bench.prepare(PrepareRequest(spec=spec, problem=problem, default=entry))
    return bench, entry


def test_buffers_lie_apart_and_everything_between_them_is_a_band(tmp_path):
    bench, _ = prepared(tmp_path, SCALE_TEMPLATE)
    workspace = bench.stage.workspace
    gaps = {region.front_bytes for regions in workspace.sets for region in regions.values()}
    assert len(gaps) > 1
    covered = sum(
        region.front_bytes + region.buffer.nbytes + region.tail_bytes
        for regions in workspace.sets
        for region in regions.values()
    )
    assert covered == workspace.allocated_bytes


def test_a_sound_kernel_is_right_timed_and_races(tmp_path):
    bench, entry = prepared(tmp_path, SCALE_TEMPLATE)
    assert bench.verify(entry).failure is None
    assert [type(one.outcome) for one in bench.screen(ScreenRequest(entries=(entry,)))] == [Timed]
    raced = bench.race(RaceRequest(entries=(entry, entry), estimates_us=(1.0, 1.0), rounds=3, judge=True))
    assert raced.failures == (None, None)


def test_a_finalist_that_is_seldom_wrong_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr("pretuned.measure.bench.SETTLING_S", 60.0)
    seldom = f"    if (begin == 0 && ++calls % {SETTLED // 2} == 0) y[0] += 1.0f;\n"
    template = SCALE_TEMPLATE.replace('extern "C"', 'static int calls = 0;\n\nextern "C"', 1)
    head, brace, rest = template.rpartition("}")
    bench, entry = prepared(tmp_path, f"{head}{seldom}{brace}{rest}")
    assert bench.verify(entry).failure is None
    raced = bench.race(RaceRequest(entries=(entry,), estimates_us=(1.0,), rounds=3, judge=True))
    assert "1 of" in raced.failures[0].message


@pytest.mark.parametrize(("offset", "said"), [(1500, "past its end"), (-1500, "before its start")])
def test_a_write_far_outside_is_found(tmp_path, offset, said):
    place = f"n + {offset}" if offset > 0 else f"{offset}"
    stray = f"    if (begin == 0) y[{place}] = y[0];\n    for (int i"
    bench, entry = prepared(tmp_path, SCALE_TEMPLATE.replace("    for (int i", stray, 1))
    assert said in bench.verify(entry).failure.message
