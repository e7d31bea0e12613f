"""The kernels as operators: what PyTorch's own checks say of each, and torch.compile without breaks."""

from pathlib import Path

import numpy as np
import pytest

import cpu_operators
from pretuned.measure import data
from pretuned.measure.functions import together
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from pretuned.spec.space import Problem, pairs

torch = pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
NAMES = sorted(load_folder(ROOT / "examples/gallery/kernels") | load_folder(ROOT / "templates"))
SMALL = {"half": 8, "groups": 3, "m": 24, "nonzeros": 40, "topk": 2, "experts": 8, "h": 9, "w": 12, "limit": 64}


def arguments(spec, specialisation, **sizes):
    """Return the tensors, numbers and keywords of a call, by name, at small sizes."""
    known = dict(specialisation)
    dims = {name: known.get(name, sizes.get(name, SMALL.get(name, 16))) for name in spec.dims}
    problem = Problem(specialisation=specialisation, dims=pairs(dims))
    stored = data.inputs(spec, problem, 1)
    found = {}
    for argument in spec.inputs:
        if argument.name in stored:
            dtype = space.dtype_of(spec, argument.dtype, specialisation)
            bits = np.ascontiguousarray(stored[argument.name].full)
            found[argument.name] = torch.from_numpy(bits.view(f"int{8 * bits.itemsize}")).view(getattr(torch, dtype))
    found = together(spec, found)
    for scalar in spec.scalars:
        if isinstance(scalar.passed, dict):
            found |= {f"{scalar.name}_{name}": value for name, value in scalar.passed.items()}
        else:
            found[scalar.name] = scalar.passed
    optional = {argument.presence for argument in spec.inputs if argument.optional}
    found |= {name: known[name] for name, one in spec.specialisations.items() if one.values and name not in optional}
    found |= {name: dims[name] for name, dim in spec.dims.items() if dim.keyword}
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_passes_what_pytorch_checks(name, gallery, specs):
    spec = specs[name]
    specialisation = next(iter(space.specialisations(spec)))
    new = None
    for operator in cpu_operators.overloads(gallery[1], name):
        given = arguments(spec, specialisation)
        if operator._overloadname == "out":
            outputs = [one.name for one in spec.whole(spec.outputs) if one.role == "out"]
            several = new if len(outputs) > 1 else (new,)
            empty = [
                [torch.empty_like(t) for t in one] if isinstance(one, list) else torch.empty_like(one)
                for one in several
            ]
            given |= dict(zip(outputs, empty, strict=True))
        taken = [one.name for one in operator._schema.arguments]
        named = {name: given.get(name) for name in taken}
        checks = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
        if name != "quantise_fp8":  # PyTorch cannot compare float8 with itself there
            checks += ("test_schema",)
        torch.library.opcheck(operator, (), named, test_utils=checks)
        new = operator(**named)
