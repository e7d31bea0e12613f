"""A row whose winner is a library's function: how it is called, when not, and how it stands in a package."""

import ast
import dataclasses
import importlib
import logging
import subprocess
import sys
import types

import ml_dtypes  # noqa: F401 - NumPy knows its types by it
import pytest

import fake_cuda
import library_specs
import sample
from fake_cupy import external
from fake_torch import FakeTorch
from generated import assigned
from library_specs import MATMUL
from pretuned.bake.package import files
from pretuned.bake.plan import plan

LIBRARY = "cupy 14.2.0"
CAPTURED = 66
KNOWN = {"n": 1024, "T": "float32"}


def baked(folder, *edits, toml=library_specs.PRODUCT, library=LIBRARY, dtype="float32"):
    """Write a package whose library wins at the first size and loses at the second."""
    (folder / "specs").mkdir()
    spec = library_specs.loaded(folder / "specs", *edits, toml=toml)
    default = sample.choice(8.0, implementation="plain", block=128)
    won = dataclasses.replace(sample.choice(2.0, ratio=(0.2, 0.3), implementation="library"), library=library)
    lost = sample.choice(6.0, ratio=(0.7, 0.8), implementation="plain", block=256)
    sizes = [dict.fromkeys(spec.free_dims, size) for size in ([512] if toml is MATMUL else [1024, 65536])]
    choices = [(won, default), (lost, won, default)]
    rows = [
        sample.row(spec.name, sample.H100, {"T": dtype}, dims, *of_row)
        for dims, of_row in zip(sizes, choices, strict=False)
    ]
    found = plan({spec.name: spec}, rows, {sample.H100.name: sample.H100})
    sample.write({"__init__.py": b""}, folder / "pkg")
    return sample.write(files(found, sample.binaries(found), version="0.0.0"), folder / "pkg" / "tuned").parents[1]


@pytest.fixture
def called(cupy, cuda, monkeypatch):
    """Give CuPy a `multiply` and a `matmul` that record: name, arguments, the result's array, stream, device."""
    records = []

    def recorder(name):
        def function(*arrays, out=None):
            there = cupy.cuda.get_current_stream().ptr, cupy.cuda.runtime.getDevice(), cuda.device
            result = cupy.ndarray(arrays[0].shape, arrays[0].dtype) if out is None else out
            records.append(types.SimpleNamespace(name=name, arrays=arrays, out=out, result=result, there=there))
            cuda.events.append(name)
            return result

        return function

    cupy.multiply, cupy.matmul = recorder("multiply"), recorder("matmul")
    monkeypatch.setitem(fake_cuda.SIGNATURES, "product", "QQQi")
    monkeypatch.setitem(fake_cuda.SIGNATURES, "matmul", "QQQiii")
    return records


@pytest.fixture
def tuned(load, tmp_path, called):
    return load(baked(tmp_path))


def vectors(cupy, count=2, n=1024, **options):
    return [cupy.ndarray((n,), "float32", **options) for _ in range(count)]


# How it is called.


def test_the_rows_function_writes_into_the_output_on_the_calls_stream(tuned, cupy, cuda, called):
    a, b = vectors(cupy)
    for count in range(1, 4):
        with cupy.cuda.Stream(5):
            y = tuned.product(a, b)
        one = called[-1]
        assert (len(called), one.name, one.arrays, one.out) == (count, "multiply", (a, b), y)
        assert one.there[0] == 5
    assert cuda.launches == []
    assert cuda.loaded == []


def test_an_output_and_a_stream_that_are_given(tuned, cupy, called):
    a, b, y = vectors(cupy, 3)
    with cupy.cuda.Stream(5):
        assert tuned.product(a, b, y=y, stream=cupy.cuda.Stream(6)) is y
        assert cupy.cuda.get_current_stream().ptr == 5
    assert (called[0].out, called[0].there[0]) == (y, 6)
    assert cupy.allocated == []


def test_it_is_called_on_the_arrays_device(tuned, cupy, cuda, called):
    y = tuned.product(*vectors(cupy, device=1))
    assert (y.data.device_id, called[0].there) == (1, (0, 1, 1))
    assert (cupy.cuda.runtime.getDevice(), cuda.device) == (0, None)


def test_another_row_launches(tuned, cupy, cuda, called):
    tuned.product(*vectors(cupy, n=65536))
    assert called == []
    assert cuda.launches[0].block == (256, 1, 1)


def test_a_function_without_out_has_its_result_copied(load, tmp_path, cupy, called, monkeypatch):
    copied = []
    monkeypatch.setattr(
        cupy.ndarray, "__setitem__", lambda self, key, value: copied.append((self, key, value)), raising=False
    )
    tuned = load(baked(tmp_path, ('call = "cupy:multiply"', 'call = "cupy:multiply"\nout = "copy"')))
    y = tuned.product(*vectors(cupy))
    assert called[0].out is None
    assert copied == [(y, ..., called[0].result)]


def test_arguments_go_in_the_order_that_the_spec_gives(load, tmp_path, cupy, called):
    tuned = load(baked(tmp_path, ('call = "cupy:multiply"', 'call = "cupy:multiply"\narguments = ["b", "a"]')))
    a, b = vectors(cupy)
    tuned.product(a, b)
    assert called[0].arrays == (b, a)


def test_a_function_may_stand_deeper_in_its_library(load, tmp_path, cupy, called):
    cupy.linalg = types.SimpleNamespace(product=cupy.multiply)
    tuned = load(baked(tmp_path, ("cupy:multiply", "cupy:linalg.product")))
    tuned.product(*vectors(cupy))
    assert len(called) == 1


def test_matrices(load, tmp_path, cupy, called):
    tuned = load(baked(tmp_path, toml=MATMUL))
    a, b = cupy.ndarray((512, 512), "float32"), cupy.ndarray((512, 512), "float32")
    c = tuned.matmul(a, b)
    assert (called[0].name, called[0].arrays, called[0].out) == ("matmul", (a, b), c)


def test_arrays_of_other_libraries_are_taken_in_where_they_lie(tuned, cupy, called, monkeypatch):
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    taken = []

    def asarray(array):
        taken.append(array)
        address = array.data_ptr() if hasattr(array, "data_ptr") else array.__cuda_array_interface__["data"][0]
        return cupy.ndarray((1024,), "float32", address=address)

    cupy.asarray = asarray
    facts = {"shape": (1024,), "data": (1 << 60, False), "typestr": "<f4", "strides": None, "version": 3}
    a, b, y = torch.Tensor((1024,)), external(facts), torch.Tensor((1024,))
    with torch.cuda.stream(torch.cuda.Stream(9)):
        assert tuned.product(a, b, y=y) is y
    assert taken == [a, b, y]
    assert [one.data.ptr for one in (*called[0].arrays, called[0].out)] == [a.data_ptr(), 1 << 60, y.data_ptr()]
    assert called[0].there[0] == 9  # the stream of the first input's library


def test_a_function_of_pytorch(load, tmp_path, cupy, cuda, called, monkeypatch):
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    seen = []

    def mul(a, b, *, out):
        seen.append((a, b, out, torch.cuda.current_stream().cuda_stream, torch.cuda.current_device()))

    torch.mul = mul
    torch.as_tensor = lambda array, device: torch.Tensor(array.shape, str(array.dtype), address=array.data.ptr)
    tuned = load(baked(tmp_path, ("cupy:multiply", "torch:mul"), library="torch 2.9.0"))
    a, b, y = (torch.Tensor((1024,), device=1) for _ in range(3))
    with torch.cuda.stream(torch.cuda.Stream(9)):
        assert tuned.product(a, b, y=y) is y
    assert seen.pop() == (a, b, y, 9, 1)
    a, b = vectors(cupy)
    y = tuned.product(a, b)
    assert [one.data_ptr() for one in seen.pop()[:3]] == [a.data.ptr, b.data.ptr, y.data.ptr]
    assert called == cuda.launches == []


UNNAMED = pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])  # types that interfaces cannot name


@UNNAMED
def test_pytorch_takes_arrays_of_cupy_of_a_type_without_a_name_as_integers(
    load, tmp_path, cupy, called, monkeypatch, dtype
):
    torch, seen = FakeTorch(), []
    monkeypatch.setitem(sys.modules, "torch", torch)
    torch.mul = lambda a, b, *, out: seen.extend([a, b, out])
    torch.as_tensor = lambda array, device: torch.Tensor(array.shape, str(array.dtype), address=array.data.ptr)
    edits = ('["float32", "float64"]', f'["{dtype}"]'), ("cupy:multiply", "torch:mul")
    tuned = load(baked(tmp_path, *edits, library="torch 2.9.0", dtype=dtype))
    a, b, y = (cupy.ndarray((1024,), dtype) for _ in range(3))
    tuned.product(a, b, y=y)
    assert [one.data_ptr() for one in seen] == [a.data.ptr, b.data.ptr, y.data.ptr]
    assert {one.dtype for one in seen} == {getattr(torch, dtype)}


@UNNAMED
def test_cupy_takes_tensors_of_a_type_without_a_name_as_integers(load, tmp_path, cupy, called, monkeypatch, dtype):
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    cupy.asarray = lambda tensor: cupy.ndarray(tensor.shape, tensor.dtype.name, address=tensor.data_ptr())
    tuned = load(baked(tmp_path, ('["float32", "float64"]', f'["{dtype}"]'), dtype=dtype))
    a, b, y = (torch.Tensor((1024,), dtype) for _ in range(3))
    tuned.product(a, b, y=y)
    found = (*called[0].arrays, called[0].out)
    assert [one.data.ptr for one in found] == [a.data_ptr(), b.data_ptr(), y.data_ptr()]
    assert {one.dtype.name for one in found} == {dtype}


def test_what_the_function_raises_is_the_callers(tuned, cupy, called):
    def full(*_arrays, out):
        raise MemoryError("workspace")

    cupy.multiply = full
    for _ in range(2):
        with pytest.raises(MemoryError, match="workspace"):
            tuned.product(*vectors(cupy))


def test_calls_are_checked_as_ever(tuned, cupy, called):
    a, b = vectors(cupy)
    with pytest.raises(ValueError, match="y: shares memory with a"):
        tuned.product(a, b, y=a)
    with pytest.raises(ValueError, match=r"b: expected shape \(n,\) = \(1024,\), found \(64,\)"):
        tuned.product(a, vectors(cupy, n=64)[0])
    assert called == []


# When it is passed over.


def test_where_the_library_or_its_function_is_missing_the_next_choice_runs(
    tuned, cupy, cuda, called, monkeypatch, caplog
):
    for name in ("multiply", "matmul"):
        delattr(cupy, name)
    with caplog.at_level(logging.DEBUG, logger="pkg.tuned"):
        for _ in range(3):
            tuned.product(*vectors(cupy))
    assert [launch.block[0] for launch in cuda.launches] == [128] * 3
    (record,) = caplog.records
    assert record.getMessage() == (
        f"product on {sample.H100.name}: plain: block=128: exact device; passed over library: cupy.multiply cannot be "
        "called here (module 'cupy' has no attribute 'multiply'); the row's default"
    )


def test_without_the_library(tuned, cuda, called, monkeypatch):
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "cupy", None)
    a, b = torch.Tensor((1024,)), torch.Tensor((1024,))
    tuned.product(a, b)
    assert cuda.launches[0].block == (128, 1, 1)
    found = tuned.explain("product", **KNOWN)
    assert found.implementation == "plain"
    assert found.why[1].startswith("passed over library: cupy.multiply cannot be called here (")


def test_bind_passes_it_over_since_it_may_allocate(tuned, cupy, cuda, called):
    a, b, y = vectors(cupy, 3)
    tuned.product(a, b, y=y)
    bound = tuned.product.bind(a, b, y=y)
    assert bound() is y
    assert len(called) == 1
    assert cuda.launches[0].arguments == (y.data.ptr, a.data.ptr, b.data.ptr, 1024)
    tuned.product(a, b, y=y)
    assert len(called) == 2  # a call is one still


@pytest.mark.parametrize("before", [0, 3])
def test_a_captured_call_passes_it_over(tuned, cupy, cuda, called, before):
    a, b, y = vectors(cupy, 3)
    for _ in range(before):
        tuned.product(a, b, y=y, stream=CAPTURED)
    cuda.captured = {CAPTURED}
    with pytest.raises(tuned.PretunedError, match=r"call product\.prepare\(\) before the capture"):
        tuned.product(a, b, y=y, stream=CAPTURED)
    tuned.prepare()
    for count in (1, 2, 3):
        tuned.product(a, b, y=y, stream=CAPTURED)
        assert (len(called), len(cuda.launches)) == (before, count)
    cuda.captured = set()
    tuned.product(a, b, y=y, stream=CAPTURED)
    assert len(called) == before + 1


def test_a_guard_passes_it_over(load, tmp_path, cupy, cuda, called):
    guard = ('call = "cupy:multiply"', 'call = "cupy:multiply"\nconstraints = { where = ["n % 2 == 0"] }')
    tuned = load(baked(tmp_path, guard))
    tuned.product(*vectors(cupy, n=1025))
    assert (len(called), len(cuda.launches)) == (0, 1)
    tuned.product(*vectors(cupy, n=1026))
    assert (len(called), len(cuda.launches)) == (1, 1)


def test_overrides_choose_it_or_not(tuned, cupy, cuda, called):
    with tuned.using(product={"implementation": "plain", "block": 256}):
        tuned.product(*vectors(cupy))
        assert (len(called), cuda.launches[-1].block[0]) == (0, 256)
    with tuned.using(product={"implementation": "library"}):
        tuned.product(*vectors(cupy, n=65536))
        assert len(called) == 1
    with tuned.using(defaults=True):
        tuned.product(*vectors(cupy))
        assert (len(called), cuda.launches[-1].block[0]) == (1, 128)


def test_preparing_loads_what_is_launched(tuned, cuda, called):
    tuned.prepare()
    assert len(cuda.loaded) == 2  # the one text of float32, and that of float64
    assert called == []


# What is told.


def test_explain_tells_the_library_that_was_measured(tuned, called):
    found = tuned.explain("product", **KNOWN)
    assert (found.implementation, found.configuration, found.library) == ("library", {}, LIBRARY)
    assert not found.recompiled
    assert str(found).splitlines()[1:6] == [
        "  runs    library",
        "  why     exact device; the row's choice",
        "  row     NVIDIA H100 80GB HBM3: measured at n=1024",
        "  time    2.00 us, default 8.00 us, ratio 0.200 to 0.300",
        "  on      2026-11-20, driver 580.65.06, NVRTC 13.0.88; measured with cupy 14.2.0",
    ]
    found = tuned.explain("product", **KNOWN | {"n": 65536})
    assert (found.implementation, found.library) == ("plain", "")
    assert [str(one) for one in found.alternatives if one.time_us] == [
        "library (2.00 us)",
        "plain: block=128 (8.00 us)",
    ]


def test_explain_for_a_device_that_is_only_named_asks_for_no_library(tuned, cupy, called, monkeypatch):
    del cupy.multiply
    assert tuned.explain("product", device=sample.H100.name, **KNOWN).implementation == "library"
    assert tuned.explain("product", **KNOWN).implementation == "plain"


def test_its_calls_are_counted(load, tmp_path, cupy, called, monkeypatch):
    monkeypatch.setenv("PRETUNED_USAGE", str(tmp_path / "usage.jsonl"))
    monkeypatch.setattr("atexit.register", lambda *_: None)
    tuned = load(baked(tmp_path))
    for _ in range(3):
        tuned.product(*vectors(cupy))
    usage = importlib.import_module("pkg.tuned._runtime.usage")
    assert [next(counter) for counter in usage._counters.values()] == [3]


# How it stands in the package.


def test_the_package_holds_the_call_and_nothing_to_load_for_it(tmp_path):
    folder = baked(tmp_path) / "pkg" / "tuned"
    source = (folder / "__init__.py").read_text()
    tables = ast.parse(source)
    assert "            call=LibraryFunction('cupy', 'multiply', ('a', 'b'), 'keyword')," in source.replace('"', "'")
    rows = ast.literal_eval(assigned(tables, "TABLE"))["product"][sample.H100.name]
    assert rows[0][2][0] == ("library", {}, 2.0, (0.2, 0.3), LIBRARY)
    assert rows[1][2][1] == rows[0][2][0]
    shipped = ast.literal_eval(assigned(tables, "_SHIPPED"))["product"]
    assert [entry[3:] for entry in shipped if entry[1] == "library"] == [("", {})]
    sources = ast.literal_eval(assigned(tables, "_BINARIES"))
    assert "" not in sources
    assert {file.name.partition(".")[0] for file in (folder / "kernels").iterdir()} == set(sources)
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", "--isolated", "--line-length", "120", "__init__.py"],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("library", ['cupy "14" \\', "cupy\n14", "# fmt: on"])
def test_a_librarys_name_from_a_lock_stays_text(load, tmp_path, called, library):
    tuned = load(baked(tmp_path, library=library))
    assert tuned.explain("product", device=sample.H100.name, **KNOWN).library == library


def test_a_lock_as_table_tells_the_library_too(load, tmp_path, cupy, called, monkeypatch):
    from pretuned.record import lock as lockfile  # noqa: PLC0415 - only here

    folder = baked(tmp_path)
    spec = library_specs.loaded(tmp_path / "specs")
    won = dataclasses.replace(sample.choice(2.5, implementation="library"), library="cupy 15.0.0", candidate="c" * 64)
    default = dataclasses.replace(sample.choice(8.0, implementation="plain", block=128), candidate="c" * 64)
    row = sample.row(spec.name, sample.H100, {"T": "float32"}, {"n": 65536}, won, default)
    lockfile.write(tmp_path / "other.json", lockfile.Lock().updated({sample.H100.name: sample.H100}, [row]))
    monkeypatch.setenv("PRETUNED_TABLE", str(tmp_path / "other.json"))
    tuned = load(folder)
    assert tuned.explain("product", **KNOWN | {"n": 65536}).library == "cupy 15.0.0"
    tuned.product(*vectors(cupy, n=65536))
    assert len(called) == 1
