"""Tensor maps of rank 1 to 3, swizzled and filled: verified, timed, called at addresses old and new, captured."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import baking
from pretuned.compile.pool import compile_all
from pretuned.compile.result import Binary
from pretuned.measure.requests import CompiledCandidate, PrepareRequest, Raced
from pretuned.measure.runner import Runner
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.loader import load

cupy = pytest.importorskip("cupy")

FOLDER = Path(__file__).parent / "tensor_maps"
NAMES = sorted(file.stem for file in FOLDER.glob("*.toml"))
spec_of = cache(lambda name: load(FOLDER / f"{name}.toml"))  # where there is a GPU, not while tests are collected
TUNED = "shifted"  # of the others the default is baked, which takes seconds less


@pytest.fixture(scope="module", autouse=True)
def capability():
    found = int(cupy.cuda.Device(0).compute_capability)
    if found < 90:
        pytest.skip("compute capability 9.0 brought tensor maps")
    return found


pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:.*no row for the device")]


@pytest.mark.parametrize("name", NAMES)
def test_every_configuration_is_right_and_can_be_timed_in_a_graph(name, capability):
    spec = spec_of(name)
    with Runner() as gpu:  # a process of its own: what stops one kernel stops no other
        for specialisation in space.specialisations(spec):
            listed = list(space.combinations("main", spec.all_implementations["main"]))
            sources = {one: source_of(spec, specialisation, one) for one in listed}
            made = compile_all(list(sources.values()), f"sm_{capability}", workers=2)
            binaries = {one: made[source.key] for one, source in sources.items()}
            assert all(isinstance(one, Binary) for one in binaries.values()), binaries
            entries = {one: CompiledCandidate.of(one, binary) for one, binary in binaries.items()}
            for problem in space.problems(spec, specialisation):
                assert not gpu.prepare(PrepareRequest(spec=spec, problem=problem, default=entries[space.default(spec)]))
                legal = {one: entry for one, entry in entries.items() if space.legal(spec, problem, one)}
                assert {one: gpu.verify(entry).failure for one, entry in legal.items()} == dict.fromkeys(legal)
            raced = gpu.race(list(legal.values()), 3, estimates_us=[20.0] * len(legal), judge=True)
            assert isinstance(raced, Raced), raced
            assert raced.failures == (None,) * len(legal)


@pytest.fixture(scope="module")
def baked(tmp_path_factory, capability):
    """What bakes one of the kernels for the device at hand, and returns it."""

    @cache
    def baked(name):
        kernels = baking.texts(FOLDER, [name])
        package = baking.baked(
            tmp_path_factory.mktemp(name), f"{name}_mapped", kernels, str(capability), tuned=name == TUNED
        )
        return getattr(package, name)

    return baked


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
def test_calls_at_addresses_old_and_new(baked, name):
    kernel = baked(name)
    kept = [drawn(name, turn) for turn in range(3)]
    outputs = []
    for turn in range(8):
        for arrays, wanted in [*kept, drawn(name, 10 + turn)]:
            out = kernel(*arrays)
            outputs.append(out)  # so that the next one has another address
            np.testing.assert_array_equal(cupy.asnumpy(out), wanted)
    fixed = outputs[0]
    for arrays, wanted in kept * 3:
        kernel(*arrays, **{next(iter(spec_of(name).outputs)).name: fixed})
        np.testing.assert_array_equal(cupy.asnumpy(fixed), wanted)


@pytest.mark.parametrize("name", WANTED)
def test_bound_calls_and_graphs(baked, name):
    kernel, stream = baked(name), cupy.cuda.Stream(non_blocking=True)
    kernel.prepare()
    arrays, wanted = drawn(name, 1)
    cupy.cuda.Device().synchronize()
    out_name = spec_of(name).outputs[0].name
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


def test_an_address_or_a_row_that_tma_does_not_take_is_an_error_in_words(baked):
    x = cupy.zeros(1001, cupy.float32)
    with pytest.raises(ValueError, match=r"x: requires aligned\(x, 16\), found an address 4 bytes beyond a multiple"):
        baked("shifted")(x[1:])
    with pytest.raises(ValueError, match=r"cols \* sizeof\(T\) % 16 == 0"):
        baked("transposed")(cupy.zeros((64, 65), cupy.float32))
    assert float(baked("shifted")(x)[0]) == 100  # the context lives on


def test_views_whose_rows_lie_apart(baked):
    rooms = [cupy.asarray(np.random.default_rng(5).standard_normal((4, 24, 72), np.float32)) for _ in range(2)]
    for begin in (0, 4, 8, 0, 4, 8):
        x, y = (room[1:, :20, begin : begin + 60] for room in rooms)
        before = cupy.asnumpy(rooms[1])
        before[1:, :20, begin : begin + 60] = 2 * cupy.asnumpy(x)
        baked("doubled")(x, y=y)
        np.testing.assert_array_equal(cupy.asnumpy(rooms[1]), before)
        x, y = (room[1:, :20, begin : begin + 62] for room in rooms)
        with pytest.raises(ValueError, match="requires c % 4 == 0"):  # it would write 64 columns
            baked("doubled")(x, y=y)
    np.testing.assert_array_equal(cupy.asnumpy(rooms[1]), before)


def test_tensors_of_pytorch(baked):
    torch = pytest.importorskip("torch")
    x = torch.randn(64, 96, device="cuda", dtype=torch.float16)
    for _ in range(4):
        assert bool((baked("transposed")(x) == x.T).all())


def test_an_empty_array(baked):
    assert baked("transposed")(cupy.zeros((0, 64), cupy.float32)).shape == (64, 0)


def test_every_gpu(baked):
    for device in range(cupy.cuda.runtime.getDeviceCount()):
        with cupy.cuda.Device(device):
            for name in WANTED:
                for turn in range(4):
                    arrays, wanted = drawn(name, turn)
                    np.testing.assert_array_equal(cupy.asnumpy(baked(name)(*arrays)), wanted)
