"""The bundled kernels, as installed, against their references; and what verification finds in broken copies of them."""

from __future__ import annotations

import importlib.util
import random
from itertools import repeat

import ml_dtypes
import numpy as np
import pytest

from off_by_one import OFF_BY_ONE, TEMPLATES, broken
from pretuned.compile.pool import compile_all
from pretuned.compile.result import Binary
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.measure.runner import Runner
from pretuned.outcome import WrongResult
from pretuned.render import candidate
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from pretuned.spec.space import Problem
from pretuned.spec.tolerance import tolerances

pytestmark = pytest.mark.gpu
TRIALS = 20


def reference(name):
    module_spec = importlib.util.spec_from_file_location("reference", TEMPLATES / "reference.py")
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    return getattr(module, name)


def sizes(generator, dims):
    """0 and 1 in every dim, then odd and round sizes up to some millions of elements."""
    limit = 4_000_000 if dims == 1 else 3000
    edge = [(0,) * dims, (1,) * dims, (1, *(0,) * (dims - 1)), (*(0,) * (dims - 1), 7)]
    drawn = [tuple(2 * generator.randrange(limit // 2) + 1 for _ in range(dims)) for _ in range(8)]
    drawn += [tuple(generator.choice([32, 100, 128, 1000, 1024, 2048]) for _ in range(dims)) for _ in range(8)]
    return (edge + drawn)[:TRIALS]


def shifted(cupy, host, shift):
    """A contiguous copy on the GPU that begins so many elements behind an aligned address."""
    whole = cupy.asarray(np.concatenate([np.zeros(shift, host.dtype), host.ravel()]))
    return whole[shift:].reshape(host.shape)


@pytest.mark.parametrize("shifts", [(0, 0), (1, 1), (3, 2)], ids=str)
@pytest.mark.parametrize("name", ["axpby", "reduce_sum", "row_softmax"])
def test_a_bundled_kernel_agrees_with_its_reference(name, shifts, capsys):
    cupy = pytest.importorskip("cupy")
    kernels = pytest.importorskip("pretuned.kernels", reason="pretuned is not installed, so nothing is baked")
    spec = load_folder(TEMPLATES)[name]
    generator = random.Random(f"{name}")
    draw = np.random.default_rng(7)
    for dtype in spec.specialisations["T"].dtypes:
        numpy_type = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        worst = 0.0
        for shape in sizes(generator, len(spec.dims)):
            hosts = [draw.standard_normal(shape).astype(np.float32).astype(numpy_type) for _ in spec.inputs]
            scalars = [2.0, -0.5][: len(spec.scalars)]
            out = getattr(kernels, name)(*map(shifted, repeat(cupy), hosts, shifts), *scalars)
            values = {argument.name: host.astype(np.float64) for argument, host in zip(spec.inputs, hosts, strict=True)}
            values |= {scalar.name: value for scalar, value in zip(spec.scalars, scalars, strict=True)}
            wanted = np.asarray(reference(name)(**values), np.float64)
            found = cupy.asnumpy(out).astype(np.float64).reshape(wanted.shape)
            rtol, atol = tolerances(spec, spec.outputs[0], (("T", dtype),))
            if name == "reduce_sum":  # random reals, unlike the integers of tuning: the error grows with what is added
                atol = 2e-6 * float(np.abs(values["x"]).sum())
            elif atol is None:
                atol = rtol * float(np.sqrt(np.mean(wanted**2))) if wanted.size else 0.0
            if wanted.size:
                allowed = atol + rtol * np.abs(wanted) + 1e-300
                worst = max(worst, float((np.abs(found - wanted) / allowed).max()))
        with capsys.disabled():
            print(f"\n{name} {dtype}: largest error is {worst:.3f} of the tolerance over {TRIALS} sizes", end="")
        assert worst <= 1.0


def entry_of(spec, problem, configuration, architecture):
    module = candidate(spec, problem.specialisation, configuration).source
    binary = compile_all([module], architecture)[module.key]
    assert isinstance(binary, Binary), binary
    return CompiledCandidate.of(configuration, binary)


@pytest.mark.parametrize("name", OFF_BY_ONE)
def test_an_off_by_one_in_a_template_is_found(name, tmp_path, capsys):
    spec = broken(tmp_path / name, name)
    sizes = dict.fromkeys(spec.free_dims, 1023)
    problem = Problem(specialisation=(("T", "float32"),), dims=space.pairs(sizes))
    with Runner() as gpu:
        architecture = f"sm_{gpu.facts.compute_capability}"
        default = entry_of(spec, problem, space.default(spec), architecture)
        assert gpu.prepare(PrepareRequest(spec=spec, problem=problem, default=default)) is None
        for implementation in spec.all_implementations:
            entry = entry_of(spec, problem, space.default_of(spec, implementation), architecture)
            failure = gpu.verify(entry).failure
            with capsys.disabled():
                print(f"\n{name} {implementation}: {failure}", end="")
            assert isinstance(failure, WrongResult)
