"""What kernels may call on the host: CUDA's device functions, by the values that CUDA documents for them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pretuned.compile import host

FOUND = host.compiler()
pytestmark = pytest.mark.skipif(FOUND is None, reason=host.no_compiler())

HEADERS = [
    "atomics.h",
    "conversions.h",
    "cooperative_groups.h",
    "cooperative_groups/reduce.h",
    "cooperative_groups/scan.h",
    "cuda_bf16.h",
    "cuda_fp16.h",
    "cuda_fp8.h",
    "cuda_runtime.h",
    "device_launch_parameters.h",
    "integers.h",
    "intrinsics.h",
    "lanes.h",
    "math_constants.h",
    "mathematics.h",
    "names.h",
    "rounding.h",
    "vector_functions.h",
    "vector_types.h",
]
STRICT = ("-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{host.FOLDER}")


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


def compiles(text: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Compile a text with our headers alone, none of CUDA's."""
    return subprocess.run(
        [FOUND.path, *STRICT, "-fsyntax-only", *flags, "-x", "c++", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(("-O2", "-ffp-contract=fast", "-march=native"), id="native"),
        pytest.param(("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"), id="portable, under UBSan"),
    ],
)
def test_device_functions_give_what_cuda_documents(tmp_path, flags):
    objects = []
    for source in (Path(__file__).parent / "host_functions.cpp", host.FOLDER / "runtime.cpp"):
        warnings = STRICT[1:4] if source.name == "host_functions.cpp" else ()
        objects.append(tmp_path / f"{source.stem}.o")
        made = run(FOUND.path, STRICT[0], STRICT[4], *warnings, *flags, "-c", source, "-o", objects[-1])
        assert made.returncode == 0, made.stderr
    program = tmp_path / "host_functions"
    made = run(FOUND.path, *flags, *objects, "-o", program)
    assert made.returncode == 0, made.stderr
    done = run(program)
    calls, wrong = (int(word) for word in done.stdout.split()[-4::2])
    assert (done.returncode, wrong, done.stderr) == (0, 0, ""), done.stdout
    assert calls > 250_000  # all values of 16 bits among them


@pytest.mark.parametrize("header", HEADERS)
def test_headers_stand_alone(header):
    made = compiles(f"#include <{header}>\n")
    assert made.returncode == 0, made.stderr


@pytest.mark.parametrize("header", ["cuda_fp4.h", "cuda_fp6.h", "cuda_pipeline.h", "mma.h"])
def test_headers_for_gpus_are_refused_in_one_line(header):
    made = compiles(f"#include <{header}>\n")
    assert made.returncode != 0
    errors = [line for line in made.stderr.splitlines() if "error" in line and header in line and "#error" in line]
    assert errors
    assert "for GPUs only" in errors[0]


# What NVRTC 13.0 makes of each was tried.
KNOWN_TO_NVRTC = {
    "own typedef": "typedef long long int64_t;\n__device__ int64_t f(int64_t a) { return a; }",
    "own std": "namespace std { template <typename T> struct numeric_limits { static constexpr int digits = 1; }; }\n"
    'static_assert(std::numeric_limits<float>::digits == 1, "its own");',
    "constants": "constexpr int index = 3, select = 4; constexpr float gamma = 0.5f, INFINITY = 1.0f, M_PI = 3.0f;",
    "std::move": "__device__ int f(int a) { return std::move(a); }",
    "size_t": "__device__ size_t f(ptrdiff_t a) { return sizeof(a); }",
    "printf": '__device__ void f(int a) { assert(a > 0); printf("%d", a); memset(&a, 0, sizeof(a)); }',
    "half": "#include <cuda_fp16.h>\n__device__ float f(half a) { return __hfma(a, a, 0.5f); }",
}
UNKNOWN_TO_NVRTC = {
    "int32_t": "__device__ int32_t f() { return 0; }",
    "uint": "__device__ uint f() { return 0; }",
    "std::max": "__device__ int f() { return std::max(1, 2); }",
    "std::numeric_limits": "__device__ float f() { return std::numeric_limits<float>::max(); }",
    "NAN": "__device__ float f() { return NAN; }",
    "FLT_MAX": "__device__ float f() { return FLT_MAX; }",
    "M_PI": "__device__ double f() { return M_PI; }",
    "max of long long and int": "__device__ long long f(long long a, int b) { return max(a, b); }",
    "atomicAdd of long long": "__device__ long long f(long long* a) { return atomicAdd(a, 1LL); }",
    "atomicCAS of float": "__device__ float f(float* a) { return atomicCAS(a, 1.0f, 2.0f); }",
    "atomicSub of float": "__device__ float f(float* a) { return atomicSub(a, 1.0f); }",
    "half without its header": "__device__ float f(half a) { return a; }",
}
BEGINNING = '#include "device.h"\n#include "names.h"\n'


@pytest.mark.parametrize("text", KNOWN_TO_NVRTC.values(), ids=KNOWN_TO_NVRTC)
def test_what_nvrtc_compiles_compiles(text):
    made = compiles(BEGINNING + text, "-w")
    assert made.returncode == 0, made.stderr


@pytest.mark.parametrize("text", UNKNOWN_TO_NVRTC.values(), ids=UNKNOWN_TO_NVRTC)
def test_what_nvrtc_refuses_does_not_compile(text):
    assert compiles(BEGINNING + text, "-w").returncode != 0


def test_headers_of_cuda_may_include_the_math_library():
    made = compiles(BEGINNING + "#include <math.h>\n__device__ float f(float a) { return sqrt(a) + abs(a); }")
    assert made.returncode == 0, made.stderr  # cuComplex.h does


def test_an_assumption_that_does_not_hold_is_told(tmp_path):
    source, program = tmp_path / "assume.cpp", tmp_path / "assume"
    source.write_text('#include "intrinsics.h"\nint main(int count, char**) { __builtin_assume(count > 5); }\n')
    flags = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
    made = run(FOUND.path, *STRICT, *flags, source, "-o", program)
    assert made.returncode == 0, made.stderr
    if not FOUND.is_gcc:
        pytest.skip("Clang's __builtin_assume is not watched")
    done = run(program)
    assert done.returncode != 0
    assert "assume.cpp:2" in done.stderr
