"""Functions of CuPy and PyTorch on a GPU: called over the bench's buffers, judged, captured or not, and raced."""

from __future__ import annotations

import importlib

import pytest

from library_specs import MATMUL, PRODUCT, loaded
from pretuned.compile.pool import compile_all
from pretuned.config import GPU
from pretuned.measure.libraries import release
from pretuned.measure.machine import Refused
from pretuned.measure.requests import CompiledCandidate, PrepareRequest, RaceRequest, ScreenRequest
from pretuned.outcome import LaunchFailed, Timed, WrongResult
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.space import Configuration, all_problems
from pretuned.tune.events import Failed
from pretuned.tune.request import TuningRequest, find_device
from pretuned.tune.session import tune

pytestmark = pytest.mark.gpu

LIBRARY = CompiledCandidate.of_call(Configuration(implementation="library", values=()))
FLOAT64 = ('dtypes = ["float32", "float64"]', 'dtypes = ["float64"]')


@pytest.fixture(scope="module")
def machine():
    pytest.importorskip("cupy")
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - imports CuPy

    return CudaMachine(0)


def need(module):
    """Skip without a library, and for CuPy's matrix products without cuBLAS."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        pytest.skip(f"{module}: {error}")


CUBLAS = "cupy_backends.cuda.libs.cublas"


def prepared(machine, spec):
    """Return a bench at the spec's first problem, and the default's entry."""
    from pretuned.measure.bench import Bench  # noqa: PLC0415 - beside the machine

    problem = all_problems(spec)[0]
    module = source_of(spec, problem.specialisation, space.default(spec))
    binary = compile_all([module], f"sm_{machine.facts.compute_capability}", workers=1)[module.key]
    bench, default = Bench(machine), CompiledCandidate.of(space.default(spec), binary)
    bench.prepare(PrepareRequest(spec=spec, problem=problem, default=default))
    return bench, default


CASES = {
    "cupy": ("cupy", PRODUCT, "cupy:multiply", "keyword", True),
    "cupy, copied": ("cupy", PRODUCT, "cupy:multiply", "copy", True),
    "cupy's cuBLAS": (CUBLAS, MATMUL, "cupy:matmul", "keyword", False),
    "cupy's cuBLAS, copied": (CUBLAS, MATMUL, "cupy:matmul", "copy", False),
    "torch": ("torch", PRODUCT, "torch:multiply", "keyword", True),
    "torch, copied": ("torch", PRODUCT, "torch:multiply", "copy", True),
    "torch's cuBLAS": ("torch", MATMUL, "torch:matmul", "keyword", True),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_function_is_verified_timed_and_raced(machine, tmp_path, capsys, case):
    needs, toml, function, out, captured = case
    need(needs)
    old = "cupy:multiply" if toml is PRODUCT else "cupy:matmul"
    spec = loaded(tmp_path, (f'call = "{old}"', f'call = "{function}"\nout = "{out}"'), toml=toml)
    bench, default = prepared(machine, spec)
    assert bench.verify(LIBRARY).failure is None
    kernel = bench.load(LIBRARY).kernel
    assert kernel.captured is captured
    kernel.unload()

    def measured():
        """Return what the default and the library take when they are screened, and in a race."""
        screened = [found.outcome for found in bench.screen(ScreenRequest(entries=(default, LIBRARY)))]
        assert all(isinstance(outcome, Timed) for outcome in screened), screened
        estimates_us = tuple(outcome.time_us for outcome in screened)
        raced = bench.race(RaceRequest(entries=(default, LIBRARY), estimates_us=estimates_us, rounds=9, judge=True))
        assert raced.failures == (None, None)
        medians = [sorted(times)[len(times) // 2] for times in raced.times_us]
        with capsys.disabled():
            print(f"\n{function} ({out}): default {medians[0]:.2f} us, library {medians[1]:.2f} us", end="")
        return list(zip(estimates_us, medians, strict=True))

    # Held or replayed, a call takes what it takes, unless another program had the GPU at one of the two.
    assert any(all(held / 3 < replayed < held * 3 for held, replayed in measured()) for _ in range(5))


@pytest.mark.parametrize("function", ["cupy:multiply", "torch:multiply"])
def test_bfloat16_goes_through_every_library(machine, tmp_path, function):
    need(function.partition(":")[0])
    need("ml_dtypes")
    bfloat16 = ('dtypes = ["float32", "float64"]', 'dtypes = ["bfloat16"]')
    spec = loaded(tmp_path, bfloat16, ("cupy:multiply", function))
    (tmp_path / "product.cu.jinja").write_text("#include <cuda_bf16.h>\n" + (tmp_path / "product.cu.jinja").read_text())
    bench, _ = prepared(machine, spec)
    assert bench.verify(LIBRARY).failure is None


def refusal(bench):
    with pytest.raises(Refused) as caught:
        bench.load(LIBRARY)
    assert isinstance(caught.value.outcome, LaunchFailed)
    return caught.value.outcome.message


def test_what_a_library_does_not_do_is_refused_and_the_next_is_measured(machine, tmp_path):
    bench, default = prepared(machine, loaded(tmp_path, FLOAT64, ("cupy:multiply", "cupy:multiplyy")))
    assert refusal(bench) == "cupy: has no 'multiplyy'; did you mean 'multiply'?"
    bench, default = prepared(machine, loaded(tmp_path, FLOAT64, ("cupy:multiply", "cupy:interp")))
    assert refusal(bench).startswith("cupy.interp: TypeError: ")
    assert bench.verify(default).failure is None


def test_a_function_that_waits_for_the_device_is_refused(machine, tmp_path):
    unique = ('call = "cupy:multiply"', 'call = "cupy:unique"\narguments = ["a"]\nout = "copy"')
    bench, default = prepared(machine, loaded(tmp_path, FLOAT64, unique))
    assert refusal(bench) == "cupy.unique waits for the device in its call, so it cannot be timed"
    assert bench.verify(default).failure is None


def test_a_function_that_computes_something_else_is_wrong(machine, tmp_path):
    bench, _ = prepared(machine, loaded(tmp_path, FLOAT64, ("cupy:multiply", "cupy:add")))
    assert isinstance(bench.verify(LIBRARY).failure, WrongResult)


def tuned(folder, spec):
    failures = []

    def listen(event):
        if isinstance(event, Failed):
            failures.append(event)

    request = TuningRequest(spec=spec, problems=tuple(all_problems(spec)))
    return tune([request], find_device(GPU, {}), cache_folder=folder / "cache", listen=listen), failures


def test_cublas_wins_over_a_simple_product_and_is_recorded(tmp_path):
    need("cupy")
    need(CUBLAS)
    spec = loaded(tmp_path, toml=MATMUL)
    found, failures = tuned(tmp_path, spec)
    assert not failures
    (row,) = found.rows
    assert (str(row.winner.configuration), row.winner.library, row.winner.cubin) == ("library", release("cupy"), "")
    again, _ = tuned(tmp_path, spec)
    assert (again.rows, again.spending.launched) == (found.rows, 0)


def test_a_library_that_is_not_there_ends_no_tuning(tmp_path):
    need("cupy")
    found, failures = tuned(tmp_path, loaded(tmp_path, ("cupy:multiply", "cupy:no_such_function")))
    assert len(found.rows) == 4
    assert failures
    assert {(str(event.configuration), type(event.failure)) for event in failures} == {("library", LaunchFailed)}
