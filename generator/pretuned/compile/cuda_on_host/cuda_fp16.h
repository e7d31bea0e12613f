// <cuda_fp16.h>: see narrow.h.

#pragma once

#define __CUDA_FP16_H__  // CUDA's own guard

#include "narrow.h"

using __half = pretuned::Narrow<pretuned::Half>;
using __half2 = pretuned::Pair<pretuned::Half>;
using __half_raw = pretuned::RawNarrow;
using __half2_raw = pretuned::RawPair;
using half = __half;
using half2 = __half2;

#define PRETUNED_VALUE __half
#define PRETUNED_PAIR __half2
#define PRETUNED_FORMAT pretuned::Half
#define PRETUNED_NAME half
#include "narrow_functions.h"
#undef PRETUNED_NAME
#undef PRETUNED_FORMAT
#undef PRETUNED_PAIR
#undef PRETUNED_VALUE

#define CUDART_INF_FP16 __ushort_as_half(0x7c00)
#define CUDART_NAN_FP16 __ushort_as_half(0x7fff)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half(0x0001)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half(0x7bff)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half(0x8000)
#define CUDART_ZERO_FP16 __ushort_as_half(0x0000)
#define CUDART_ONE_FP16 __ushort_as_half(0x3c00)
