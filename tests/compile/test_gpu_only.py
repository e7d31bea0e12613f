"""What only a GPU can run is found where it is compiled, with its place, and nowhere else."""

from __future__ import annotations

import pytest

from pretuned.compile.host import compiler, gpu_only
from pretuned.render import Source

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")
KERNEL = 'extern "C" __global__ void f({}) {{ {} }}\n'
PLAIN = KERNEL.format("float* y", "y[0] = 1;")


@pytest.mark.parametrize(
    "text",
    [
        "// mma.h, asm, cooperative_groups::this_grid()\n/*\n#include <cub/cub.cuh>\n*/\n" + PLAIN,
        "#ifndef PRETUNED_HOST\n#include <cub/block/block_reduce.cuh>\n#endif\n" + PLAIN,
        '#define FENCE() asm volatile("membar.gl;")\n' + PLAIN,
        'constexpr const char* text = "asm wmma::";\n' + PLAIN,
        "#include <cooperative_groups.h>\n" + KERNEL.format("", "cooperative_groups::this_grid().sync();"),
        "#include <cuda_device_runtime_api.h>\n" + KERNEL.format("", "cudaGridDependencySynchronize();"),
        "#include <cuda_fp8.h>\n#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n" + PLAIN,
    ],
    ids=["comment", "branch", "unused macro", "string", "grid", "pdl", "headers that the host has"],
)
def test_what_is_not_compiled_does_not_count(text):
    assert gpu_only(Source(text=text, options=(), functions=("f",))) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (KERNEL.format("float* y", '\nasm volatile("membar.gl;");'), "2: for GPUs only: inline PTX"),
        ('#define FENCE() asm("")\n' + KERNEL.format("", "FENCE();"), "2: for GPUs only: inline PTX"),
        ("#include <cub/cub.cuh>\n" + PLAIN, "1: for GPUs only: <cub/cub.cuh>"),
        ("#include <cute/tensor.hpp>\n" + PLAIN, "1: for GPUs only: <cute/tensor.hpp>"),
        ("#include <mma.h>\n" + PLAIN, "1: for GPUs only: tensor cores (mma.h)"),
        (KERNEL.format("const __grid_constant__ CUtensorMap map", ""), "1: for GPUs only: tensor maps"),
        (
            "#include <cooperative_groups.h>\n" + KERNEL.format("", "cooperative_groups::this_cluster().sync();"),
            "2: for GPUs only: clusters",
        ),
    ],
    ids=["ptx", "macro", "cub", "cute", "mma", "tensor map", "cluster"],
)
def test_what_only_a_gpu_runs_is_named_with_its_line(text, said):
    assert gpu_only(Source(text=text, options=(), functions=("f",))) == f"kernel.cu:{said}"
