"""What nvcc gives a `.cu` file: the examples of docs/guide/from-nvcc.md, each header, and that nothing else changes."""

from __future__ import annotations

import itertools

import pytest

from documents import in_language
from pretuned.compile import host
from pretuned.compile.nvrtc import REPORT, compile_source
from pretuned.compile.result import Binary
from pretuned.outcome import CompileError
from pretuned.render import Source
from pretuned.runtime import prelude
from pretuned.runtime.recompile import include_flags

PAGE = "docs/guide/from-nvcc.md"
KERNEL = 'extern "C" __global__ void f(float* x, int i) {{ x[i] = {}; }}\n'
# Every type and macro that the prelude has, so that none of them is misspelt, with what it is.
EXPRESSIONS = [
    *(f"sizeof({sign}int{bits}_t) == {bits // 8}" for sign, bits in itertools.product(("", "u"), (8, 16, 32, 64))),
    *(f"sizeof({sign}int{kind}_t) == 8" for sign, kind in itertools.product(("", "u"), ("ptr", "max"))),
    *("INT8_MIN == -128", "INT16_MAX == 32767", "INT32_MIN < -2147483647", "INT64_MAX == 9223372036854775807LL"),
    *("UINT8_MAX == 255", "UINT16_MAX == 65535", "UINT32_MAX == ~0u", "UINT64_MAX == ~0ull", "SIZE_MAX == ~0ull"),
    *("CHAR_BIT == 8", "UCHAR_MAX == 255", "SHRT_MIN == -32768", "USHRT_MAX == 65535", "LLONG_MIN < 0"),
    *("INFINITY > FLT_MAX", "NAN != NAN", "HUGE_VAL > DBL_MAX", "HUGE_VALF == INFINITY", "FLT_TRUE_MIN > 0"),
    *("FLT_MIN < FLT_EPSILON", "1 + FLT_EPSILON > 1", "DBL_MIN < DBL_EPSILON", "FLT_DIG < DBL_DIG", "M_PI > 3.14"),
    *("M_E > 2.7", "M_SQRT2 * M_SQRT1_2 > 0.99", "M_PI_2 > M_PI_4", "M_LN2 < M_LN10", "M_1_PI < M_2_PI"),
]
STD = """
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
static_assert(std::numeric_limits<float>::max() == FLT_MAX && std::numeric_limits<float>::lowest() == -FLT_MAX);
static_assert(std::numeric_limits<double>::infinity() > DBL_MAX && !std::numeric_limits<int>::has_infinity);
static_assert(std::numeric_limits<long>::min() < 0 && std::numeric_limits<unsigned long>::max() == ~0ul);
static_assert(std::numeric_limits<int8_t>::max() == 127 && std::numeric_limits<const uint16_t>::digits == 16);
static_assert(std::max(1, 2) == 2 && std::min(1.5f, 2.5f) == 1.5f && std::clamp(7, 0, 3) == 3);
static_assert(sizeof(std::uint64_t) == 8 && sizeof(std::size_t) == 8);
"""


def compiled(text, *options, architecture="sm_80"):
    return compile_source(Source(text=text, options=options, functions=("f",)), architecture)


def examples():
    return [block for block in in_language("cuda") if block.page == PAGE]


@pytest.mark.parametrize("block", examples(), ids=str)
def test_an_example_of_the_page_compiles(block):
    assert isinstance(compiled(block.text), Binary)


@pytest.mark.skipif(host.compiler() is None, reason="no C++ compiler here")
def test_the_first_example_runs_on_the_host_device_too():
    source = Source(text=examples()[0].text, options=(), functions=("clip",))
    assert isinstance(host.compile_source(source, host.HOST), Binary)


def test_each_name_is_what_it_is_under_nvcc():
    text = "".join(f"static_assert({expression});\n" for expression in EXPRESSIONS) + STD
    assert isinstance(compiled(text + KERNEL.format("std::sqrt(std::fabs(x[0])) + std::pow(x[1], 2.f)")), Binary)
    if host.compiler() is not None:
        source = Source(text=text + KERNEL.format("1.f"), options=(), functions=("f",))
        assert isinstance(host.compile_source(source, host.HOST), Binary)


@pytest.mark.slow
def test_each_header_compiles_alone_and_before_cudas_own():
    headers = [name for name in prelude.HEADERS if name != prelude.NAME]
    texts = [f"#include <{name}>\n" + KERNEL.format("1.f") for name in headers]
    texts.append("".join(f"#include <{name}>\n" for name in headers) + "#include <cuda/std/limits>\n" + texts[0])
    assert [text for text in texts if not isinstance(compiled(text), Binary)] == []


def test_lines_of_errors_stay_what_they_are():
    text = "#include <cstdint>\n\nuint32_t one;\n" + KERNEL.format("nowhere")
    assert compiled(text) == CompileError(line='kernel.cu(4): error: identifier "nowhere" is undefined')


@pytest.mark.parametrize(
    "text",
    [
        "#define INFINITY __int_as_float(0x7f800000)\n" + KERNEL.format("INFINITY"),
        "typedef unsigned int uint32_t;\nusing int64_t = long long;\n" + KERNEL.format("uint32_t(1)"),
        "#ifndef M_PI\n#define M_PI 3\n#endif\n" + KERNEL.format("M_PI"),
        "__device__ float twice(float a) { return 2 * a; }\n" + KERNEL.format("twice(x[1])"),
    ],
)
def test_a_source_that_has_such_names_itself_compiles(text):
    assert isinstance(compiled(text), Binary)


def test_a_source_that_uses_none_of_it_compiles_to_the_same_bytes():
    nvrtc = pytest.importorskip("cupy.cuda").nvrtc
    text = "#include <cuda_fp16.h>\nconstexpr int n = 4;\n" + KERNEL.format("__half2float(__float2half(x[0])) * n")
    ours = compiled(text)
    program = nvrtc.createProgram(text, "kernel.cu", (), ())
    nvrtc.compileProgram(program, ("-arch=sm_80", "--std=c++17", REPORT, *include_flags()))
    assert ours.image == bytes(nvrtc.getCUBIN(program)) + b"\0"
