"""`<pretuned/tma.h>` under NVRTC, and kernels that take a tensor map otherwise than it is passed."""

from __future__ import annotations

import re

import pytest

import mapped
from pretuned.build.contract import compare_specs
from pretuned.compile.nvrtc import compile_source
from pretuned.compile.result import Binary
from pretuned.render import Source
from pretuned.spec.loader import load

pytest.importorskip("cupy")
ALL = """
#include <pretuned/tma.h>
extern "C" __global__ void f(const __grid_constant__ CUtensorMap map, int i) {{
    static_assert(sizeof(CUtensorMap) == 128 && alignof(CUtensorMap) == 64);
    __shared__ alignas(128) float box[1024];
    __shared__ tma::Barrier loaded;
    tma::prefetch(&map);
    tma::init(&loaded, 2);
    tma::arrive(&loaded);
    tma::expect(&loaded, sizeof(box));
    {loads}
    if (!tma::ended(&loaded, 0)) tma::wait(&loaded, 0);
    tma::fence();
    {stores}
    tma::commit();
    tma::wait_read();
    tma::wait_read<1>();
    tma::wait_stored();
}}
"""
INDICES = [", ".join(f"i + {axis}" for axis in range(rank)) for rank in range(1, 6)]
TEXT = ALL.format(
    loads=" ".join(f"tma::load(box, &map, &loaded, {index});" for index in INDICES),
    stores=" ".join(f"tma::store(&map, box, {index});" for index in INDICES),
)


def compiled(text, architecture):
    return compile_source(Source(text=text, options=(), functions=("f",)), architecture)


def test_each_function_is_its_instruction_at_each_rank():
    binary = compiled(TEXT, "compute_90")
    assert isinstance(binary, Binary), binary
    ptx = re.sub(r"\s+", " ", binary.image.decode())
    for rank in range(1, 6):
        assert f"cp.async.bulk.tensor.{rank}d.shared::cluster.global" in ptx
        assert f"cp.async.bulk.tensor.{rank}d.global.shared::cta" in ptx
    for instruction in ("mbarrier.init", "mbarrier.arrive.expect_tx", "mbarrier.try_wait.parity", "prefetch.tensormap"):
        assert instruction in ptx
    # The index of rank 2 as the hardware wants it: the innermost first.
    inner = re.search(r"cp\.async\.bulk\.tensor\.2d\.shared\S+ \[%r\d+\], \[%rd\d+, \{(%r\d+), (%r\d+)\}\]", ptx)
    assert re.search(rf"add\.s32 {inner[1]}, {inner[2]}, 1;", ptx), inner[0]


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_90", "sm_100"])
def test_it_compiles_to_machine_code(architecture):
    assert isinstance(compiled(TEXT, architecture), Binary)


def test_a_source_that_does_not_use_it_may_include_it_on_older_devices():
    text = '#include <pretuned/tma.h>\nextern "C" __global__ void f(float* x) { x[0] = 1; }'
    assert isinstance(compiled(text, "sm_80"), Binary)


def test_cudas_own_type_goes_before_it():
    own = "typedef struct CUtensorMap_st { alignas(64) unsigned long long opaque[16]; } CUtensorMap;"
    assert isinstance(compiled(f"#define __cuda_cuda_h__\n{own}{TEXT}", "compute_90"), Binary)


def test_a_kernel_that_takes_a_map_by_pointer_is_refused(tmp_path):
    mapped.spec(tmp_path)
    template = tmp_path / "tiles.cu.jinja"
    template.write_text(
        template.read_text().replace("const __grid_constant__ CUtensorMap x_map", "const CUtensorMap* x_map")
    )
    specs = {"turned": load(tmp_path / "turned.toml")}
    (fault,) = compare_specs(specs.values(), tmp_path / "cache").faults.values()
    assert "takes 'x_map' as *class; the spec has CUtensorMap of 128 bytes" in fault.message
    taken = (
        "const __grid_constant__ CUtensorMap out_map, int rows, const __grid_constant__ CUtensorMap x_map, float factor"
    )
    assert f'write `extern "C" __global__ void tiles({taken}, ' in fault.message
