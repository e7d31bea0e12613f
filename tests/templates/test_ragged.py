"""The bundled kernels at ragged sizes, on arrays that begin anywhere: every end, and nothing behind it, is written."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from pretuned.compile.host import HOST, compile_source, compiler
from pretuned.compile.result import Binary
from pretuned.device.host import FACTS
from pretuned.measure.host.kernel import HostKernel, Manner
from pretuned.measure.launch import arrays, initialised, launches, scalars, scratch
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.loader import load_folder
from pretuned.spec.space import Configuration, Problem

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")
TEMPLATES = Path(__file__).parents[2] / "templates"
SPECS = load_folder(TEMPLATES)
SHIFTS = [{}, {"x": 1, "a": 1}, {"out": 3, "c": 3}, {"x": 1, "y": 1, "out": 1}, {"b": 2, "y": 2, "out": 4}]
SENTINEL = -77.0
CASES = {  # by kernel: an implementation with its widest vectors, and sizes with every remainder of them
    "axpby": [("main", {"block": 128, "bytes": 16, "unroll": 2}, [(n,) for n in (1, 7, 1023, 1024, 1030, 2049)])],
    "reduce_sum": [
        (name, values, [(n,) for n in (0, 1, 13, 4096, 4103, 40961)])
        for name, values in [
            ("one_block", {"block": 256, "bytes": 16, "items": 16}),
            ("two_launch", {"block": 256, "blocks": 256, "bytes": 16, "items": 8}),
            ("atomic", {"block": 256, "blocks": 256, "bytes": 16, "items": 16}),
        ]
    ],
    "row_softmax": [
        ("online", {"block": 256, "bytes": 16, "items": 8}, [(3, c) for c in (1, 6, 16, 257, 1031, 4100)]),
        (
            "registers",
            {"items": 8, "rows_per_block": 4, "threads_per_row": 32, "vec": 1},
            [(5, c) for c in (1, 37, 255)],
        ),
    ],
    "transpose": [
        (
            "main",
            {"threads": 128, "tile_rows": 64, "tile_cols": 32, "vec": vec},
            [(r, c) for r in (1, 66, 72) for c in (3, 34, 68)],
        )
        for vec in (4, 8)
    ],
    "sgemm": [
        (
            "main",
            {"tile_m": 32, "tile_n": 64, "depth": 16, "thread_m": 4, "thread_n": 4, "blocks_per_sm": 1},
            [(m, n, k) for m in (1, 37) for n in (8, 67) for k in (0, 5, 40)],
        )
    ],
}
FIXED = [(kernel, *case) for kernel, cases in CASES.items() for case in cases]


@pytest.fixture(scope="module")
def reference():
    found = importlib.util.spec_from_file_location("bundled_reference", TEMPLATES / "reference.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def run(spec, configuration, problem, image, shifts, inputs):
    """Run a configuration on copies of `inputs` that begin so many elements into their memory; return the outputs."""
    memory, addresses = {}, {}
    buffers = [*arrays(spec, problem), *scratch(spec, problem, configuration, FACTS)]
    for buffer in buffers:
        begin = shifts.get(buffer.name, 0)
        whole = np.full(buffer.size + 64, SENTINEL, buffer.dtype)
        base = -(whole.ctypes.data // whole.itemsize) % (16 // whole.itemsize) + begin
        part = whole[base : base + buffer.size]
        if buffer.name in inputs:
            part[:] = inputs[buffer.name].ravel()
        if buffer.name in initialised(spec, configuration):
            part[:] = 0
        memory[buffer.name] = (whole, base, buffer)
        addresses[buffer.name] = whole.ctypes.data + base * whole.itemsize
    kernel = HostKernel(
        image,
        launches(spec, problem, configuration, FACTS),
        scalars(spec, problem),
        types={buffer.name: buffer.dtype for buffer in buffers},
        manner=Manner(),
    )
    kernel.launch(addresses)
    kernel.unload()
    for whole, base, buffer in memory.values():
        assert (np.delete(whole, np.s_[base : base + buffer.size]) == SENTINEL).all()
    return {name: whole[base : base + one.size].reshape(one.shape) for name, (whole, base, one) in memory.items()}


@pytest.mark.parametrize(("kernel", "implementation", "values", "sizes"), FIXED)
def test_ragged_ends_on_arrays_that_begin_anywhere(reference, kernel, implementation, values, sizes):
    spec = SPECS[kernel]
    configuration = Configuration(implementation=implementation, values=space.pairs(values))
    specialisation = next(one for one in space.specialisations(spec) if dict(one).get("T", "float16") == "float16")
    generator = np.random.default_rng(3)
    binary = compile_source(source_of(spec, specialisation, configuration), HOST)
    assert isinstance(binary, Binary), binary
    for size in sizes:
        problem = Problem(specialisation=specialisation, dims=tuple(sorted(zip(spec.dims, size, strict=True))))
        assert space.legal(spec, problem, configuration, FACTS)
        brought = {buffer.name: buffer.shape for buffer in arrays(spec, problem) if buffer.role == "in"}
        inputs = {name: generator.integers(-8, 8, shape).astype(np.float64) for name, shape in brought.items()}
        given = {one.name: one.value for one in scalars(spec, problem)}
        wanted = getattr(reference, kernel)(**inputs, **given)
        for shifts in SHIFTS:
            found = run(spec, configuration, problem, binary.image, shifts, inputs)[spec.outputs[0].name]
            np.testing.assert_allclose(found.astype(np.float64), wanted.reshape(found.shape), rtol=2e-3, atol=1e-6)
