"""<cuda_fp8.h> of the host device: codes and rounding as ml_dtypes has them, saturation as CUDA has it."""

from __future__ import annotations

import ctypes
import subprocess

import ml_dtypes
import numpy as np
import pytest

from pretuned.compile import host
from pretuned.runtime.types import DTYPES

FOUND = host.compiler()
pytestmark = pytest.mark.skipif(FOUND is None, reason=host.no_compiler())

SOURCE = """
#include "device.h"
#include <cuda_fp8.h>

template <typename Value, typename Fp8>
void converted(const Value* x, unsigned char* y, long n) {
    for (long i = 0; i < n; ++i) y[i] = Fp8(x[i]).__x;
}
template <typename Fp8>
void all(float* numbers, double* doubles, unsigned short* halves, int* integers) {
    for (int code = 0; code < 256; ++code) {
        Fp8 x;
        x.__x = static_cast<unsigned char>(code);
        numbers[code] = static_cast<float>(x);
        doubles[code] = static_cast<double>(x);
        halves[code] = __half_raw(static_cast<__half>(x)).x;
        integers[code] = static_cast<int>(x);
    }
}
#define FORMAT(name, type, format, two, four)                                                                       \\
    extern "C" void name##_of_float(const float* x, unsigned char* y, long n) { converted<float, type>(x, y, n); }   \\
    extern "C" void name##_of_double(const double* x, unsigned char* y, long n) { converted<double, type>(x, y, n); } \\
    extern "C" void name##_of_int(const int* x, unsigned char* y, long n) { converted<int, type>(x, y, n); }         \\
    extern "C" void name##_all(float* f, double* d, unsigned short* h, int* i) { all<type>(f, d, h, i); }            \\
    extern "C" void name##_unsaturated(const float* x, unsigned char* y, long n) {                                   \\
        for (long i = 0; i < n; ++i) y[i] = __nv_cvt_float_to_fp8(x[i], __NV_NOSAT, format);                          \\
    }                                                                                                                \\
    extern "C" void name##_packed(const float* x, float* y, unsigned* z) {                                           \\
        const four v(float4{x[0], x[1], x[2], x[3]});                                                                \\
        *reinterpret_cast<float4*>(y) = static_cast<float4>(v);                                                      \\
        z[0] = v.__x;                                                                                                \\
        z[1] = two(float2{x[0], x[1]}).__x;                                                                          \\
        z[2] = __nv_cvt_float2_to_fp8x2(float2{x[0], x[1]}, __NV_SATFINITE, format);                                  \\
        z[3] = four(double4{x[0], x[1], x[2], x[3]}).__x;                                                            \\
    }
FORMAT(float8_e4m3fn, __nv_fp8_e4m3, __NV_E4M3, __nv_fp8x2_e4m3, __nv_fp8x4_e4m3)
FORMAT(float8_e5m2, __nv_fp8_e5m2, __NV_E5M2, __nv_fp8x2_e5m2, __nv_fp8x4_e5m2)
"""
FORMATS = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("float8")
    (folder / "float8.cpp").write_text(SOURCE)
    command = [FOUND.path, "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{host.FOLDER}"]
    files = [folder / "float8.cpp", host.FOLDER / "runtime.cpp", "-o", folder / "float8.so"]
    made = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return ctypes.CDLL(str(folder / "float8.so"))


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def codes(function, values):
    found = np.empty(len(values), np.uint8)
    function(pointer(values), pointer(found), ctypes.c_long(len(values)))
    return found


def floats():
    """Floats of every exponent, with both neighbours of each: all midpoints of 8 bits, and what lies beside them."""
    bits = np.arange(0, 1 << 32, 1 << 14, dtype=np.int64)
    return np.concatenate([(bits + beside) % (1 << 32) for beside in (-1, 0, 1)]).astype(np.uint32).view(np.float32)


def saturated(values, name):
    """Return the codes of ml_dtypes, but for what is no number: CUDA's classes give the largest number, or 0x7f."""
    kind, largest = getattr(ml_dtypes, name), FORMATS[name]
    with np.errstate(all="ignore"):
        wanted = np.clip(values, -largest, largest).astype(kind).view(np.uint8)
    return np.where(np.isnan(values), 0x7F, wanted)


@pytest.mark.parametrize("name", FORMATS)
def test_every_code_is_the_number_of_ml_dtypes(library, name):
    numbers, doubles = np.empty(256, np.float32), np.empty(256, np.float64)
    halves, integers = np.empty(256, np.uint16), np.empty(256, np.int32)
    getattr(library, f"{name}_all")(*map(pointer, (numbers, doubles, halves, integers)))
    wanted = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, name)).astype(np.float32)
    for found in (numbers, doubles, halves.view(np.float16)):
        assert np.array_equal(found, wanted, equal_nan=True)
        assert np.array_equal(np.signbit(found), np.signbit(wanted) & ~np.isnan(wanted))
    assert np.array_equal(integers[np.isfinite(wanted)], np.trunc(wanted[np.isfinite(wanted)]))


@pytest.mark.parametrize("name", FORMATS)
def test_floats_round_to_the_nearest_number_and_saturate(library, name):
    values = floats()
    assert np.array_equal(codes(getattr(library, f"{name}_of_float"), values), saturated(values, name))
    whole = np.arange(-100_000, 100_000, dtype=np.int32)
    assert np.array_equal(codes(getattr(library, f"{name}_of_int"), whole), saturated(whole.astype(np.float32), name))


@pytest.mark.parametrize("name", FORMATS)
def test_doubles_are_rounded_once(library, name):
    numbers = np.arange(0x7F, dtype=np.uint8).view(getattr(ml_dtypes, name)).astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    midway = (numbers[1:] + numbers[:-1]) / 2
    found = codes(getattr(library, f"{name}_of_double"), np.nextafter(midway, np.inf))
    assert np.array_equal(found, np.arange(1, len(numbers)))  # as floats they would be midway, and half of them go down
    found = codes(getattr(library, f"{name}_of_double"), np.nextafter(midway, 0.0))
    assert np.array_equal(found, np.arange(len(numbers) - 1))


@pytest.mark.parametrize("name", FORMATS)
def test_without_saturation_the_codes_are_those_of_ml_dtypes(library, name):
    values = floats()
    with np.errstate(all="ignore"):
        wanted = values.astype(getattr(ml_dtypes, name)).view(np.uint8)
    wanted = np.where(np.isnan(values), 0x7F, wanted)  # which has several NaNs, and CUDA one
    assert np.array_equal(codes(getattr(library, f"{name}_unsaturated"), values), wanted)


@pytest.mark.parametrize("name", FORMATS)
def test_pairs_and_fours_begin_with_the_lowest_byte(library, name):
    values = np.array([1.0, -2.25, 1e9, 0.001], np.float32)
    wide, packed = np.empty(4, np.float32), np.empty(4, np.uint32)
    getattr(library, f"{name}_packed")(*map(pointer, (values, wide, packed)))
    wanted = saturated(values, name).astype(np.uint8)
    four, two = int(wanted.view("<u4")[0]), int(wanted.view("<u2")[0])
    assert packed.tolist() == [four, two, two, four]
    assert np.array_equal(wide, wanted.view(getattr(ml_dtypes, name)).astype(np.float32))


@pytest.mark.parametrize("name", FORMATS)
def test_the_record_says_what_ml_dtypes_says(name):
    found, wanted = DTYPES[name], ml_dtypes.finfo(getattr(ml_dtypes, name))
    assert found.largest == FORMATS[name] == float(wanted.max)
    assert (8 * found.size_bytes, found.exponent_bits, found.fraction_bits) == (wanted.bits, wanted.nexp, wanted.nmant)
