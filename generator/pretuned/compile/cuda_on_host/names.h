// Names that the C and C++ libraries give and NVRTC does not: hidden, so that a template that passes on the host
// compiles for GPUs too, and one that defines such a name itself (`typedef long long int64_t;`) passes on both. Those of
// pretuned.runtime.prelude come back by its headers, which are included behind this one as NVRTC includes them.
//
// NVRTC has no standard headers. It knows size_t, ptrdiff_t, NULL, printf, assert, malloc, memcpy, memset, and of `std`
// move, forward and initializer_list (asked of NVRTC 13.0). Headers that are included already stay so: including one
// again in a template adds nothing. Must come last, after all that uses what is hidden.

#pragma once

#include <cfloat>
#include <climits>
#include <initializer_list>
#include <utility>

#include <math.h>  // which CUDA's cuComplex.h includes
#include <stdlib.h>

namespace std_of_nvrtc {
using std::forward;
using std::initializer_list;
using std::move;
}  // namespace std_of_nvrtc
#define std std_of_nvrtc

// --- Types

#define int8_t int8_t_of_nvrtc
#define int16_t int16_t_of_nvrtc
#define int32_t int32_t_of_nvrtc
#define int64_t int64_t_of_nvrtc
#define uint8_t uint8_t_of_nvrtc
#define uint16_t uint16_t_of_nvrtc
#define uint32_t uint32_t_of_nvrtc
#define uint64_t uint64_t_of_nvrtc
#define intptr_t intptr_t_of_nvrtc
#define uintptr_t uintptr_t_of_nvrtc
#define intmax_t intmax_t_of_nvrtc
#define uintmax_t uintmax_t_of_nvrtc
#define uint uint_of_nvrtc
#define ushort ushort_of_nvrtc
#define ulong ulong_of_nvrtc

// --- Functions and variables whose names a parameter of a kernel may well have

#define gamma gamma_of_kernel
#define index index_of_kernel
#define rindex rindex_of_kernel
#define select select_of_kernel
#define random random_of_kernel
#define remove remove_of_kernel
#define rename rename_of_kernel
#define rewind rewind_of_kernel
#define system system_of_kernel
#define div div_of_kernel
#define exit exit_of_kernel

// --- Macros

#undef NAN
#undef INFINITY
#undef HUGE_VAL
#undef HUGE_VALF
#undef M_E
#undef M_LOG2E
#undef M_LOG10E
#undef M_LN2
#undef M_LN10
#undef M_PI
#undef M_PI_2
#undef M_PI_4
#undef M_1_PI
#undef M_2_PI
#undef M_2_SQRTPI
#undef M_SQRT2
#undef M_SQRT1_2
#undef MAXFLOAT
#undef FLT_DIG
#undef FLT_EPSILON
#undef FLT_MANT_DIG
#undef FLT_MAX
#undef FLT_MAX_EXP
#undef FLT_MIN
#undef FLT_MIN_EXP
#undef DBL_DIG
#undef DBL_EPSILON
#undef DBL_MANT_DIG
#undef DBL_MAX
#undef DBL_MAX_EXP
#undef DBL_MIN
#undef DBL_MIN_EXP
#undef CHAR_BIT
#undef CHAR_MAX
#undef CHAR_MIN
#undef SCHAR_MAX
#undef SCHAR_MIN
#undef UCHAR_MAX
#undef SHRT_MAX
#undef SHRT_MIN
#undef USHRT_MAX
#undef INT_MAX
#undef INT_MIN
#undef UINT_MAX
#undef LONG_MAX
#undef LONG_MIN
#undef ULONG_MAX
#undef LLONG_MAX
#undef LLONG_MIN
#undef ULLONG_MAX
#undef INT8_MAX
#undef INT8_MIN
#undef UINT8_MAX
#undef INT16_MAX
#undef INT16_MIN
#undef UINT16_MAX
#undef INT32_MAX
#undef INT32_MIN
#undef UINT32_MAX
#undef INT64_MAX
#undef INT64_MIN
#undef UINT64_MAX
#undef SIZE_MAX
#undef PTRDIFF_MAX
#undef BUFSIZ
#undef EOF
