// Device functions that need no #include, besides those of execution.h and atomics.h: mathematics, arithmetic in a
// rounding mode, conversions, integers, lanes of a word, and loads and stores with a hint for caches.

#pragma once

#include <type_traits>

#include "conversions.h"
#include "integers.h"
#include "lanes.h"
#include "mathematics.h"
#include "rounding.h"

inline float __frsqrt_rn(float x) { return pretuned::alone(rsqrtf(x)); }

#define PRETUNED_LOAD(name)            \
    template <typename Value>          \
    Value name(const Value* address) { \
        return *address;               \
    }
PRETUNED_LOAD(__ldg)
PRETUNED_LOAD(__ldca)
PRETUNED_LOAD(__ldcg)
PRETUNED_LOAD(__ldcs)
PRETUNED_LOAD(__ldcv)
PRETUNED_LOAD(__ldlu)
#undef PRETUNED_LOAD
#define PRETUNED_STORE(name)                                                                       \
    template <typename Value, typename Given>                                                      \
    std::enable_if_t<std::is_convertible<Given, Value>::value> name(Value* address, Given value) { \
        *address = value;                                                                          \
    }
PRETUNED_STORE(__stcg)
PRETUNED_STORE(__stcs)
PRETUNED_STORE(__stwb)
PRETUNED_STORE(__stwt)
#undef PRETUNED_STORE

// An assumption that does not hold is undefined behaviour, of which UBSan tells.
#ifndef __clang__
#define __builtin_assume(condition) ((condition) ? static_cast<void>(0) : __builtin_unreachable())
#endif
