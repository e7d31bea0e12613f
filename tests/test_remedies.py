"""What to do about failures: the remedy that follows from what a compiler or a check says."""

from __future__ import annotations

import pytest

import mapped
from pretuned.measure.bench import ALONE, UNSET
from pretuned.outcome import CompileError, Crashed, LaunchFailed, WrongResult
from pretuned.remedies import BOX, FULL, INDICES, of_default, remedy
from specs import loaded

HEADERS = [
    ("k.cu:2: error: \u2018__half\u2019 does not name a type", "cuda_fp16.h"),
    ('k.cu:2: error: identifier "__half2" is undefined', "cuda_fp16.h"),
    ("k.cu:2: error: unknown type name '__nv_bfloat16'", "cuda_bf16.h"),
    ("k.cu:2: error: use of undeclared identifier '__float2half'", "cuda_fp16.h"),
    ("k.cu:2: error: \u2018__nv_fp8_e5m2\u2019 was not declared in this scope", "cuda_fp8.h"),
]
OFF = "y: {} of 1,000 elements are off, first at [0]: 1 instead of 2"


@pytest.mark.parametrize(("line", "header"), HEADERS)
def test_an_unknown_type_of_cuda_is_answered_by_its_header(tmp_path, line, header):
    assert remedy(CompileError(line=line), loaded(tmp_path)) == f"write `#include <{header}>` in the template"


@pytest.mark.parametrize(
    "failure",
    [
        LaunchFailed(message="CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
        Crashed(message="cudaErrorMemoryAllocation: out of memory"),
        Crashed(message="cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,192 bytes"),
    ],
)
def test_memory_that_others_hold_is_not_the_kernels_fault(tmp_path, failure):
    assert remedy(failure, loaded(tmp_path)) == FULL


def test_a_default_is_changed_or_mended(tmp_path):
    spec = loaded(tmp_path)
    assert of_default(LaunchFailed(message="too much shared memory"), spec) == (
        "choose a default that can be launched there, or demand in `requires` what it needs"
    )
    assert of_default(Crashed(message="SIGKILL"), spec) == "mend the kernel, or the reference if that is wrong"


TABLE = 'write `architectures = ["sm_{}"]` in the project\'s table'
CLUSTER = "give its launch `cluster = [...]`, not `__cluster_dims__`: it is then compiled for sm_90 and newer alone"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("ptxas error: Feature 'griddepcontrol' requires .target sm_90 or higher", TABLE.format(90)),
        (
            "ptxas error: Instruction 'tcgen05.alloc' requires .target sm_100a or higher",
            f"{TABLE.format(100)}, and `arch-specific = true` into [compile] of the spec",
        ),
        ("kernel.cu(3): error: __cluster_dims__ is not supported for this GPU architecture", CLUSTER),
        ('kernel.cu(3): error: namespace "cooperative_groups" has no member "this_cluster"', CLUSTER),
        ('kernel.cu(3): error: identifier "__cluster_barrier_arrive" is undefined', CLUSTER),
    ],
)
def test_a_feature_of_newer_gpus_is_answered_by_what_to_write(tmp_path, line, wanted):
    assert remedy(CompileError(line=line), loaded(tmp_path)) == wanted


MISSING = {
    "cub/block/block_load.cuh": 'as in `pip install "nvidia-cuda-cccl==13.0.*"` (nvidia-cuda-cccl-cu12 for CUDA 12)',
    "nv/target": "it comes with CUDA's C++ library",
    "cccl/cuda/std/type_traits": "it comes with CUDA's C++ library",
    "cute/tensor.hpp": 'include = ["package:nvidia-cutlass/cutlass_library/source/include"]',
    "crt/mma.h": "`pip install nvidia-cuda-crt` of NVRTC's release",
    "cuda_fp16.h": "`pip install nvidia-cuda-runtime` of NVRTC's release",
    "vector": "device code cannot use: remove the `#include`",
    "mine.cuh": '["../include"]; a header that reads parameters comes in by `{% include "mine.cuh" %}`',
}


@pytest.mark.parametrize(
    "line",
    [
        'kernel.cu(1): catastrophic error: cannot open source file "{}"',
        "kernel.cu:1:10: fatal error: {}: No such file or directory",
        "kernel.cu:1:10: fatal error: '{}' file not found",
    ],
)
@pytest.mark.parametrize("name", MISSING)
def test_a_header_that_is_not_found_is_answered_by_where_it_comes_from(tmp_path, line, name):
    assert MISSING[name] in remedy(CompileError(line=line.format(name)), loaded(tmp_path))


@pytest.mark.parametrize(
    ("message", "begin"),
    [
        ("x: an input was changed, first at element 0", "compare the order of the kernel's parameters"),
        ("y: written 1 element past its end", "check the index before it is written to"),
        ("y: 1 of 1 elements are off, first at [0]: nan instead of 2", "an output is NaN until it is written"),
        (OFF.format("900"), "most elements are wrong"),
        (OFF.format("900") + f"; with y in place of x{ALONE}", "read what is needed of the input before it is written"),
        (OFF.format("900") + f"; with x at a multiple of 8 bytes and no more{ALONE}", "the kernel takes more of an"),
        (OFF.format("900") + f"; {UNSET}", "an output or scratch is read before it is written"),
        (OFF.format("90"), ""),
    ],
)
def test_a_wrong_result_is_answered_by_its_likely_cause(tmp_path, message, begin):
    found = remedy(WrongResult(argument="y", message=message), loaded(tmp_path))

    assert found.startswith(begin)
    assert bool(found) == bool(begin)


def test_integers_that_are_one_apart_are_answered_by_the_tolerance(tmp_path):
    output = 'role = "out", dtype = "T", shape = ["n"], align = "vec * sizeof(T)"'
    spec = loaded(tmp_path, (output, 'role = "out", dtype = "int8", shape = ["n"]'))
    off = "y: 3 of 100 elements are off by up to {}, first at [9]: 4 instead of 5; allowed: 0"

    assert remedy(WrongResult(argument="y", message=off.format(1)), spec) == (
        "integers are compared exactly: where a rounding may differ, write `atol = { int8 = 1 }` into [verify]"
    )
    assert not remedy(WrongResult(argument="y", message=off.format(12)), spec)


def test_a_crash_of_a_kernel_that_reads_random_indices_is_answered_by_inputs(tmp_path):
    crash = Crashed(message="an illegal memory access was encountered")
    indices = (
        'name = "x", role = "in"',
        'name = "i", role = "in", dtype = "int32", shape = ["n"] },\n  { name = "x", role = "in"',
    )

    assert remedy(crash, loaded(tmp_path, indices)) == INDICES
    ranged = ('dtype = "int32", shape = ["n"] }', 'dtype = "int32", shape = ["n"], fill = { from = 0, to = "n - 1" } }')
    assert not remedy(crash, loaded(tmp_path, indices, ranged))
    assert not remedy(crash, loaded(tmp_path))
    assert not remedy(Crashed(message="ended by SIGABRT"), loaded(tmp_path, indices))


def test_an_illegal_instruction_of_a_kernel_with_tensor_maps_is_answered_by_where_boxes_begin(tmp_path):
    stopped = Crashed(message="cudaErrorIllegalInstruction: an illegal instruction was encountered")

    assert remedy(stopped, mapped.spec(tmp_path)) == BOX
    assert not remedy(stopped, loaded(tmp_path))


@pytest.mark.parametrize(
    "failure",
    [CompileError(line="k.cu:1: error: expected a ';'"), LaunchFailed(message="too much shared memory")],
)
def test_what_says_all_by_itself_has_no_remedy(tmp_path, failure):
    assert not remedy(failure, loaded(tmp_path))
