"""Compiling with NVRTC, which needs no GPU."""

from __future__ import annotations

import re

import pytest

from children import worker
from pretuned.compile import pool
from pretuned.compile.nvrtc import first_error, resources
from pretuned.compile.pool import CompilePool, compile_all
from pretuned.compile.result import Binary, Resources
from pretuned.errors import DeviceError
from pretuned.outcome import CompileError, Crashed, TimedOut
from pretuned.record.cache import Cache
from pretuned.render import Source
from pretuned.runtime import prelude
from pretuned.runtime.types import DTYPES
from pretuned.tune.binaries import BinaryStore
from pretuned.tune.spending import Spending

KERNEL = """
extern "C" __global__ void copy(float* out, const float* x) {
    __shared__ float tile[%d];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[31 - threadIdx.x];
}
"""
HUNGRY = """
extern "C" __global__ void hungry(float* out, const float* x) {
    float values[96];
    for (int i = 0; i < 96; ++i) values[i] = x[threadIdx.x + 32 * i];
    for (int k = 0; k < 4; ++k)
        for (int i = 0; i < 96; ++i) values[i] = values[i] * values[95 - i] + values[(i * 7 + k) % 96];
    for (int i = 0; i < 96; ++i) out[threadIdx.x + 32 * i] = values[i];
}
"""


def module(source, *options):
    return Source(text=source, options=options, functions=("copy",))


@pytest.fixture(scope="module")
def compiled():
    modules = {
        "small": module(KERNEL % 32),
        "large": module(KERNEL % 1024),
        "spilling": module(HUNGRY, "--maxrregcount=24"),
        "broken": module('extern "C" __global__ void copy() {\n    int x = nowhere;\n}'),
        "shared": module(KERNEL % (49 * 256)),
        "half": module('#include <cuda_fp16.h>\n#include <cuda_bf16.h>\nextern "C" __global__ void copy(__half* x) {}'),
    }
    results = compile_all(modules.values(), "sm_90", workers=2)
    return {name: results[one.key] for name, one in modules.items()}


def test_a_binary_tells_what_was_compiled_and_how(compiled):
    binary = compiled["small"]
    assert isinstance(binary, Binary)
    assert binary.image.startswith(b"\x7fELF")
    assert binary.architecture == "sm_90"
    assert binary.flags == ("-arch=sm_90", *prelude.FLAGS, "--ptxas-options=-v")
    assert re.fullmatch(r"\d+\.\d+\.\d+", binary.compiler)


def test_resources_are_read_off_the_log(compiled):
    assert compiled["small"].resources["copy"].shared_bytes == 128
    assert compiled["large"].resources["copy"].shared_bytes == 4096
    assert compiled["small"].resources["copy"].registers > 0
    assert compiled["spilling"].resources["hungry"].spill_bytes > 0
    assert compiled["spilling"].resources["hungry"].registers <= 24


def test_cudas_own_headers_are_found(compiled):
    assert isinstance(compiled["half"], Binary)


def test_a_compile_error_is_an_outcome_with_its_first_line(compiled):
    assert compiled["broken"] == CompileError(line='kernel.cu(2): error: identifier "nowhere" is undefined')


def test_more_static_shared_memory_than_a_block_has_is_a_compile_error(compiled):
    assert isinstance(compiled["shared"], CompileError)
    assert "shared data" in compiled["shared"].line


def test_the_same_text_gives_the_same_bytes_in_another_process(compiled):
    (again,) = compile_all([module(KERNEL % 32)], "sm_90").values()
    assert again.digest == compiled["small"].digest


def test_ptx_for_a_virtual_architecture():
    (binary,) = compile_all([module(KERNEL % 32)], "compute_80").values()
    assert b".target sm_80" in binary.image
    assert binary.image.endswith(b"\0")


def test_ptx_comes_with_a_cubin_of_the_same_source_as_it_would_alone():
    each = [(), ("-lineinfo",), ("--use_fast_math", "--maxrregcount=24")]
    sources = [module(text, *options) for options in each for text in (KERNEL % 32, HUNGRY)]
    broken = [module("int x = nowhere;", *options) for options in each]
    spending = Spending()
    with BinaryStore(Cache(None), spending, workers=1) as binaries:
        found = binaries.all([(one, arch) for one in (*sources, *broken) for arch in ("compute_90", "sm_90")])
    assert spending.compiled == len(sources) + 2 * len(broken)  # what failed is compiled to PTX once more
    for architecture in ("compute_90", "sm_90"):
        alone = compile_all(sources, architecture, workers=1)
        assert {one.key: found[one.key, architecture] for one in sources} == alone
        assert all(isinstance(found[one.key, architecture], CompileError) for one in broken)


def test_ptx_is_there_where_ptxas_refuses_the_cubin():
    shared = module(KERNEL % (49 * 256))
    with BinaryStore(Cache(None), Spending(), workers=1) as binaries:
        found = binaries.all([(shared, "compute_90"), (shared, "sm_90")])
    assert isinstance(found[shared.key, "compute_90"], Binary)
    assert isinstance(found[shared.key, "sm_90"], CompileError)


def test_identical_modules_are_compiled_once():
    with CompilePool(1, toolchain=worker("children:compiler")) as workers:
        jobs = [(module("int a;"), "sm_90"), (module("int  a;  // the same"), "sm_90"), (module("int b;"), "sm_90")]
        keys = [one.key for (one, _), _ in workers.compile(jobs)]
    assert sorted(keys) == sorted({one.key for one, _ in jobs})
    assert len(keys) == 2


def test_a_compiler_that_crashes_or_hangs_costs_that_module_only(monkeypatch):
    monkeypatch.setattr(pool, "START_S", 2.0)
    monkeypatch.setattr(pool, "POLL_S", 0.1)
    with CompilePool(1, limit_s=0.5, toolchain=worker("children:compiler")) as workers:
        jobs = [(module(text), "sm_90") for text in ("int die;", "int hang;", "int fine;")]
        results = {one.text: result for (one, _), result in workers.compile(jobs)}
    assert results["int die;"] == Crashed(message="the compiler ended by SIGKILL")
    assert results["int hang;"] == TimedOut(limit_s=0.5)
    assert results["int fine;"] == CompileError(line="int fine;")


def test_without_nvrtc_the_error_says_what_to_install():
    message = (
        "compiling needs CuPy and NVRTC (no module named 'cupy'): "
        "install pretuned[cuda13], or pretuned[cuda12] for a driver older than 580"
    )
    with pytest.raises(DeviceError, match=re.escape(message)):
        compile_all([module("int missing;")], "sm_90", toolchain=worker("children:compiler"))


def test_logs_of_several_functions():
    log = (
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function 'a' for 'sm_90'\n"
        "ptxas info    : Function properties for a\n"
        "    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 40 registers, used 1 barriers, 256 bytes smem\n"
        "ptxas info    : Compiling entry function 'b' for 'sm_90'\n"
        "ptxas info    : Function properties for b\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 12 registers, used 0 barriers\n"
        "ptxas info    : Function properties for called_by_b\n"
        "    64 bytes stack frame, 5 bytes spill stores, 6 bytes spill loads\n"
    )
    assert resources(log) == {
        "a": Resources(registers=40, spill_bytes=16, shared_bytes=256),
        "b": Resources(registers=12, spill_bytes=11, shared_bytes=0),
    }
    assert first_error("kernel.cu(1): warning: odd\nkernel.cu(3): error: bad\n") == "kernel.cu(3): error: bad"


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_the_kernels_that_judge_results_compile_for_every_floating_type(architecture):
    judge = pytest.importorskip("pretuned.measure.cuda.judge")
    source = Source(text=judge.source(), options=(), functions=())
    (binary,) = compile_all([source], architecture).values()
    assert isinstance(binary, Binary)
    assert all(name.encode() in binary.image for name in judge.KERNELS)
    assert {f"widen_{name}" for name, dtype in DTYPES.items() if dtype.floating} <= {*judge.KERNELS}
