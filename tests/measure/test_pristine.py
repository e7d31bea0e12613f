"""Inputs on a machine: cut out of pools that stay there, the same whatever was prepared before."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from pretuned.measure import data
from pretuned.measure.bench import Bench
from pretuned.measure.host.machine import HostMachine
from pretuned.measure.host.pages import SealablePages
from pretuned.measure.pristine import Pools
from pretuned.measure.regions import HOLE_BYTES
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.measure.stage import Stage
from pretuned.spec import space
from pretuned.spec.space import Problem
from specs import SCALE_TEMPLATE, loaded

Z = '  { name = "z", role = "in", dtype = "T", shape = ["n"] },\n'


class Counting(HostMachine):
    written = 0

    def write(self, address, array):
        self.written += 1
        super().write(address, array)


def problem(n, dtype="float32"):
    return Problem(specialisation=(("T", dtype),), dims=(("n", n),))


def request(spec, at, seed=0):
    default = CompiledCandidate(configuration=space.default(spec), image=b"", digest="0")
    return PrepareRequest(spec=spec, problem=at, default=default, seed=seed, reference="none")


def held(machine, memory, like):
    found = np.empty_like(like)
    machine.read(memory.address, found)
    return found


@pytest.mark.parametrize("n", [0, 1, 99, 100, 101, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_what_lies_on_the_machine_is_what_the_host_has(tmp_path, monkeypatch, n, seed):
    monkeypatch.setattr(data, "BLOCK", 101)
    machine = HostMachine()
    stored = data.inputs(loaded(tmp_path), problem(n), seed)
    found = Pools(machine).lay_out(stored)
    assert stored["x"].full.shape == (n,)
    np.testing.assert_array_equal(held(machine, found.inputs["x"].memory, stored["x"].full), stored["x"].full)


def test_further_problems_and_places_take_nothing_from_the_host(tmp_path):
    spec, machine = loaded(tmp_path), Counting()
    bench = Bench(machine)
    bench.prepare(request(spec, problem(1000)))
    assert machine.written == 1
    for n in (7, 1001, 70_000):
        bench.prepare(request(spec, problem(n)))
        bench.stage.move(1)
    assert machine.written == 1
    bench.prepare(request(spec, problem(2000), seed=1))
    assert machine.written == 2


def test_inputs_do_not_depend_on_what_was_prepared_before(tmp_path):
    spec, machine = loaded(tmp_path), HostMachine()
    fresh = Stage(machine, request(spec, problem(5000)), Pools(machine)).workspace.array(0, "x")
    data._pooled.cache_clear()
    pools = Pools(machine)
    for n, dtype, seed in ((5000, "float16", 0), (5001, "float32", 0), (5000, "float32", 3)):
        other = Stage(machine, request(spec, problem(n, dtype), seed), pools).workspace.array(0, "x")
        assert not np.array_equal(other[:5000], fresh)
    again = Stage(machine, request(spec, problem(5000)), pools).workspace.array(0, "x")
    np.testing.assert_array_equal(again, fresh)


def test_arrays_of_one_pool_differ(tmp_path):
    template = SCALE_TEMPLATE.replace("T }}* x,", "T }}* x, const {{ T }}* z,")
    spec = loaded(tmp_path, ('  { name = "a"', Z + '  { name = "a"'), template=template)
    stored = data.inputs(spec, problem(1000), 0)
    assert stored["x"].pool == stored["z"].pool
    assert not np.any(stored["x"].full == stored["z"].full)


def test_a_pool_that_was_written_to_is_made_anew(tmp_path):
    class Unsealed(SealablePages):
        def seal(self):
            pass

    class Unsealing(Counting):
        def allocate(self, nbytes):
            return Unsealed(nbytes)

    machine = Unsealing()
    pools, stored = Pools(machine), data.inputs(loaded(tmp_path), problem(1000), 0)
    (pool,) = pools.lay_out(stored).pools
    ctypes.memset(pool.memory.address, 0x3F, pool.nbytes)
    found = pools.lay_out(stored).inputs["x"].memory
    np.testing.assert_array_equal(held(machine, found, stored["x"].full), stored["x"].full)
    assert machine.written == 2


def test_holes_stay_wide_however_many_problems_are_prepared(tmp_path):
    spec, bench = loaded(tmp_path), Bench(HostMachine())
    for n in range(1, 500):
        bench.prepare(request(spec, problem(n)))
    assert {region.hole_bytes for region in bench.stage.workspace.sets[0].values()} == {HOLE_BYTES}
