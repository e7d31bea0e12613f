"""What results are judged by, on a machine that cannot seal it: digests show whether a candidate has written there."""

from __future__ import annotations

import ctypes

import pytest

from pretuned.compile import host
from pretuned.compile.host import CPP
from pretuned.compile.pool import compile_all
from pretuned.measure.bench import Bench
from pretuned.measure.machine import Poisoned
from pretuned.measure.requests import CompiledCandidate, PrepareRequest, RaceRequest
from pretuned.render import source_of
from pretuned.spec import space
from specs import SCALE_TEMPLATE, loaded
from unsealed import Unsealing

pytestmark = pytest.mark.skipif(host.compiler() is None, reason="no C++ compiler here")


@pytest.fixture
def prepared(tmp_path):
    spec = loaded(tmp_path, template=f"#include <cuda_fp16.h>\n{SCALE_TEMPLATE}")
    problem = next(p for s in space.specialisations(spec) for p in space.problems(spec, s))
    configuration = space.default(spec)
    module = source_of(spec, problem.specialisation, configuration)
    binary = compile_all([module], host.HOST, workers=1, toolchain=CPP)[module.key]
    entry = CompiledCandidate.of(configuration, binary)
    return Bench(Unsealing()), PrepareRequest(spec=spec, problem=problem, default=entry), entry


@pytest.mark.parametrize("truth", ["input", "pool", "reference"])
def test_a_changed_truth_gives_the_process_up_and_is_made_anew(prepared, truth):
    bench, request, entry = prepared
    bench.prepare(request)
    assert bench.verify(entry).failure is None
    held = {
        "input": bench.stage.pristine.inputs["x"].memory,
        "pool": bench.stage.pristine.pools[0].memory,
        "reference": bench.stage.references["y"].memory,
    }
    address = held[truth].address
    ctypes.memset(address + 40, 0x3F, 1)
    with pytest.raises(Poisoned, match="what results are judged by"):
        bench.verify(entry)
    bench.prepare(request)
    assert bench.verify(entry).failure is None


def test_digests_follow_buffers_that_move(prepared):
    bench, request, entry = prepared
    bench.prepare(request)
    for place in (0, 1, 2):
        raced = bench.race(RaceRequest(entries=(entry,), estimates_us=(1.0,), rounds=1, judge=True, place=place))
        assert raced.failures == (None,)
        assert bench.verify(entry).failure is None
        assert len(bench.stage.digests) == 3
