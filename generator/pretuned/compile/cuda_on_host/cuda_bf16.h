// <cuda_bf16.h>: see narrow.h.

#pragma once

#define __CUDA_BF16_H__  // CUDA's own guard

#include "cuda_fp16.h"

using __nv_bfloat16 = pretuned::Narrow<pretuned::Brain>;
using __nv_bfloat162 = pretuned::Pair<pretuned::Brain>;
using __nv_bfloat16_raw = pretuned::RawNarrow;
using __nv_bfloat162_raw = pretuned::RawPair;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

#define PRETUNED_VALUE __nv_bfloat16
#define PRETUNED_PAIR __nv_bfloat162
#define PRETUNED_FORMAT pretuned::Brain
#define PRETUNED_NAME bfloat16
#include "narrow_functions.h"
#undef PRETUNED_NAME
#undef PRETUNED_FORMAT
#undef PRETUNED_PAIR
#undef PRETUNED_VALUE

#define CUDART_INF_BF16 __ushort_as_bfloat16(0x7f80)
#define CUDART_NAN_BF16 __ushort_as_bfloat16(0x7fff)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16(0x0001)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16(0x7f7f)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16(0x8000)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16(0x0000)
#define CUDART_ONE_BF16 __ushort_as_bfloat16(0x3f80)
