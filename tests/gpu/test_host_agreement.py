"""The host device and the GPU give the same results for every bundled kernel, within the specs' tolerances."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from pretuned.compile import host
from pretuned.compile.gpu_only import GPU_ONLY
from pretuned.compile.host import CPP
from pretuned.compile.nvrtc import NVRTC
from pretuned.compile.pool import compile_all
from pretuned.compile.result import Binary
from pretuned.measure.bench import Bench
from pretuned.measure.data import decode
from pretuned.measure.host.machine import HostMachine
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.outcome import detail
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from pretuned.spec.space import Problem, admitted

pytestmark = pytest.mark.gpu
SPECS = load_folder(Path(__file__).parents[2] / "templates")
PROBLEMS = 20
ELEMENTS = {1: 300_000, 2: 500, 3: 150, 4: 24}  # at most, along each dim, by their number


def problems(spec):
    """Random ones, in turn for every specialisation."""
    generator = random.Random(spec.name)
    specialisations = list(space.specialisations(spec))
    while True:
        specialisation = specialisations[generator.randrange(len(specialisations))]
        most = ELEMENTS[len(spec.free_dims)]
        dims = {name: generator.randrange(1, most) for name in spec.free_dims}
        problem = Problem(specialisation=specialisation, dims=space.pairs(dims))
        if admitted(spec, problem):
            yield problem


def chosen(spec, problem, facts):
    """A random configuration that is legal on both devices."""
    legal = [
        c for c in space.configurations(spec, problem, facts) if space.legal(spec, problem, c, HostMachine().facts)
    ]
    return random.Random(str(problem)).choice(legal)


def outputs(machine, spec, problem, configuration, binary):
    bench = Bench(machine)
    entry = CompiledCandidate.of(configuration, binary)
    bench.prepare(PrepareRequest(spec=spec, problem=problem, default=entry))
    verified = bench.verify(entry)
    assert verified.failure is None
    return {
        o.name: decode(bench.stage.workspace.array(0, o.name), o_dtype(spec, o, problem)) for o in spec.outputs
    }, bench


def o_dtype(spec, argument, problem):
    return space.dtype_of(spec, argument.dtype, problem.specialisation)


@pytest.mark.parametrize("name", SPECS)
def test_host_and_gpu_agree(name, capsys):
    pytest.importorskip("cupy")
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - imports CuPy

    spec, gpu = SPECS[name], CudaMachine(0)
    architecture = f"sm_{gpu.facts.compute_capability}"
    drawn = problems(spec)
    cases = [(problem, chosen(spec, problem, gpu.facts)) for problem, _ in zip(drawn, range(PROBLEMS), strict=False)]
    modules = [source_of(spec, problem.specialisation, c) for problem, c in cases]
    on_host = compile_all(modules, host.HOST, toolchain=CPP)
    if all(GPU_ONLY in detail(made) for made in on_host.values() if not isinstance(made, Binary)):
        cases = [case for case, module in zip(cases, modules, strict=True) if isinstance(on_host[module.key], Binary)]
        modules = [module for module in modules if isinstance(on_host[module.key], Binary)]
    if not cases:
        pytest.skip(f"{name} is for GPUs only")
    on_gpu = compile_all(modules, architecture, toolchain=NVRTC)
    worst = 0.0
    for (problem, configuration), module in zip(cases, modules, strict=True):
        made = on_host[module.key], on_gpu[module.key]
        assert all(isinstance(one, Binary) for one in made), made
        ours, _ = outputs(HostMachine(), spec, problem, configuration, made[0])
        theirs, bench = outputs(gpu, spec, problem, configuration, made[1])
        for output, found in ours.items():
            rtol, atol = bench.stage.tolerance(output)
            allowed = atol + rtol * np.abs(theirs[output]) + 1e-300
            worst = max(worst, float((np.abs(found - theirs[output]) / allowed).max(initial=0.0)))
    with capsys.disabled():
        print(f"\n{name}: host and GPU differ by {worst:.3f} of the tolerance at {len(cases)} random problems", end="")
    assert worst <= 1.0
