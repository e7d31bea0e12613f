"""What a binary says of its parameters is what the driver reads, and what the contract refuses is never launched."""

from __future__ import annotations

import ctypes

import pytest

from pretuned.compile.entries import entry_points
from pretuned.compile.pool import CompilePool
from pretuned.compile.result import Binary
from pretuned.config import GPU
from pretuned.outcome import WrongResult
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.loader import load
from pretuned.spec.space import all_problems
from pretuned.tune.events import Failed
from pretuned.tune.request import TuningRequest, find_device
from pretuned.tune.session import tune
from wrong_kernels import BODY, GRID_BARRIER, RIGHT, SOUND, SPEC, WRONG, write

pytestmark = pytest.mark.gpu

SHARED = "80,000 bytes of static shared memory"
NO_ENTRY = {'no extern "C"', "a device function", "another name by a macro"}


@pytest.fixture(scope="module")
def capability():
    device = find_device(GPU, {})
    return device.record.compute_capability


def tuned(folder, specs, listen=lambda _event: None):
    requests = [TuningRequest(spec=spec, problems=tuple(all_problems(spec))) for spec in specs]
    return tune(requests, find_device(GPU, {}), cache_folder=folder / "cache", listen=listen)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory, capability):
    """Binaries of kernels that have an entry point `axpy`, by name and architecture."""
    texts = {name: wrong.text for name, wrong in WRONG.items() if name not in {*NO_ENTRY, SHARED}}
    texts |= {name: f"{head} {{}}\n// {{{{ block }}}}" for name, head in SOUND.items()}
    architectures = [f"sm_{capability}", *([f"sm_{capability}a"] if capability >= 90 else []), "compute_80"]
    jobs = {}
    for number, (name, text) in enumerate(texts.items()):
        spec = load(write(tmp_path_factory.mktemp("kernels") / str(number), text))
        source = source_of(spec, (), space.default(spec))
        for architecture in architectures:
            jobs[name, architecture] = (source, architecture)
    with CompilePool() as pool:
        made = {(source.key, architecture): result for (source, architecture), result in pool.compile(jobs.values())}
    return {which: made[source.key, architecture] for which, (source, architecture) in jobs.items()}


def read_by_the_driver(image):
    """The sizes of the parameters of `axpy`, in bytes, as cuFuncGetParamInfo (CUDA 12.4) has them."""
    cupy = pytest.importorskip("cupy")
    library = ctypes.CDLL("libcuda.so.1")
    if not hasattr(library, "cuFuncGetParamInfo"):
        pytest.skip("the driver is older than CUDA 12.4")
    cupy.cuda.Device(0).use()
    cupy.zeros(1)
    module = cupy.cuda.driver.moduleLoadData(image)
    function = ctypes.c_void_p(cupy.cuda.driver.moduleGetFunction(module, "axpy"))
    sizes, offset, size = [], ctypes.c_size_t(), ctypes.c_size_t()
    while not library.cuFuncGetParamInfo(
        function, ctypes.c_size_t(len(sizes)), ctypes.byref(offset), ctypes.byref(size)
    ):
        sizes.append(size.value)
    cupy.cuda.driver.moduleUnload(module)
    return sizes


def test_sizes_in_binaries_are_those_that_the_driver_reads(compiled):
    assert len(compiled) > 20
    for which, binary in compiled.items():
        assert isinstance(binary, Binary), which
        entry = entry_points(binary.image)["axpy"]
        written = [8 if taken.pointer else taken.bits // 8 for taken in entry.taken]
        assert written == read_by_the_driver(binary.image), which


def test_tuning_refuses_each_wrong_kernel_with_its_message(tmp_path):
    wrong = {f"k{number:02}": kernel for number, kernel in enumerate([*WRONG.values(), GRID_BARRIER])}
    specs = [load(write(tmp_path, kernel.text, kernel=name)) for name, kernel in wrong.items()]
    launched = []
    result = tuned(tmp_path, specs, launched.append)
    assert not result.rows
    said = result.wrong.splitlines()
    for line, (name, kernel) in zip(said, wrong.items(), strict=True):
        if kernel is WRONG[SHARED]:
            assert "uses too much shared data" in line  # ptxas reports it first
        else:
            assert line == f"{name}: block=256 cannot be launched: {kernel.message.replace('axpy.cu', f'{name}.cu')}"
    assert not any(isinstance(event, Failed) for event in launched)  # nothing ran


def test_sound_kernels_are_tuned(tmp_path):
    """What is read otherwise than it is declared gives the same results."""
    size = RIGHT.replace("long long n", "unsigned long long n")
    texts = {"plain": f"{RIGHT} {BODY}", "size": f"{size} {BODY}"}
    result = tuned(tmp_path, [load(write(tmp_path, text, kernel=name)) for name, text in texts.items()])
    assert sorted(row.kernel for row in result.rows) == ["plain", "size"]


def test_a_cluster_of_the_source_launches_where_the_grid_is_a_multiple_of_it(tmp_path, capability):
    if capability < 90:
        pytest.skip("clusters need sm_90")
    head = RIGHT.replace("void axpy", "void __cluster_dims__(2, 1, 1) axpy")
    spec = SPEC.replace("[space]", '[constraints]\nrequires = ["n % 1024 == 0"]\n\n[space]')
    result = tuned(tmp_path, [load(write(tmp_path, f"{head} {BODY}", spec=spec))])
    assert len(result.rows) == 1


def test_swapped_scalars_of_one_value_are_a_wrong_result(tmp_path):
    """`a` and `b` are 2.0 in the spec: tuning passes 2.0 and 1.5."""
    scalar = '  { name = "a", dtype = "float32", value = 2.0 },\n'
    spec = SPEC.replace(scalar, scalar + scalar.replace('"a"', '"b"'))
    right = RIGHT.replace("float a", "float a, float b")
    swapped = RIGHT.replace("float a", "float b, float a")
    body = BODY.replace("a * x[i]", "a * x[i] + b")
    specs = {
        name: load(write(tmp_path / name, f"{head} {body}", spec=spec))
        for name, head in {"right": right, "swapped": swapped}.items()
    }
    for name in specs:
        (tmp_path / name / "reference.py").write_text("def axpy(x, a, b, **_):\n    return a * x + b\n")
    assert len(tuned(tmp_path / "right", [specs["right"]]).rows) == 1
    failures = []
    result = tuned(tmp_path / "swapped", [specs["swapped"]], failures.append)
    assert not result.rows
    assert "elements are off" in result.wrong
    assert all(isinstance(event.failure, WrongResult) for event in failures if isinstance(event, Failed))


def test_specific_architectures_take_more_static_shared_memory(tmp_path, capability):
    """Which is why PTX for sm_90a is not held to 48 KB; where the driver refuses it, so must the contract."""
    if capability < 90:
        pytest.skip("there is no sm_80a")
    cupy = pytest.importorskip("cupy")
    spec = load(write(tmp_path, WRONG[SHARED].text))
    source = source_of(spec, (), space.default(spec))
    with CompilePool() as pool:
        ((_, made),) = pool.compile([(source, f"sm_{capability}a")])
    assert isinstance(made, Binary), made
    assert entry_points(made.image)
    kernel = cupy.RawModule(path=str(_stored(tmp_path, made.image))).get_function("axpy")
    out, x = cupy.zeros(1024, "float32"), cupy.ones(1024, "float32")
    kernel((4,), (256,), (out, x, cupy.float32(2), cupy.int64(1024)))
    assert (out == 2).all()


def _stored(folder, image):
    path = folder / "axpy.cubin"
    path.write_bytes(image)
    return path
