"""A kernel with a header of its own, CUB and what nvcc gives: compiled, launched and verified."""

from __future__ import annotations

import pytest

from pretuned.compile.pool import compile_all
from pretuned.compile.result import Binary
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.outcome import CompileError
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.space import all_problems
from specs import loaded

pytestmark = pytest.mark.gpu

HEADER = """\
#pragma once
#include <cstdint>
template <typename T>
T worst() { return -INFINITY; }
constexpr uint32_t lanes = 32;
"""
TEMPLATE = """\
#include <cuda_fp16.h>
#include <cub/warp/warp_reduce.cuh>
#include "load/worst.cuh"

float largest(float a, float b) { return a > b ? a : b; }

extern "C" __global__ void scale({{ T }}* y, const {{ T }}* x, float a, int32_t n) {
    using Reduce = cub::WarpReduce<float>;
    __shared__ typename Reduce::TempStorage storage[{{ block }} / lanes];
    const int32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    const float own = i < n ? static_cast<float>(x[i]) : worst<float>();
    const float sum = Reduce(storage[threadIdx.x / lanes]).Sum(own);
    if (i < n) y[i] = static_cast<{{ T }}>(a * (largest(sum, worst<float>()) < FLT_MAX ? own : own));
}
"""


def test_own_headers_and_cub_run(tmp_path):
    pytest.importorskip("cupy")
    from pretuned.measure.bench import Bench  # noqa: PLC0415 - beside the machine
    from pretuned.measure.cuda.machine import CudaMachine  # noqa: PLC0415 - imports CuPy

    machine = CudaMachine(0)
    (tmp_path / "include" / "load").mkdir(parents=True)
    (tmp_path / "include" / "load" / "worst.cuh").write_text(HEADER)
    include = ("[constraints]", '[compile]\ninclude = ["include"]\n\n[constraints]')
    spec = loaded(tmp_path, include, template=TEMPLATE)
    configuration, problem = space.default(spec), all_problems(spec)[0]
    source = source_of(spec, problem.specialisation, configuration)
    binary = compile_all([source], f"sm_{machine.facts.compute_capability}", workers=1)[source.key]
    if isinstance(binary, CompileError) and "cub/" in binary.line:
        pytest.skip("no nvidia-cuda-cccl here")
    assert isinstance(binary, Binary), binary
    bench, entry = Bench(machine), CompiledCandidate.of(configuration, binary)
    bench.prepare(PrepareRequest(spec=spec, problem=problem, default=entry))
    assert bench.verify(entry).failure is None
