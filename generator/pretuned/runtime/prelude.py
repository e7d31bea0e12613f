"""What nvcc gives a `.cu` file and NVRTC does not: names of C and C++ that device code uses, and headers for them.

NVRTC has no headers of the host. It gets those below as texts with names, so that `#include <cstdint>` works, and reads
`pretuned.h` first, which declares types and macros alone: no line of a source moves, and a source that uses none of
them compiles to the same bytes. Types are those of CUDA's own `cuda/std/cstdint`, so that both may be included.

What templates of C++ need (`<type_traits>`, `<utility>`, ...) comes from CUDA's C++ library (CCCL), under its name in
`std`. A function without `__device__` is a device function, by `-default-device`: without it NVRTC refuses each one.
"""

from __future__ import annotations

import hashlib

from . import tma

NAME = "pretuned.h"
FLAGS = ("--std=c++17", "-default-device", f"--pre-include={NAME}")

_PRELUDE = """\
#pragma once
typedef signed char int8_t;
typedef signed short int16_t;
typedef signed int int32_t;
typedef signed long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int64_t intptr_t;
typedef uint64_t uintptr_t;
typedef int64_t intmax_t;
typedef uint64_t uintmax_t;
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define SHRT_MIN (-SHRT_MAX - 1)
#define SHRT_MAX 0x7fff
#define USHRT_MAX 0xffff
#define INT_MIN (-INT_MAX - 1)
#define INT_MAX 0x7fffffff
#define UINT_MAX 0xffffffff
#define LLONG_MIN (-LLONG_MAX - 1)
#define LLONG_MAX 0x7fffffffffffffffLL
#define ULLONG_MAX 0xffffffffffffffffUL
#define INT8_MIN SCHAR_MIN
#define INT16_MIN SHRT_MIN
#define INT32_MIN INT_MIN
#define INT64_MIN LLONG_MIN
#define INT8_MAX SCHAR_MAX
#define INT16_MAX SHRT_MAX
#define INT32_MAX INT_MAX
#define INT64_MAX LLONG_MAX
#define UINT8_MAX UCHAR_MAX
#define UINT16_MAX USHRT_MAX
#define UINT32_MAX UINT_MAX
#define UINT64_MAX ULLONG_MAX
#define SIZE_MAX UINT64_MAX
#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define FLT_MIN 1.17549435082228750796873653722224568e-38F
#define FLT_MAX 3.40282346638528859811704183484516925e+38F
#define FLT_EPSILON 1.19209289550781250000000000000000000e-7F
#define FLT_TRUE_MIN 1.40129846432481707092372958328991613e-45F
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#define DBL_MIN 2.22507385850720138309023271733240406e-308
#define DBL_MAX 1.79769313486231570814527423731704357e+308
#define DBL_EPSILON 2.22044604925031308084726333618164062e-16
#define DBL_TRUE_MIN 4.94065645841246544176568792868221372e-324
#ifdef __has_builtin
#if __has_builtin(__builtin_bit_cast)
#define INFINITY __builtin_bit_cast(float, 0x7f800000u)
#define NAN __builtin_bit_cast(float, 0x7fc00000u)
#define HUGE_VAL __builtin_bit_cast(double, 0x7ff0000000000000ull)
#endif
#endif
#ifndef INFINITY  // an older NVRTC, for which these are constants
#define INFINITY (1.0f / 0.0f)
#define NAN (0.0f / 0.0f)
#define HUGE_VAL (1.0 / 0.0)
#endif
#define HUGE_VALF INFINITY
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
"""

_CSTDINT = """\
#pragma once
namespace std {
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t;
using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t;
using ::intptr_t; using ::uintptr_t; using ::intmax_t; using ::uintmax_t;
}
"""
# What nvcc finds in the device runtime: PTX ISA, griddepcontrol.
_DEVICE_RUNTIME = """\
#pragma once
inline void cudaGridDependencySynchronize() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
inline void cudaTriggerProgrammaticLaunchCompletion() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
"""
_CSTDDEF = """\
#pragma once
namespace std {
using ::size_t; using ::ptrdiff_t;
typedef decltype(nullptr) nullptr_t;
}
"""
_CMATH = """\
#pragma once
namespace std {
using ::abs; using ::fabs; using ::sqrt; using ::cbrt; using ::hypot; using ::pow; using ::fma; using ::fmod;
using ::remainder; using ::fmin; using ::fmax; using ::fdim; using ::exp; using ::exp2; using ::expm1;
using ::log; using ::log2; using ::log10; using ::log1p; using ::logb; using ::ilogb; using ::ldexp; using ::frexp;
using ::modf; using ::sin; using ::cos; using ::tan; using ::asin; using ::acos; using ::atan; using ::atan2;
using ::sinh; using ::cosh; using ::tanh; using ::asinh; using ::acosh; using ::atanh; using ::erf; using ::erfc;
using ::tgamma; using ::lgamma; using ::floor; using ::ceil; using ::trunc; using ::round; using ::rint;
using ::nearbyint; using ::lrint; using ::llrint; using ::lround; using ::llround; using ::copysign; using ::nextafter;
using ::isnan; using ::isinf; using ::isfinite; using ::signbit;
}
"""
_ALGORITHM = """\
#pragma once
namespace std {
template <class T> constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T> constexpr const T& clamp(const T& x, const T& low, const T& high) {
    return x < low ? low : high < x ? high : x;
}
template <class T> constexpr void swap(T& a, T& b) { T c = a; a = b; b = c; }
}
"""
_LIMITS = """\
#pragma once
namespace std {
template <class T> struct numeric_limits { static constexpr bool is_specialized = false; };
template <class T> struct numeric_limits<const T> : numeric_limits<T> {};
#define _PT_LIMITS(T, LOW, HIGH, LEAST, DIGITS, SIGNED, WHOLE, EPSILON, INF, QUIET)      \\
    template <> struct numeric_limits<T> {                                                    \\
        static constexpr bool is_specialized = true, is_signed = SIGNED, is_integer = WHOLE;  \\
        static constexpr bool is_exact = WHOLE, has_infinity = !WHOLE, has_quiet_NaN = !WHOLE; \\
        static constexpr int digits = DIGITS, radix = 2;                                      \\
        static constexpr T lowest() { return LOW; }                                           \\
        static constexpr T min() { return LEAST; }                                            \\
        static constexpr T max() { return HIGH; }                                             \\
        static constexpr T epsilon() { return EPSILON; }                                      \\
        static constexpr T infinity() { return INF; }                                         \\
        static constexpr T quiet_NaN() { return QUIET; }                                      \\
    };
#define _PT_WHOLE(T, LOW, HIGH, DIGITS, SIGNED) \\
    _PT_LIMITS(T, LOW, HIGH, LOW, DIGITS, SIGNED, true, 0, 0, 0)
_PT_WHOLE(bool, false, true, 1, false)
_PT_WHOLE(char, char(char(-1) < 0 ? -128 : 0), char(char(-1) < 0 ? 127 : 255), (char(-1) < 0 ? 7 : 8),
               (char(-1) < 0))
_PT_WHOLE(signed char, -128, 127, 7, true)
_PT_WHOLE(unsigned char, 0, 255, 8, false)
_PT_WHOLE(short, -32768, 32767, 15, true)
_PT_WHOLE(unsigned short, 0, 65535, 16, false)
_PT_WHOLE(int, INT_MIN, INT_MAX, 31, true)
_PT_WHOLE(unsigned int, 0, UINT_MAX, 32, false)
_PT_WHOLE(long, long(1ull << (sizeof(long) * 8 - 1)), long(~0ul >> 1), int(sizeof(long) * 8 - 1), true)
_PT_WHOLE(unsigned long, 0, ~0ul, int(sizeof(long) * 8), false)
_PT_WHOLE(long long, LLONG_MIN, LLONG_MAX, 63, true)
_PT_WHOLE(unsigned long long, 0, ULLONG_MAX, 64, false)
_PT_LIMITS(float, -FLT_MAX, FLT_MAX, FLT_MIN, 24, true, false, FLT_EPSILON, INFINITY, NAN)
_PT_LIMITS(double, -DBL_MAX, DBL_MAX, DBL_MIN, 53, true, false, DBL_EPSILON, HUGE_VAL, double(NAN))
#undef _PT_LIMITS
#undef _PT_WHOLE
}
"""
_FROM_CCCL = """\
#pragma once
#if !__has_include(<cuda/std/{0}>)
#error <{0}> comes from CUDA's C++ library: cannot open source file "cuda/std/{0}"
#endif
#include <cuda/std/{0}>
namespace std {{ using namespace cuda::std; }}
"""

CCCL_NAMES = ("array", "complex", "functional", "tuple", "type_traits", "utility")  # as their headers are included
_OF_NVRTC = ("assert.h", "cassert", "cstdio", "cstdlib", "cstring", "stdio.h", "stdlib.h", "string.h")
_OF_PRELUDE = ("cfloat", "climits", "float.h", "inttypes.h", "limits.h", "math.h", "stddef.h", "stdint.h")

HEADERS = {
    NAME: _PRELUDE,
    "cstdint": _CSTDINT,
    "cinttypes": _CSTDINT,
    "cstddef": _CSTDDEF,
    "cmath": _CMATH,
    "algorithm": _ALGORITHM,
    "limits": _LIMITS,
    "cuda_device_runtime_api.h": _DEVICE_RUNTIME,
    tma.NAME: tma.HEADER,
    **dict.fromkeys((*_OF_NVRTC, *_OF_PRELUDE), "#pragma once\n"),
    **{name: _FROM_CCCL.format(name) for name in CCCL_NAMES},
}


_OF_CCCL = ("cub/", "thrust/", "cuda/", "nv/", "cooperative_groups")  # the last includes nv/target


def is_of_cccl(name: str) -> bool:
    """Return whether an included header is one of CUDA's C++ library, or needs it."""
    return name in CCCL_NAMES or name.startswith(_OF_CCCL)


VERSION = hashlib.sha256(repr((FLAGS, HEADERS)).encode()).hexdigest()[:8]  # for keys of what was compiled with it


def named_headers(own: dict[str, str]) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Return the texts and the names of all headers for nvrtcCreateProgram: a project's own, and those above."""
    headers = HEADERS | own
    return tuple(text.encode() for text in headers.values()), tuple(name.encode() for name in headers)
