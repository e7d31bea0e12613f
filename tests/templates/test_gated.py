"""gated and its gradient on the host device: activations to their last digits, special values, arrays anywhere."""

import importlib.util
import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from kernel_folders import bundled
from pretuned.compile.host import HOST, compile_source, compiler
from pretuned.compile.result import Binary
from pretuned.device.host import FACTS
from pretuned.measure.host.kernel import HostKernel, Manner
from pretuned.measure.launch import launches, scalars
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.space import Configuration, Problem

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")
TEMPLATES = Path(__file__).parents[2] / "templates"
SPECS = {name: bundled()[name] for name in ("gated", "gated_backward")}
ACTIVATIONS = ["silu", "gelu", "gelu_tanh", "relu", "sigmoid"]
TYPES = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16}
INF, NAN, BAND = math.inf, math.nan, 16
CONFIGURATION = {"block": 128, "bytes": 16, "unroll": 2}


@pytest.fixture(scope="module")
def reference():
    found = importlib.util.spec_from_file_location("bundled_reference", TEMPLATES / "reference.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def call(name, activation, dtype, inputs, shifts=()):
    """Return the outputs, by name, of arrays that begin so many elements behind an aligned address, in float64."""
    spec, specialisation = SPECS[name], (("T", dtype), ("activation", activation))
    configuration = Configuration(implementation="main", values=space.pairs(CONFIGURATION))
    count = len(next(iter(inputs.values())))
    problem = Problem(specialisation=specialisation, dims=(("n", count),))
    binary = compile_source(source_of(spec, specialisation, configuration), HOST)
    assert isinstance(binary, Binary), binary
    parts, addresses = {}, {}
    for argument in spec.arrays:
        whole = np.full(count + 4 * BAND, 77, TYPES[dtype])
        begin = BAND + -(whole.ctypes.data // whole.itemsize) % BAND + dict(shifts).get(argument.name, 0)
        parts[argument.name] = whole, begin
        addresses[argument.name] = whole.ctypes.data + begin * whole.itemsize
        if argument.name in inputs:
            whole[begin : begin + count] = inputs[argument.name]
    kernel = HostKernel(
        binary.image,
        launches(spec, problem, configuration, FACTS),
        scalars(spec, problem, configuration, FACTS),
        types=dict.fromkeys(parts, dtype),
        manner=Manner(),
    )
    kernel.launch(addresses)
    kernel.unload()
    for whole, begin in parts.values():
        assert (np.delete(whole, np.s_[begin : begin + count]) == 77).all()
    found = {one.name: parts[one.name] for one in spec.outputs}
    return {output: whole[begin : begin + count].astype("d") for output, (whole, begin) in found.items()}


def exact(activation, gate):
    """Return an activation in float64, to the last digits also where it is small."""
    if activation == "gelu":
        return gate * math.erfc(-gate / math.sqrt(2)) / 2
    if activation == "relu":
        return max(gate, 0.0)
    outer = math.sqrt(8 / math.pi) * (gate + 0.044715 * gate**3) if activation == "gelu_tanh" else gate
    share = 1 / (1 + math.exp(-outer))
    return share if activation == "sigmoid" else gate * share


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_activation_keeps_its_digits_where_it_is_small(activation):
    gate = np.linspace(-8, 8, 4097).astype(np.float32)
    found = call("gated", activation, "float32", {"gate": gate, "x": np.ones_like(gate)})["out"]
    wanted = np.array([exact(activation, float(one)) for one in gate])
    off = np.abs(found - wanted) / np.maximum(np.abs(wanted), 1e-30)
    assert off[np.abs(gate) <= 2].max() < 1e-6
    assert off.max() < 1e-5  # the argument of an exponential may be off by 2^-24 of itself, which is up to 67


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_reference_has_the_slopes_of_its_values(reference, activation):
    gate = np.random.default_rng(1).normal(0, 3, 20000)
    gate, step = gate[np.abs(gate) > 0.001], 1e-4
    below, above = (reference.gated(gate + off, np.ones_like(gate), activation) for off in (-step, step))
    arrays = {"grad_out": np.full_like(gate, 2.0), "gate": gate, "x": np.full_like(gate, 3.0)}
    found = reference.gated_backward(**arrays, activation=activation)
    np.testing.assert_allclose(found["grad_gate"], 3 * (above - below) / step, rtol=0, atol=2e-4)
    np.testing.assert_allclose(found["grad_x"], 2 * reference.gated(gate, np.ones_like(gate), activation))
    np.testing.assert_allclose(
        reference.gated(gate, np.ones_like(gate), activation), [exact(activation, one) for one in gate], atol=1e-8
    )


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_special_values_become_what_the_formulas_make_of_them(reference, activation, dtype):
    largest = float(ml_dtypes.finfo(TYPES[dtype]).max)
    values = np.array([0.0, -0.0, 1.5, -1.5, 3e-5, -100.0, 100.0, largest, -largest, INF, -INF, NAN], TYPES[dtype])
    gate, x = (one.ravel() for one in np.meshgrid(values, values[[0, 2, 3, 9, 11]]))
    arrays = {"gate": gate, "x": x, "grad_out": np.where(np.arange(len(x)) % 7, 1.5, INF).astype(TYPES[dtype])}
    for name, spec in SPECS.items():
        inputs = {one.name: arrays[one.name] for one in spec.inputs}
        found = call(name, activation, dtype, inputs)
        given = {one: array.astype("d") for one, array in inputs.items()}
        wanted = getattr(reference, name)(**given, activation=activation)
        for output, array in (wanted if isinstance(wanted, dict) else {"out": wanted}).items():
            # What is too small for float32 has met an infinity as 0.
            tiny = np.isinf(array) & np.isnan(found[output]) & (np.abs(given["gate"]) >= 100)
            with np.errstate(over="ignore"):
                rounded = np.where(tiny, NAN, array).astype(TYPES[dtype]).astype("d")
            np.testing.assert_allclose(found[output], rounded, rtol=1e-2, atol=1e-6, err_msg=f"{name} {output}")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", SPECS)
def test_arrays_begin_anywhere_and_end_anywhere(reference, name, dtype):
    draw = np.random.default_rng(3)
    names = [one.name for one in SPECS[name].arrays]
    alike = [dict.fromkeys(names, shift) for shift in (0, 1, 3)]
    for count, shifts in zip((1, 5, 7, 1024, 1030, 3001), [*alike, *alike[1:], {"gate": 1, "x": 2}], strict=True):
        inputs = {one.name: draw.normal(0, 2, count).astype(TYPES[dtype]) for one in SPECS[name].inputs}
        wanted = getattr(reference, name)(**{one: a.astype("d") for one, a in inputs.items()}, activation="silu")
        found = call(name, "silu", dtype, inputs, shifts.items())
        for output, array in (wanted if isinstance(wanted, dict) else {"out": wanted}).items():
            np.testing.assert_allclose(found[output], array, rtol=1e-2, atol=1e-5)
