"""References that CuPy computes on the GPU: the same as NumPy's, watched, and NumPy's where CuPy's fail."""

from __future__ import annotations

import numpy as np
import pytest

from computed_references import Answers, at, spec_with
from pretuned.compile.pool import compile_all
from pretuned.measure.bench import Bench
from pretuned.measure.machine import Poisoned
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.measure.runner import Runner
from pretuned.render import source_of
from pretuned.spec import space
from specs import SCALE_TEMPLATE

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu
MARKED = 1 + 1e-9  # far within an eighth of the tolerance, and not what NumPy's reference returns
ON_GPU = f"def on_gpu(x, a, xp):\n    assert xp.__name__ == 'cupy'\n    return x * (a * {MARKED})\n"
# An author's own kernel, which writes where nothing is: the context is lost.
FATAL = """\
def on_gpu(x, a, n, xp):
    if n > 20_000:
        kernel = xp.RawKernel('extern "C" __global__ void f(long long* p) { *p = 1; }', "f")
        kernel((1,), (1,), (xp.uint64(8),))
    return x * a
"""


@pytest.fixture(scope="module")
def machine():
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - takes the GPU

    return CudaMachine(0)


def entry_of(spec, problem, template=SCALE_TEMPLATE):
    """The default, of a template that the spec is given for it."""
    configuration = space.default_at(spec, problem)
    (spec.folder / "scale.cu.jinja").write_text(f"#include <cuda_fp16.h>\n{template}", encoding="utf-8")
    source = source_of(spec, problem.specialisation, configuration)
    binary = compile_all([source], f"sm_{cupy.cuda.Device(0).compute_capability}", workers=1)[source.key]
    return CompiledCandidate.of(configuration, binary)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "float64", "int32", "complex64"])
def test_cupy_computes_a_large_problem_from_inputs_that_were_widened_on_the_gpu(tmp_path, machine, dtype):
    types = ('["float32", "float16"]', f'["{dtype}"]')
    answers = Answers(spec_with(tmp_path, "def on_gpu(x, a, xp):\n    return xp.multiply(x, a)\n", types), machine)
    found = answers(at(3_000_000, dtype))
    assert answers.references.notes == []
    assert found.dtype == answers.right.dtype
    np.testing.assert_array_equal(found, answers.right)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return a * x.astype('float16')", "elements of 'y' are not those of `reference`"),
        ("return np.ones(len(x)) * x", "on_gpu raised TypeError"),
        ("return x * a if len(x) < 20_000 else xp.empty(1 << 50)", "on_gpu raised OutOfMemoryError"),
    ],
)
def test_what_differs_raises_or_lacks_memory_is_left_to_numpy(tmp_path, machine, body, said):
    answers = Answers(spec_with(tmp_path, f"def on_gpu(x, a, xp):\n    {body}\n"), machine)
    assert answers(at(1_000_000)) is None
    assert said in answers.note
    free = machine.free_bytes()
    assert answers(at(1_000_000)) is None
    assert machine.free_bytes() >= free - (64 << 20)  # what the function has taken is given back


def test_candidates_are_judged_by_what_cupy_computed_and_it_is_watched(tmp_path, machine):
    spec = spec_with(tmp_path, ON_GPU)
    problem = at(1_000_000)
    right, wrong = entry_of(spec, problem), entry_of(spec, problem, SCALE_TEMPLATE.replace("a *", "1.01f * a *"))
    bench, request = Bench(machine), PrepareRequest(spec=spec, problem=problem, default=right)
    bench.prepare(request)
    kept = bench.stage.references["y"]
    held = np.empty(kept.shape, kept.dtype)
    machine.read(kept.memory.address, held)
    np.testing.assert_allclose(held, 2 * MARKED * bench.stage.inputs["x"], rtol=1e-15)
    assert bench.verify(right).failure is None
    assert "elements are off" in bench.verify(wrong).failure.message
    machine.fill(kept.memory.address + 40, 0x3F, 1)
    with pytest.raises(Poisoned, match="what results are judged by"):
        bench.verify(right)
    bench.prepare(request)
    assert bench.verify(right).failure is None


def test_a_reference_that_loses_the_context_is_left_to_numpy_in_a_fresh_process(tmp_path):
    spec = spec_with(tmp_path, FATAL)
    problem = at(1_000_000)
    entry = entry_of(spec, problem)
    with Runner() as gpu:
        assert gpu.prepare(PrepareRequest(spec=spec, problem=problem, default=entry)) is None
        assert gpu.prepared.by_numpy
        ((kernel, reason),) = gpu.notes
        assert kernel == "scale"
        assert reason.endswith(f"at {problem}")
        assert gpu.verify(entry).failure is None
        assert gpu.replaced == 1
