"""Tensor maps of rank 1 to 3, swizzled and filled: verified, timed, called at addresses old and new, captured."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pretuned.compile.pool import compile_all
from pretuned.compile.result import Binary
from pretuned.measure.requests import CompiledCandidate, PrepareRequest, RaceRequest
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.loader import load_folder

cupy = pytest.importorskip("cupy")

FOLDER = Path(__file__).parent / "tensor_maps"
SPECS = load_folder(FOLDER)
TABLE = """\
[build-system]
requires = ["hatchling", "pretuned"]
build-backend = "hatchling.build"
[project]
name = "mapped"
version = "0"
[tool.hatch.build.hooks.pretuned]
kernels = "kernels"
module = "mapped_kernels"
architectures = ["sm_{}"]
"""


@pytest.fixture(scope="module", autouse=True)
def capability():
    found = int(cupy.cuda.Device(0).compute_capability)
    if found < 90:
        pytest.skip("compute capability 9.0 brought tensor maps")
    return found


pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:.*no row for the device")]


@pytest.fixture(scope="module")
def bench():
    from pretuned.measure.bench import Bench  # noqa: PLC0415 - as below
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - takes the GPU

    return Bench(CudaMachine(0))


@pytest.mark.parametrize("name", SPECS)
def test_every_configuration_is_right_and_can_be_timed_in_a_graph(bench, capability, name):
    spec = SPECS[name]
    for specialisation in space.specialisations(spec):
        listed = list(space.combinations("main", spec.all_implementations["main"]))
        sources = {one: source_of(spec, specialisation, one) for one in listed}
        made = compile_all(list(sources.values()), f"sm_{capability}", workers=2)
        binaries = {one: made[source.key] for one, source in sources.items()}
        assert all(isinstance(one, Binary) for one in binaries.values()), binaries
        entries = {one: CompiledCandidate.of(one, binary) for one, binary in binaries.items()}
        for problem in space.problems(spec, specialisation):
            bench.prepare(PrepareRequest(spec=spec, problem=problem, default=entries[space.default(spec)]))
            legal = {one: entry for one, entry in entries.items() if space.legal(spec, problem, one)}
            assert {one: bench.verify(entry).failure for one, entry in legal.items()} == dict.fromkeys(legal)
        raced = bench.race(
            RaceRequest(entries=tuple(legal.values()), estimates_us=(20.0,) * len(legal), rounds=3, judge=True)
        )
        assert raced.failures == (None,) * len(legal)


@pytest.fixture(scope="module")
def package(tmp_path_factory, capability):
    """The kernels, baked for the device at hand."""
    folder = tmp_path_factory.mktemp("mapped")
    shutil.copytree(FOLDER, folder / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "pyproject.toml").write_text(TABLE.format(capability))
    subprocess.run([sys.executable, "-m", "pretuned", "bake"], cwd=folder, check=True)
    sys.path.insert(0, str(folder))
    yield importlib.import_module("mapped_kernels")
    sys.path.remove(str(folder))


def sides(x):
    padded = np.pad(x, 1)
    found = padded[:-2] + padded[2:]
    found[0] += 100
    return found


WANTED = {
    "shifted": (((100_001,),), sides),
    "transposed": (((300, 1000),), np.transpose),
    "swapped": (((33, 21, 120),), lambda x: x.transpose(1, 0, 2)),
    "summed": (((100, 132), (100, 132)), np.add),
}


def drawn(name, turn):
    """Return arrays for a call of a kernel, and what it gives."""
    shapes, compute = WANTED[name]
    arrays = [np.random.default_rng((turn, i)).standard_normal(s, np.float32) for i, s in enumerate(shapes)]
    return [cupy.asarray(array) for array in arrays], compute(*arrays)


@pytest.mark.parametrize("name", WANTED)
def test_calls_at_addresses_old_and_new(package, name):
    kernel = getattr(package, name)
    kept = [drawn(name, turn) for turn in range(3)]
    outputs = []
    for turn in range(8):
        for arrays, wanted in [*kept, drawn(name, 10 + turn)]:
            out = kernel(*arrays)
            outputs.append(out)  # so that the next one has another address
            np.testing.assert_array_equal(cupy.asnumpy(out), wanted)
    fixed = outputs[0]
    for arrays, wanted in kept * 3:
        kernel(*arrays, **{next(iter(SPECS[name].outputs)).name: fixed})
        np.testing.assert_array_equal(cupy.asnumpy(fixed), wanted)


@pytest.mark.parametrize("name", WANTED)
def test_bound_calls_and_graphs(package, name):
    kernel, stream = getattr(package, name), cupy.cuda.Stream(non_blocking=True)
    kernel.prepare()
    arrays, wanted = drawn(name, 1)
    cupy.cuda.Device().synchronize()
    out_name = SPECS[name].outputs[0].name
    with stream:
        out = kernel(*arrays)
        bound = kernel.bind(*arrays, **{out_name: out})
        for launch in (bound, lambda: kernel(*arrays, **{out_name: out})):
            out[...] = 0
            launch()
            np.testing.assert_array_equal(cupy.asnumpy(out), wanted)
            stream.begin_capture()
            launch()
            graph = stream.end_capture()
            for _ in range(3):
                out[...] = 0
                graph.launch(stream)
                np.testing.assert_array_equal(cupy.asnumpy(out), wanted)


def test_an_address_or_a_row_that_tma_does_not_take_is_an_error_in_words(package):
    x = cupy.zeros(1001, cupy.float32)
    with pytest.raises(ValueError, match=r"x: requires aligned\(x, 16\), found an address 4 bytes beyond a multiple"):
        package.shifted(x[1:])
    with pytest.raises(ValueError, match=r"cols \* sizeof\(T\) % 16 == 0"):
        package.transposed(cupy.zeros((64, 65), cupy.float32))
    assert float(package.shifted(x)[0]) == 100  # the context lives on


def test_tensors_of_pytorch(package):
    torch = pytest.importorskip("torch")
    x = torch.randn(64, 96, device="cuda", dtype=torch.float16)
    for _ in range(4):
        assert bool((package.transposed(x) == x.T).all())


def test_an_empty_array(package):
    assert package.transposed(cupy.zeros((0, 64), cupy.float32)).shape == (64, 0)


def test_every_gpu(package):
    for device in range(cupy.cuda.runtime.getDeviceCount()):
        with cupy.cuda.Device(device):
            for name in WANTED:
                for turn in range(4):
                    arrays, wanted = drawn(name, turn)
                    np.testing.assert_array_equal(cupy.asnumpy(getattr(package, name)(*arrays)), wanted)
