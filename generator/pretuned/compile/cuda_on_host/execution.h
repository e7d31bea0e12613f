// CUDA's execution model as a kernel's text sees it: keywords, built-in variables, barriers and warp operations.
//
// A kernel is compiled as C++ and run by runtime.cpp: the blocks of a launch in turn, the threads of a block as fibers,
// all in one thread of the operating system. A thread runs until it waits for others, so a kernel without barriers costs
// a function call a thread, and every run takes the same course.
//
// Why no existing header: HIP-CPU and its like want their own launch syntax and API in the source, run the lanes of a
// warp as a vectorised loop in which divergent shuffles are undefined, need a parallel standard library and take seconds a
// translation unit; CUDA emulators (gpuocelot, COX, CuPBoP) execute PTX or LLVM IR and need CUDA's or Clang's front end.
// Rendered templates are what NVRTC takes: no host code, no headers. For that a small header serves, which reports
// divergent barriers, wrong masks and races by the line of the template, and which a sanitizer understands.
//
// Where it differs from a GPU: a `__shared__` array holds a pattern, not leftovers, when a block starts; __activemask()
// is the calling lane alone, which CUDA allows; atomics are plain operations; blocks run in order and never wait for a
// later one. Inline PTX, tensor cores and clusters are refused before this is compiled.

#pragma once

// Before the keywords: the standard library uses names such as __noinline__ itself.
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

#include "vector_types.h"

#define PRETUNED_HOST 1  // for a template that wants to know

#include "parameters.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __shared__ static  // pretuned.compile.host rewrites `extern __shared__`
#define __forceinline__ inline __attribute__((always_inline))
#undef __noinline__
#define __noinline__ __attribute__((noinline))
#undef __align__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __maxnreg__(...)

// Of the thread that runs: constant for as long as a function can look.
extern const uint3 threadIdx;
extern const uint3 blockIdx;
extern const dim3 blockDim;
extern const dim3 gridDim;
constexpr int warpSize = 32;

namespace pretuned {

// What lanes do together. The runtime computes the result of every lane when the last has come.
enum class Operation : int {
    synchronise,
    shuffle,
    ballot,
    any,
    all,
    unite,  // __uni_sync
    match_any,
    match_all,
    add,
    min_signed,
    max_signed,
    min_unsigned,
    max_unsigned,
    bit_and,
    bit_or,
    bit_xor,
};

struct Slot {  // the widest value that a lane hands over at once; it travels in registers
    unsigned long long words[2];
};

extern "C" {
int pretuned_barrier(int line, int predicate, int kind);
// Takes the lane's value and returns its result. `source` is the lane to read from in a shuffle.
Slot pretuned_collective(Operation operation, unsigned mask, Slot value, int source, int line);
void pretuned_yield();
[[noreturn]] void pretuned_trap(const char* what, int line);
unsigned pretuned_lane();
long long pretuned_clock();
extern unsigned char pretuned_dynamic_shared[];
}

enum Barrier : int { plain, count, conjunction, disjunction };

// Hands `value` over, and returns what the lane gets.
template <typename Result, typename Value>
Result together(Operation operation, unsigned mask, Value value, int source, int line) {
    static_assert(std::is_trivially_copyable<Value>::value && sizeof(Value) <= sizeof(Slot), "too much for a lane");
    Slot slot = {};
    std::memcpy(&slot, &value, sizeof(Value));
    slot = pretuned_collective(operation, mask, slot, source, line);
    Result result;
    std::memcpy(&result, &slot, sizeof(Result));
    return result;
}

template <typename Value>
Value shuffle(unsigned mask, Value value, int source, int line) {
    return together<Value>(Operation::shuffle, mask, value, source, line);
}

template <typename Value>
unsigned vote(Operation operation, unsigned mask, Value value, int line) {
    return together<unsigned>(operation, mask, value, 0, line);
}

// The first lane of the segment of `width` lanes that the calling lane belongs to.
inline int segment(int width) { return static_cast<int>(pretuned_lane()) & ~(width - 1); }

}  // namespace pretuned

// `line` is the caller's: a barrier is known by it.
#define PRETUNED_LINE int line = __builtin_LINE()

inline void __syncthreads(PRETUNED_LINE) { pretuned::pretuned_barrier(line, 0, pretuned::plain); }
inline int __syncthreads_count(int predicate, PRETUNED_LINE) {
    return pretuned::pretuned_barrier(line, predicate, pretuned::count);
}
inline int __syncthreads_and(int predicate, PRETUNED_LINE) {
    return pretuned::pretuned_barrier(line, predicate, pretuned::conjunction);
}
inline int __syncthreads_or(int predicate, PRETUNED_LINE) {
    return pretuned::pretuned_barrier(line, predicate, pretuned::disjunction);
}
inline void __syncwarp(unsigned mask = 0xffffffff, PRETUNED_LINE) {
    pretuned::vote(pretuned::Operation::synchronise, mask, 0u, line);
}

template <typename Value>
Value __shfl_sync(unsigned mask, Value value, int source, int width = warpSize, PRETUNED_LINE) {
    return pretuned::shuffle(mask, value, pretuned::segment(width) + (source & (width - 1)), line);
}
template <typename Value>
Value __shfl_up_sync(unsigned mask, Value value, unsigned delta, int width = warpSize, PRETUNED_LINE) {
    const int lane = static_cast<int>(pretuned::pretuned_lane());
    const int source = lane - static_cast<int>(delta);
    return pretuned::shuffle(mask, value, source < pretuned::segment(width) ? lane : source, line);
}
template <typename Value>
Value __shfl_down_sync(unsigned mask, Value value, unsigned delta, int width = warpSize, PRETUNED_LINE) {
    const int lane = static_cast<int>(pretuned::pretuned_lane());
    const int source = lane + static_cast<int>(delta);
    return pretuned::shuffle(mask, value, source >= pretuned::segment(width) + width ? lane : source, line);
}
// A lane may read from an earlier segment, not from a later one.
template <typename Value>
Value __shfl_xor_sync(unsigned mask, Value value, int lanes, int width = warpSize, PRETUNED_LINE) {
    const int lane = static_cast<int>(pretuned::pretuned_lane());
    const int source = lane ^ lanes;
    return pretuned::shuffle(mask, value, source >= pretuned::segment(width) + width ? lane : source, line);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, PRETUNED_LINE) {
    return pretuned::vote(pretuned::Operation::ballot, mask, unsigned{predicate != 0}, line);
}
inline int __any_sync(unsigned mask, int predicate, PRETUNED_LINE) {
    return static_cast<int>(pretuned::vote(pretuned::Operation::any, mask, unsigned{predicate != 0}, line));
}
inline int __all_sync(unsigned mask, int predicate, PRETUNED_LINE) {
    return static_cast<int>(pretuned::vote(pretuned::Operation::all, mask, unsigned{predicate != 0}, line));
}
inline int __uni_sync(unsigned mask, int predicate, PRETUNED_LINE) {
    return static_cast<int>(pretuned::vote(pretuned::Operation::unite, mask, unsigned{predicate != 0}, line));
}
inline unsigned __activemask() { return 1u << pretuned::pretuned_lane(); }

template <typename Value>
unsigned __match_any_sync(unsigned mask, Value value, PRETUNED_LINE) {
    return pretuned::vote(pretuned::Operation::match_any, mask, value, line);
}
template <typename Value>
unsigned __match_all_sync(unsigned mask, Value value, int* all, PRETUNED_LINE) {
    const unsigned lanes = pretuned::vote(pretuned::Operation::match_all, mask, value, line);
    *all = lanes != 0;
    return lanes;
}

#define PRETUNED_REDUCE(name, type, operation)                                                           \
    inline type name(unsigned mask, type value, PRETUNED_LINE) {                                         \
        return static_cast<type>(                                                                        \
            pretuned::vote(pretuned::Operation::operation, mask, static_cast<unsigned>(value), line)); \
    }
PRETUNED_REDUCE(__reduce_add_sync, unsigned, add)
PRETUNED_REDUCE(__reduce_add_sync, int, add)
PRETUNED_REDUCE(__reduce_min_sync, unsigned, min_unsigned)
PRETUNED_REDUCE(__reduce_min_sync, int, min_signed)
PRETUNED_REDUCE(__reduce_max_sync, unsigned, max_unsigned)
PRETUNED_REDUCE(__reduce_max_sync, int, max_signed)
PRETUNED_REDUCE(__reduce_and_sync, unsigned, bit_and)
PRETUNED_REDUCE(__reduce_or_sync, unsigned, bit_or)
PRETUNED_REDUCE(__reduce_xor_sync, unsigned, bit_xor)
#undef PRETUNED_REDUCE

// One thread of the operating system runs all: memory is always in order. Whoever waits in a loop lets others go on here.
inline void __threadfence() { pretuned::pretuned_yield(); }
inline void __threadfence_block() { pretuned::pretuned_yield(); }
inline void __threadfence_system() { pretuned::pretuned_yield(); }
inline void __nanosleep(unsigned) { pretuned::pretuned_yield(); }

[[noreturn]] inline void __trap(PRETUNED_LINE) { pretuned::pretuned_trap("__trap()", line); }
inline void __brkpt() {}

// Counts calls, not cycles: time on the host says nothing of a GPU.
inline long long clock64() { return pretuned::pretuned_clock(); }
inline long clock() { return static_cast<long>(clock64()); }
inline unsigned long long __globaltimer() { return static_cast<unsigned long long>(clock64()); }

// As device code: the failing thread and line are told, and nothing of the process is torn down.
#undef assert
#ifdef NDEBUG
#define assert(condition) static_cast<void>(0)
#else
#define assert(condition) ((condition) ? static_cast<void>(0) : pretuned::pretuned_trap("assert(" #condition ")", __LINE__))
#endif

// How a launch reaches a kernel: `pretuned_call_NAME` takes the addresses of the arguments, and `pretuned_takes_NAME`
// says what they are (see parameters.h).
namespace pretuned {

template <typename... Arguments, std::size_t... positions>
void call(void (*kernel)(Arguments...), void** values, std::index_sequence<positions...>) {
    kernel(*static_cast<std::remove_cv_t<Arguments>*>(values[positions])...);
}

template <typename... Arguments>
void call(void (*kernel)(Arguments...), void** values) {
    call(kernel, values, std::index_sequence_for<Arguments...>{});
}

}  // namespace pretuned

#define PRETUNED_ENTRY(kernel)                                                                     \
    extern "C" __attribute__((visibility("default"))) void pretuned_call_##kernel(void** values) { \
        pretuned::call(kernel, values);                                                            \
    }                                                                                              \
    PRETUNED_TAKES(kernel)

// An error where the kernel is a function of C++, which no launch finds by its name: `host_errors.py` words it.
#define PRETUNED_LINKAGE(kernel) extern "C" decltype(kernel) kernel;
