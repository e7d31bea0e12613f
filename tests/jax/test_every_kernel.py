"""Every kernel that there is, of every form: a call is traced and lowered for a GPU, with the shapes that it has."""

import importlib
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import sample
from kernel_folders import specs_in
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.measure import data
from pretuned.measure.functions import together
from pretuned.runtime.types import DTYPES
from pretuned.spec import space
from pretuned.spec.places import telling_outputs
from pretuned.spec.space import Problem, pairs

jax = pytest.importorskip("jax")

enable_x64 = (jax if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental")).enable_x64
ROOT = Path(__file__).parents[2]
FOLDERS = [ROOT / "templates", ROOT / "examples/gallery/kernels"]
FOLDERS += [
    ROOT / "tests/data" / name
    for name in ("arrays", "complex", "complex_scalars", "defaults", "float8", "lists", "scalars", "shapes", "structs")
]
SMALL = {"half": 8, "groups": 3, "m": 24, "nonzeros": 40, "topk": 2, "experts": 8, "h": 9, "w": 12, "limit": 64}
KERNELS = [(folder, name) for folder in FOLDERS for name in sorted(file.stem for file in folder.glob("*.toml"))]


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The packages of all folders, by these."""
    folder = tmp_path_factory.mktemp("every")
    sys.path.insert(0, str(folder))
    found = {}
    for place, kernels in enumerate(FOLDERS):
        specs = specs_in(kernels)
        content = files(plan(specs, [], {}, cubins=False), {}, version="0.0.0", jax=True)
        sample.write(content, folder / f"jax_every{place}")
        importlib.invalidate_caches()
        found[kernels] = specs, importlib.import_module(f"jax_every{place}.jax")
    yield found
    sys.path.remove(str(folder))


def problem_of(spec, specialisation):
    known = dict(specialisation)
    dims = {name: known.get(name, SMALL.get(name, 16)) for name in spec.dims}
    return Problem(specialisation=specialisation, dims=pairs(dims))


def call_of(spec, problem):
    """Return the arrays of a call and its other arguments, by name, and the names of all arrays."""
    known = dict(problem.specialisation) | dict(problem.dims)
    stored, arrays = data.inputs(spec, problem, 1), {}
    for argument in spec.inputs:
        if argument.name in stored:
            dtype = DTYPES[space.dtype_of(spec, argument.dtype, problem.specialisation)]
            arrays[argument.name] = jax.ShapeDtypeStruct(stored[argument.name].full.shape, dtype.numpy())
    values, rest = space.environment(spec, problem), {}
    for scalar in spec.scalars:
        passed = scalar.passed
        fields = {name: number(one, values) for name, one in passed.items()} if isinstance(passed, dict) else None
        rest[scalar.name] = number(passed, values) if fields is None else SimpleNamespace(**fields)
    optional = {argument.presence for argument in spec.inputs if argument.optional}
    rest |= {name: known[name] for name, one in spec.specialisations.items() if one.values and name not in optional}
    rest |= {name: known[name] for name, dim in spec.dims.items() if dim.keyword}
    return together(spec, arrays), rest, set(arrays)


def number(passed, values):
    return passed.evaluate(values) if hasattr(passed, "evaluate") else passed


@pytest.mark.parametrize(("folder", "name"), KERNELS, ids=[f"{folder.name}-{name}" for folder, name in KERNELS])
def test_a_call_of_each_specialisation_is_traced_with_the_shapes_that_the_spec_says(folder, name, packages):
    specs, tuned = packages[folder]
    spec, function = specs[name], getattr(tuned, name)
    chosen = list(space.specialisations(spec))
    for specialisation in dict.fromkeys([chosen[0], chosen[-1]]):
        problem = problem_of(spec, specialisation)
        arrays, rest, present = call_of(spec, problem)
        outputs = {
            one.name: jax.ShapeDtypeStruct(*reversed(form)) for one, form in written(spec, problem) if one.role == "out"
        }
        rest |= {one: outputs[one] for one in telling_outputs(spec)}
        with enable_x64(True):
            traced = jax.jit(lambda arrays, rest=rest: function(**arrays, **rest)).trace(arrays)
            found = [(str(one.dtype), one.shape) for one in jax.tree.leaves(traced.out_info)]
            text = traced.lower(lowering_platforms=("cuda",)).as_text()
        if not spec.lists:  # whose arrays have extents of their own
            assert found == [form for _, form in written(spec, problem)]
        assert f"@{tuned.__package__}.{name}(" in text
        assert len(re.findall("output_operand_alias<", text)) == sum(
            array.role == "inout" and array.name in present for array in spec.inputs
        )


def written(spec, problem):
    """Return the arrays that a call writes, each with dtype and shape, in launch order."""
    absent = {one.name for one in spec.absent(problem.specialisation)}
    values = space.environment(spec, problem)
    return [
        (one, (space.dtype_of(spec, one.dtype, problem.specialisation), space.shape_of(one, values)))
        for one in spec.outputs
        if one.name not in absent
    ]
