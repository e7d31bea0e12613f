"""Cooperative launches, clusters and dependent launches: verified, timed, called, captured and replayed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from baking import baked, texts
from pretuned.compile.pool import compile_all
from pretuned.compile.result import Binary
from pretuned.measure.launch import launches, residency_by, scalars
from pretuned.measure.requests import CompiledCandidate, PrepareRequest, RaceRequest
from pretuned.outcome import LaunchFailed, WrongResult
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.loader import load

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu
FOLDER = Path(__file__).parent / "launches"
TURNS = 50


@pytest.fixture(scope="module")
def machine():
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - takes the GPU

    return CudaMachine(0)


@pytest.fixture(scope="module")
def of(machine):
    """What compiles every configuration of a kernel, at its specialisation, and prepares its problems."""
    from pretuned.measure.bench import Bench  # noqa: PLC0415 - beside the machine

    def of(name):
        if machine.facts.compute_capability < 90 and name != "grid_sum":
            pytest.skip("compute capability 9.0 brought what it uses")
        spec = load(FOLDER / f"{name}.toml")
        configurations = list(space.combinations("main", spec.all_implementations["main"]))
        sources = {one: source_of(spec, (), one) for one in configurations}
        architecture = f"sm_{machine.facts.compute_capability}"
        made = compile_all(list(sources.values()), architecture, workers=2)
        binaries = {one: made[source.key] for one, source in sources.items()}
        assert all(isinstance(one, Binary) for one in binaries.values()), binaries
        entries = {one: CompiledCandidate.of(one, binary) for one, binary in binaries.items()}
        bench = Bench(machine)

        def prepare(problem):
            bench.prepare(PrepareRequest(spec=spec, problem=problem, default=entries[space.default(spec)]))
            return bench

        return spec, binaries, entries, prepare

    return of


@pytest.mark.parametrize("name", ["grid_sum", "cluster_rows"])
def test_every_configuration_is_right_and_can_be_timed_in_a_graph(of, name):
    spec, _, entries, prepare = of(name)
    for problem in space.all_problems(spec):
        bench = prepare(problem)
        assert {one: bench.verify(entry).failure for one, entry in entries.items()} == dict.fromkeys(entries)
        raced = bench.race(
            RaceRequest(entries=tuple(entries.values()), estimates_us=(20.0,) * len(entries), rounds=3, judge=True)
        )
        assert raced.failures == (None,) * len(entries)
        assert min(map(min, raced.times_us)) > 0.5


def test_a_launch_that_does_not_wait_is_found_and_one_that_does_is_right(of):
    spec, _, entries, prepare = of("early")
    found = []
    for problem in space.all_problems(spec):
        bench = prepare(problem)
        for configuration, entry in entries.items():
            bug = dict(configuration.values)["bug"]
            failures = [bench.verify(entry).failure for _ in range(TURNS if bug == 0 else 3)]
            kinds = {type(failure) for failure in failures}
            assert kinds == {WrongResult if bug else type(None)}, (bug, str(problem), failures)
            found += [failure.message for failure in failures if failure is not None]
    assert any("execute cudaGridDependencySynchronize()" in message for message in found), found


def test_early_launches_are_raced_in_a_graph(of):
    spec, _, entries, prepare = of("early")
    (good,) = [entry for one, entry in entries.items() if dict(one.values)["bug"] == 0]
    bench = prepare(space.all_problems(spec)[-1])
    raced = bench.race(RaceRequest(entries=(good,), estimates_us=(10.0,), rounds=5, judge=True))
    assert raced.failures == (None,)


def test_what_the_device_holds_is_what_its_facts_give(machine, of):
    spec, binaries, _, _ = of("grid_sum")
    problem = space.all_problems(spec)[-1]
    for configuration, binary in binaries.items():
        by_facts = residency_by(machine.facts, binary.resources)
        (launch,) = launches(spec, problem, configuration, machine.facts, by_facts)
        assert machine.held(binary.image, launch) == by_facts(launch) == launch.grid[0]


def test_a_cooperative_grid_beyond_what_the_device_holds_is_refused(machine, of, tmp_path):
    from pretuned.measure.machine import Refused  # noqa: PLC0415 - beside the machine

    spec, binaries, entries, prepare = of("grid_sum")
    problem, default, facts = space.all_problems(spec)[-1], space.default(spec), machine.facts
    image = binaries[default].image
    folder = shutil.copytree(FOLDER, tmp_path / "kernels")
    text = (folder / "grid_sum.toml").read_text()
    (folder / "grid_sum.toml").write_text(text.replace("min(ceil_div(n, 4 * block), device.resident_blocks)", "100000"))
    planned = launches(load(folder / "grid_sum.toml"), problem, default, facts, partial(machine.held, image))
    assert isinstance(planned, LaunchFailed)
    assert "a cooperative grid of 100000 blocks; this device holds" in planned.message

    (launch,) = launches(spec, problem, default, facts, partial(machine.held, image))
    bench = prepare(problem)
    buffers = bench.load(entries[default]).buffers
    kernel = machine.load(
        image, [replace(launch, grid=(100_000, 1, 1))], scalars(spec, problem, default, facts), types={}
    )
    with pytest.raises(Refused, match="COOPERATIVE_LAUNCH_TOO_LARGE"):  # what the driver says where nobody has looked
        kernel.launch(buffers, 0, machine.stream.ptr)
    assert bench.verify(entries[default]).failure is None


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The kernels, baked for the device at hand."""
    capability = cupy.cuda.Device(0).compute_capability
    kernels = texts(FOLDER, ["grid_sum", "early", *["cluster_rows"] * (int(capability) >= 90)])
    return baked(tmp_path_factory.mktemp("early"), "early_kernels", kernels, capability, tuned=True)


def calls(package):
    """Yield a call of each kernel by name, and what it gives."""
    x = cupy.random.default_rng(5).standard_normal(1_000_000, dtype=cupy.float32)
    wide = cupy.asnumpy(x).astype(np.float64)
    ones = cupy.ones(10_000_000, dtype=cupy.float32)
    yield "grid_sum", (ones,), np.array([1e7])
    yield "early", (x,), wide**2 + np.roll(wide, -1) ** 2
    if hasattr(package, "cluster_rows"):
        yield "cluster_rows", (x.reshape(100, 10_000),), wide.reshape(100, 10_000).sum(1)


def close(found, wanted):
    np.testing.assert_allclose(cupy.asnumpy(found), wanted, rtol=1e-3, atol=1e-2)


def test_calls_bound_calls_and_graphs(package):
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for name, arguments, wanted in calls(package):
            kernel = getattr(package, name)
            kernel.prepare()
            for _ in range(TURNS):
                out = kernel(*arguments)
            close(out, wanted)
            out[...] = 0
            bound = kernel.bind(*arguments, out=out)
            bound()
            close(out, wanted)
            out[...] = 0
            stream.begin_capture()
            kernel(*arguments, out=out)
            bound()
            graph = stream.end_capture()
            for _ in range(3):
                out[...] = 0
                graph.launch(stream)
                close(out, wanted)


def test_a_writer_ahead_on_the_stream_is_waited_for(package):
    x = cupy.zeros(1_000_000, dtype=cupy.float32)
    for value in range(TURNS):
        x.fill(value)
        out = package.early(x)
        x.fill(-1)
        assert bool((out == 2.0 * value * value).all()), value


def test_every_gpu(package):
    for device in range(cupy.cuda.runtime.getDeviceCount()):
        with cupy.cuda.Device(device):
            for name, arguments, wanted in calls(package):
                for _ in range(4):
                    out = getattr(package, name)(*arguments)
                close(out, wanted)
