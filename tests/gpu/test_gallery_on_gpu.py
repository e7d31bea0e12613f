"""examples/gallery on a GPU: configurations verified, and calls with arrays of CuPy and of PyTorch."""

from __future__ import annotations

import importlib
import random
import shutil
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from pretuned.cli import main
from pretuned.compile.pool import compile_all
from pretuned.compile.result import Binary
from pretuned.measure import data
from pretuned.measure.functions import together
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.measure.runner import Runner
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from pretuned.spec.tolerance import tolerances

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu
KERNELS = Path(__file__).parents[2] / "examples" / "gallery" / "kernels"
SPECS = load_folder(KERNELS)
SAMPLED = 5
PYPROJECT = """
[tool.hatch.build.hooks.pretuned]
module = "gallery_on_gpu/tuned"
"""


def chosen(spec, problem, facts):
    """The default, and others that are legal at the problem."""
    first, *rest = space.configurations(spec, problem, facts)
    return [first, *random.Random(spec.name).sample(rest, min(SAMPLED, len(rest)))]


@pytest.mark.parametrize("name", SPECS)
def test_the_default_and_others_are_right(name):
    spec = SPECS[name]
    with Runner() as gpu:
        for specialisation in space.specialisations(spec):
            problem = next(iter(space.problems(spec, specialisation)))
            configurations = chosen(spec, problem, gpu.facts)
            sources = [source_of(spec, specialisation, one) for one in configurations]
            binaries = compile_all(sources, f"sm_{gpu.facts.compute_capability}")
            entries = []
            for one, source in zip(configurations, sources, strict=True):
                binary = binaries[source.key]
                assert isinstance(binary, Binary), (one, binary)
                entries.append(CompiledCandidate.of(one, binary))
            assert gpu.prepare(PrepareRequest(spec=spec, problem=problem, default=entries[0])) is None
            for entry in entries:
                assert gpu.verify(entry).failure is None, entry.configuration


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """The gallery with its defaults, without a tuning."""
    folder = tmp_path_factory.mktemp("gallery")
    (folder / "pyproject.toml").write_text(PYPROJECT)
    shutil.copytree(KERNELS, folder / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "gallery_on_gpu").mkdir()
    (folder / "gallery_on_gpu" / "__init__.py").write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PRETUNED_CACHE_DIR", str(folder / "cache"))
        patch.setenv("PRETUNED_MODE", "off")
        with pytest.raises(SystemExit) as ended:
            main(["bake"])
        assert ended.value.code == 0
        patch.syspath_prepend(str(folder))
        yield importlib.import_module("gallery_on_gpu.tuned")


def to_cupy(values, dtype):
    """Return values in storage type on the GPU as an array of the element type."""
    return cupy.asarray(values).view(getattr(ml_dtypes, dtype, dtype))


def signed(values):
    """The same bytes as integers with a sign, which every PyTorch exchanges with NumPy."""
    return values.view(f"int{8 * values.itemsize}")


def to_torch(values, dtype):
    torch = sys.modules["torch"]
    return torch.from_numpy(signed(values)).cuda().view(getattr(torch, dtype))


def from_cupy(array, dtype):
    return data.decode(cupy.asnumpy(array.view(data.storage(dtype))), dtype)


def from_torch(tensor, dtype):
    integers = getattr(sys.modules["torch"], f"int{8 * tensor.element_size()}")
    return data.decode(tensor.view(integers).cpu().numpy().view(data.storage(dtype)), dtype)


@pytest.fixture(params=["cupy", "torch"])
def library(request):
    pytest.importorskip(request.param)
    return (to_cupy, from_cupy) if request.param == "cupy" else (to_torch, from_torch)


def passed(spec, problem, stored, to):
    """What a call of the generated function is passed by position, by keyword, and the arrays that it writes to."""
    dtypes = {argument.name: space.dtype_of(spec, argument.dtype, problem.specialisation) for argument in spec.arrays}
    arrays = {name: to(np.ascontiguousarray(one.full), dtypes[name]) for name, one in stored.items()}
    arrays = together(spec, arrays)
    by_position = [arrays[argument.name] for argument in spec.whole(spec.required_inputs)]
    by_position += [scalar.passed for scalar in spec.scalars]
    optional = [argument for argument in spec.inputs if argument.optional]
    keywords = {argument.name: arrays[argument.name] for argument in optional if argument.name in arrays}
    told = {argument.presence for argument in optional}  # by the arrays that a call brings
    chosen = {name for name, one in spec.specialisations.items() if one.values is not None} - told
    keywords |= {name: value for name, value in problem.specialisation if name in chosen}
    keywords |= {name: value for name, value in problem.dims if spec.dims[name].keyword}
    written = [arrays[argument.name] for argument in spec.outputs if argument.role == "inout"]
    return by_position, keywords, written


@pytest.mark.parametrize("name", SPECS)
def test_calls_are_right(name, tuned, library):
    to, back = library
    spec = SPECS[name]
    for specialisation in space.specialisations(spec):
        problem = next(iter(space.problems(spec, specialisation)))
        stored = data.inputs(spec, problem, 1)
        wanted = data.reference(spec, problem, stored)
        for _ in range(3):  # the later ones go by the fast path
            arguments, keywords, written = passed(spec, problem, stored, to)
            found = getattr(tuned, name)(*arguments, **keywords)
            several = found if isinstance(found, tuple) else (found,)
            outputs = [array for one in several for array in (one if isinstance(one, list) else [one])]
            assert len(outputs) == len(wanted)
            assert all(any(output is array for output in outputs) for array in written)
        arguments = [argument for argument in spec.outputs if argument.name in wanted]  # of a list, those it has
        for argument, output in zip(arguments, outputs, strict=True):
            dtype = space.dtype_of(spec, argument.dtype, specialisation)
            ref = wanted[argument.name]
            out = back(output, dtype).reshape(ref.shape).astype(np.float64)
            rtol, atol = tolerances(spec, argument, specialisation)
            if atol is None:
                atol = rtol * float(np.sqrt(np.sum(ref.astype(float) ** 2) / max(1, ref.size)))
            assert (np.abs(out - ref) <= atol + rtol * abs(ref)).all(), argument.name
