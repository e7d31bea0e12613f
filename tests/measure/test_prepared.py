"""Problems that stay prepared: what is only timed takes any inputs, and what is made anew is the current one."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace

import pytest

from pretuned.compile import host
from pretuned.compile.host import CPP
from pretuned.compile.pool import compile_all
from pretuned.measure.bench import Bench
from pretuned.measure.machine import OutOfMemory
from pretuned.measure.requests import (
    CompiledCandidate,
    Lost,
    Opened,
    OpenRequest,
    PrepareRequest,
    RaceRequest,
    Ready,
    ScreenRequest,
    TooLarge,
)
from pretuned.measure.server import server
from pretuned.render import source_of
from pretuned.spec import space
from specs import SCALE_TEMPLATE, loaded
from unsealed import Unsealing

pytestmark = pytest.mark.skipif(host.compiler() is None, reason="no C++ compiler here")


@pytest.fixture
def prepared(tmp_path):
    spec = loaded(tmp_path, template=f"#include <cuda_fp16.h>\n{SCALE_TEMPLATE}")
    one, other, *_ = space.problems(spec, next(iter(space.specialisations(spec))))
    module = source_of(spec, one.specialisation, space.default(spec))
    binary = compile_all([module], host.HOST, workers=1, toolchain=CPP)[module.key]
    entry = CompiledCandidate.of(space.default(spec), binary)
    return Bench(Unsealing()), PrepareRequest(spec=spec, problem=one, default=entry), other, entry


def test_what_is_only_timed_takes_the_inputs_that_are_there_and_what_is_judged_its_own(prepared):
    bench, request, other, entry = prepared
    bench.prepare(replace(request, seed=2, trust_default=True))
    checked = bench.stage
    bench.prepare(replace(request, problem=other))
    bench.prepare(replace(request, reference="none"))
    assert bench.stage is checked
    assert bench.race(RaceRequest(entries=(entry,), estimates_us=(1.0,), rounds=1)).times_us[0]
    bench.prepare(request)
    assert bench.stage is not checked
    assert (bench.stage.request.seed, bench.stage.by_default) == (0, False)
    assert bench.verify(entry).failure is None


class Queueing(Unsealing):
    """A machine that knows whether it may still have something to do."""

    busy = False

    def synchronize(self):
        self.busy = False

    def ask(self, checks):
        self.busy = False
        return super().ask(checks)

    def fill(self, *given):
        self.busy = True
        super().fill(*given)

    def copy(self, *given):
        self.busy = True
        super().copy(*given)

    def put(self, tasks):
        self.busy = True
        super().put(tasks)

    def call(self, *given):
        self.busy = True
        super().call(*given)


@pytest.mark.parametrize("reference", ["soon", "now", "none"])
def test_nothing_is_left_to_do_where_another_process_may_have_the_device_next(prepared, reference):
    _, request, other, entry = prepared
    bench = Bench(Queueing())
    for one in (request, replace(request, problem=other), request):
        bench.prepare(replace(one, reference=reference, trust_default=True))
        assert not bench.machine.busy
    if reference != "none":
        list(bench.screen(ScreenRequest(entries=(entry, entry), verify=True)))
        assert not bench.machine.busy
        bench.verify(entry)
        assert not bench.machine.busy
        bench.race(RaceRequest(entries=(entry,), estimates_us=(1.0,), rounds=1, judge=True, place=1))
        assert not bench.machine.busy


def test_a_problem_that_is_made_anew_is_the_current_one(prepared):
    bench, request, other, entry = prepared
    bench.prepare(replace(request, trust_default=True))
    ctypes.memset(bench.stage.pristine.inputs["x"].memory.address + 40, 0x3F, 1)
    bench.prepare(replace(request, problem=other))
    bench.prepare(replace(request, trust_default=True))
    assert bench.stage.request.problem == request.problem
    assert bench.verify(entry).failure is None


def test_a_size_at_which_the_default_finds_no_room_for_its_scratch_shows_nothing(prepared, tmp_path):
    _, request, _, _ = prepared
    huge = 'scratch = [{ name = "held", dtype = "float32", shape = ["n * 1000000000000"] }]\n\n[dims]\n'
    taken = 'arguments = ["y", "x", "a", "n", "held"]\n\n[constraints]'
    spec = loaded(tmp_path, ("[dims]\n", huge), ("[constraints]", taken), template=SCALE_TEMPLATE)
    serve = server(lambda _index: Unsealing())
    assert isinstance(serve(OpenRequest(index=0)), Opened)
    answer = serve(replace(request, spec=spec, trust_default=True))
    assert isinstance(answer, TooLarge)
    assert answer.reason.startswith("scratch: a call takes 4,096,000,000,")


def test_memory_that_others_take_after_a_problem_was_prepared_is_told(prepared, monkeypatch):
    _, request, _, entry = prepared
    serve = server(lambda _index: Unsealing())
    serve(OpenRequest(index=0))
    assert isinstance(serve(request), Ready)

    def full(_machine, nbytes):
        raise OutOfMemory(f"{sum(nbytes):,} bytes cannot be allocated")

    monkeypatch.setattr(Unsealing, "enclose", full)
    answer = serve(RaceRequest(entries=(entry,), estimates_us=(1.0,), rounds=1, place=1))
    assert isinstance(answer, Lost)
    assert re.fullmatch("out of memory: [0-9,]+ bytes cannot be allocated", answer.message)
