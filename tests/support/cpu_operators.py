"""Generated packages with operators of PyTorch that run on the CPU: by the references of the specs, in NumPy."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import sample
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.measure import data
from pretuned.measure.functions import arrays_of, call, together
from pretuned.spec import space
from pretuned.spec.scalars import passed_values
from pretuned.spec.space import Problem, pairs

torch = pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
SMALL = {
    "half": 8,
    "groups": 3,
    "m": 24,
    "nonzeros": 40,
    "topk": 2,
    "experts": 8,
    "h": 9,
    "w": 12,
    "limit": 64,
}  # of dims; others are 16


def write(folder, name, specs, namespace):
    """Write the package `NAME.tuned` of specs, without binaries."""
    sample.write({"__init__.py": b""}, folder / name)
    content = files(plan(specs, [], {}, cubins=False), {}, version="0.0.0", torch=namespace)
    sample.write(content, folder / name / "tuned")


def overloads(namespace, name):
    """Return the operators of a kernel."""
    packet = getattr(getattr(torch.ops, namespace), name)
    return [getattr(packet, overload) for overload in packet.overloads()]


def run_on_the_cpu(tuned, specs, namespace):
    """Give each operator of a package its reference for tensors on the CPU; what is returned has to be kept."""
    library = torch.library.Library(namespace, "IMPL")
    for name, spec in specs.items():
        for operator in overloads(namespace, name):
            overload = "" if operator._overloadname == "default" else f".{operator._overloadname}"
            library.impl(f"{name}{overload}", _by_reference(tuned, spec, operator), "CPU")
    return library


def _by_reference(tuned, spec, operator):
    kernel = importlib.import_module(f"{tuned.__name__}._runtime").KERNELS[spec.name]
    operators = importlib.import_module(f"{tuned.__name__}._runtime.torch_ops.operators")
    fakes = importlib.import_module(f"{tuned.__name__}._runtime.torch_ops.fakes")
    arrays = importlib.import_module(f"{tuned.__name__}._runtime.arrays")
    names = [argument.name for argument in operator._schema.arguments]

    def run(*arguments, **keywords):
        named = operators.with_structs(kernel, {**dict(zip(names, arguments, strict=False)), **keywords})
        taken, words = operators._taken_apart(kernel, named)
        views = [None if t is None else fakes._view(kernel, a, t) for a, t in zip(kernel.arrays, taken, strict=True)]
        leading, flat = arrays.collapse(kernel, views)
        given = {array.name: view for array, view in zip(kernel.arrays, flat, strict=True) if view is not None}
        known = fakes._known(kernel, given, words)
        values = {name: _number(value) for name, value in named.items()}
        for one in spec.whole(spec.arrays):
            values[one.name] = _wide(
                named.get(one.name), [view.shape for name, view in given.items() if name == one.name]
            )
        values |= {one.each: known[f"{one.each}[]"] for one in spec.arguments if one.each}
        problem = Problem(
            specialisation=pairs({name: known[name] for name in kernel.specialisation_names}),
            dims=pairs({name: known[name] for name in kernel.dims}),
        )
        outputs = spec.whole(spec.outputs)
        target = spec.verify.reference
        found = arrays_of(target, call(spec, target, problem, values), [o.name for o in outputs], all_of_them=True)
        new = []
        for one in outputs:
            dtype = getattr(torch, str(known.get(one.dtype, one.dtype)))
            if named.get(one.name) is not None:
                _write(named[one.name], found[one.name])
            elif one.name not in names:
                lead = leading if leading is not None and one.leading is not None else None
                new.append(_made(found[one.name], dtype, lead))
        return operators._returned(new)

    return run


def _number(value):
    return SimpleNamespace(**value) if isinstance(value, dict) else value


def _wide(tensor, shapes):
    if tensor is None or isinstance(tensor, (list, tuple)):
        return tensor and [_wide(one, [one.shape]) for one in tensor]
    wide = tensor.detach().reshape(shapes[0]) if shapes else tensor.detach()
    return np.array((wide.double() if wide.is_floating_point() else wide).numpy())


def _write(output, result):
    for one, values in zip(
        *((output, result) if isinstance(output, (list, tuple)) else ([output], [result])), strict=True
    ):
        one.copy_(torch.from_numpy(np.ascontiguousarray(values)).reshape(one.shape))


def _made(result, dtype, leading):
    if isinstance(result, (list, tuple)):
        return [_made(one, dtype, leading) for one in result]
    made = torch.from_numpy(np.array(result, order="C")).to(dtype)
    return made if leading is None else made.reshape(*leading, *made.shape[1:])


def arguments(spec, specialisation, device="cpu", **sizes):
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
            integers = bits.view(f"int{8 * min(bits.itemsize, 8)}")  # PyTorch has no wider ones
            found[argument.name] = torch.from_numpy(integers).to(device).view(getattr(torch, dtype))
    found = together(spec, found)
    for scalar in spec.scalars:
        if isinstance(scalar.passed, dict):
            found |= {f"{scalar.name}_{name}": value for name, value in scalar.passed.items()}
        else:
            found[scalar.name] = passed_values(spec, problem)[scalar.name]
    optional = {argument.presence for argument in spec.inputs if argument.optional}
    found |= {name: known[name] for name, one in spec.specialisations.items() if one.values and name not in optional}
    found |= {name: dims[name] for name, dim in spec.dims.items() if dim.keyword}
    return found


def check(namespace, spec, specialisation, device):
    """Have PyTorch check the operators of a kernel: schema, fakes, and tracing with open sizes."""
    new = None
    for operator in overloads(namespace, spec.name):
        given = arguments(spec, specialisation, device)
        if operator._overloadname == "out":
            outputs = [one.name for one in spec.whole(spec.outputs) if one.role == "out"]
            several = new if len(outputs) > 1 else (new,)
            given |= {name: _empty(one) for name, one in zip(outputs, several, strict=True)}
        named = {one.name: given.get(one.name) for one in operator._schema.arguments}
        checks = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
        if "float8" not in str(spec.arrays):  # PyTorch cannot compare that with itself there
            checks += ("test_schema",)
        torch.library.opcheck(operator, (), named, test_utils=checks)
        new = operator(**named)


def _empty(result):
    return [torch.empty_like(one) for one in result] if isinstance(result, list) else torch.empty_like(result)
