// Atomic functions, for the types that CUDA has them for. One thread of the operating system executes everything and
// changes between the threads of a block at barriers only, so plain reads and writes are atomic; the detector of races
// is told that they belong together.

#pragma once

#include <cstring>
#include <type_traits>

#include "execution.h"

#ifdef PRETUNED_RACES
extern "C" {
void pretuned_begin_atomic();
void pretuned_end_atomic();
}
namespace pretuned {
struct Atomic {
    Atomic() { pretuned_begin_atomic(); }
    ~Atomic() { pretuned_end_atomic(); }
};
}  // namespace pretuned
#else
namespace pretuned {
struct Atomic {
    Atomic() {}
};
}  // namespace pretuned
#endif

namespace pretuned {

template <typename Value, typename Change>
Value update(Value* address, Change change) {
    const Atomic together;
    const Value old = *address;
    *address = change(old);
    return old;
}

template <typename Value>
Value sum(Value a, Value b) {
    if constexpr (std::is_signed<Value>::value && std::is_integral<Value>::value) {  // which wraps on a GPU
        using Bits = std::make_unsigned_t<Value>;
        return static_cast<Value>(static_cast<Bits>(a) + static_cast<Bits>(b));
    } else {
        return a + b;
    }
}

}  // namespace pretuned

#define PRETUNED_ATOMIC(name, type, result)                                              \
    inline type name(type* address, type value) {                                        \
        return pretuned::update(address, [value](type old) -> type { return result; });  \
    }                                                                                    \
    inline type name##_block(type* address, type value) { return name(address, value); } \
    inline type name##_system(type* address, type value) { return name(address, value); }

#define PRETUNED_INTEGER_ATOMICS(type)                                 \
    PRETUNED_ATOMIC(atomicAdd, type, pretuned::sum(old, value))        \
    PRETUNED_ATOMIC(atomicExch, type, (static_cast<void>(old), value)) \
    PRETUNED_ATOMIC(atomicMin, type, value < old ? value : old)        \
    PRETUNED_ATOMIC(atomicMax, type, value > old ? value : old)        \
    PRETUNED_ATOMIC(atomicAnd, type, old & value)                      \
    PRETUNED_ATOMIC(atomicOr, type, old | value)                       \
    PRETUNED_ATOMIC(atomicXor, type, old ^ value)
PRETUNED_INTEGER_ATOMICS(int)
PRETUNED_INTEGER_ATOMICS(unsigned)
PRETUNED_INTEGER_ATOMICS(unsigned long long)
#undef PRETUNED_INTEGER_ATOMICS
PRETUNED_ATOMIC(atomicMin, long long, value < old ? value : old)
PRETUNED_ATOMIC(atomicMax, long long, value > old ? value : old)
PRETUNED_ATOMIC(atomicAnd, long long, old & value)
PRETUNED_ATOMIC(atomicOr, long long, old | value)
PRETUNED_ATOMIC(atomicXor, long long, old ^ value)
PRETUNED_ATOMIC(atomicSub, int, static_cast<int>(static_cast<unsigned>(old) - static_cast<unsigned>(value)))
PRETUNED_ATOMIC(atomicSub, unsigned, old - value)
PRETUNED_ATOMIC(atomicInc, unsigned, old >= value ? 0u : old + 1)
PRETUNED_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)
PRETUNED_ATOMIC(atomicAdd, float, old + value)
PRETUNED_ATOMIC(atomicAdd, double, old + value)
PRETUNED_ATOMIC(atomicExch, float, (static_cast<void>(old), value))
PRETUNED_ATOMIC(atomicAdd, float2, (float2{old.x + value.x, old.y + value.y}))
PRETUNED_ATOMIC(atomicAdd, float4, (float4{old.x + value.x, old.y + value.y, old.z + value.z, old.w + value.w}))

namespace pretuned {

template <typename Value>
bool same(const Value& a, const Value& b) {
    return std::memcmp(&a, &b, sizeof(Value)) == 0;
}

template <typename Value>
Value compare_and_swap(Value* address, Value expected, Value value) {
    const Value found = update(address, [=](const Value& old) { return same(old, expected) ? value : old; });
    if (!same(found, expected)) {
        pretuned_yield();  // whoever tries again waits for another thread
    }
    return found;
}

// What CUDA exchanges without knowing the type: 16 bytes, aligned so.
template <typename Value>
using Wide16 = std::enable_if_t<std::is_class<Value>::value && std::is_trivially_copyable<Value>::value &&
                                    sizeof(Value) == 16 && alignof(Value) == 16,
                                Value>;

}  // namespace pretuned

#define PRETUNED_CAS(name, type)                                     \
    inline type name(type* address, type expected, type value) {     \
        return pretuned::compare_and_swap(address, expected, value); \
    }
#define PRETUNED_SCOPE(suffix)                                                               \
    PRETUNED_CAS(atomicCAS##suffix, int)                                                     \
    PRETUNED_CAS(atomicCAS##suffix, unsigned)                                                \
    PRETUNED_CAS(atomicCAS##suffix, unsigned long long)                                      \
    template <typename Value>                                                                \
    pretuned::Wide16<Value> atomicCAS##suffix(Value* address, Value expected, Value value) { \
        return pretuned::compare_and_swap(address, expected, value);                         \
    }                                                                                        \
    template <typename Value>                                                                \
    pretuned::Wide16<Value> atomicExch##suffix(Value* address, Value value) {                \
        return pretuned::update(address, [=](const Value&) { return value; });               \
    }
PRETUNED_SCOPE()
PRETUNED_SCOPE(_block)
PRETUNED_SCOPE(_system)
PRETUNED_CAS(atomicCAS, unsigned short)
#undef PRETUNED_SCOPE
#undef PRETUNED_CAS
#undef PRETUNED_ATOMIC
