"""Static and dynamic shared memory of one kernel, which together take more than a block gets without asking."""

from __future__ import annotations

import pytest

from pretuned.compile.pool import compile_all
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.space import all_problems
from specs import loaded

pytestmark = pytest.mark.gpu

TEMPLATE = """\
#include <cuda_fp16.h>

extern "C" __global__ void scale({{ T }}* y, const {{ T }}* x, float a, int n) {
    __shared__ float kept[{{ block }} * 40];
    extern __shared__ float passing[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    kept[threadIdx.x * 40 + (i & 31)] = a;
    passing[threadIdx.x * 40 + (n & 31)] = i < n ? static_cast<float>(x[i]) : 0.0f;
    __syncthreads();
    if (i < n) y[i] = static_cast<{{ T }}>(kept[threadIdx.x * 40 + (i & 31)] * passing[threadIdx.x * 40 + (n & 31)]);
}
"""


def test_static_and_dynamic_together_may_pass_48_kib(tmp_path):
    pytest.importorskip("cupy")
    from pretuned.measure.bench import Bench  # noqa: PLC0415 - beside the machine
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - imports CuPy

    machine = CudaMachine(0)
    spec = loaded(
        tmp_path, ('block    = ["block"]', 'block    = ["block"]\nshared   = "block * 160"'), template=TEMPLATE
    )
    configuration = space.default(spec)
    problem = all_problems(spec)[0]
    module = source_of(spec, problem.specialisation, configuration)
    architecture = f"sm_{machine.facts.compute_capability}"
    binary = compile_all([module], architecture, workers=1)[module.key]
    assert next(iter(binary.resources.values())).shared_bytes == 40960
    bench, entry = Bench(machine), CompiledCandidate.of(configuration, binary)
    bench.prepare(PrepareRequest(spec=spec, problem=problem, default=entry))
    assert bench.verify(entry).failure is None
