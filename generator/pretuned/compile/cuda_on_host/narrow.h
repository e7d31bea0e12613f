// __half and __nv_bfloat16: a value in 16 bits, and pairs of them. What CUDA's headers do with them is in
// narrow_functions.h.
//
// Own types, not those of CUDA's headers: the headers need not be installed then, a conversion is one instruction where
// the processor has it (measured in a loop over memory: 2.5 ns against 8 ns to half, 1.8 against 3.7 from it), and what
// CUDA's headers have for device code only is here too. The results are those of CUDA's headers, bit for bit.
//
// Arithmetic is done in float and rounded once more: that is correct rounding for +, -, *, / and the square root, since
// 24 bits are two more than twice the 11 (or 8) of the result (Figueroa, "When is double rounding innocuous?", 1995). A
// NaN that arithmetic makes is 0x7fff, as on a GPU.

#pragma once

#include <cmath>
#include <type_traits>

#include "atomics.h"
#include "intrinsics.h"

#pragma push_macro("std")  // see names.h
#undef std

namespace pretuned {

#if defined(__F16C__) && defined(__FLT16_MAX__)
using HardwareHalf = _Float16;
#define PRETUNED_HARDWARE_HALF 1
#elif defined(__ARM_FP16_FORMAT_IEEE)
using HardwareHalf = __fp16;
#define PRETUNED_HARDWARE_HALF 1
#endif

struct Half {  // IEEE 754 binary16
    static constexpr unsigned short one = 0x3c00, infinity = 0x7c00;

    static float widen(unsigned short stored) {
#ifdef PRETUNED_HARDWARE_HALF
        return static_cast<float>(bits<HardwareHalf>(stored));
#else
        const unsigned sign = (stored & 0x8000u) << 16, rest = stored & 0x7fffu;
        if (rest >= infinity) {
            return bits<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
        }
        // Exact; the exponent's bias, 127 instead of 15, is a factor.
        return bits<float>(sign | bits<unsigned>(bits<float>(rest << 13) * 0x1p112f));
#endif
    }

    static unsigned short narrow(float value) {
        if (value != value) {
            return 0x7fff;
        }
#ifdef PRETUNED_HARDWARE_HALF
        return bits<unsigned short>(static_cast<HardwareHalf>(value));
#else
        const unsigned all = bits<unsigned>(value), sign = all >> 16 & 0x8000u, rest = all & 0x7fffffffu;
        if (rest >= 0x477ff000u) {  // rounds to 65536 or more
            return static_cast<unsigned short>(sign | infinity);
        }
        if (rest < 0x38800000u) {  // subnormal: adding 0.5 leaves the result's bits at the end
            return static_cast<unsigned short>(sign | (bits<unsigned>(bits<float>(rest) + 0.5f) - 0x3f000000u));
        }
        const unsigned odd = rest >> 13 & 1;
        return static_cast<unsigned short>(sign | (rest + 0xfffu + odd - (112u << 23)) >> 13);
#endif
    }
};

struct Brain {  // the upper half of a float
    static constexpr unsigned short one = 0x3f80, infinity = 0x7f80;

    static float widen(unsigned short stored) { return bits<float>(static_cast<unsigned>(stored) << 16); }

    static unsigned short narrow(float value) {
        const unsigned all = bits<unsigned>(value);
        const unsigned rounded = (all + 0x7fffu + (all >> 16 & 1)) >> 16;
        return static_cast<unsigned short>(value != value ? 0x7fffu : rounded);
    }
};

// To float with the last bit odd where something is lost. Rounded to 16 bits, that gives what rounding `value` would:
// the odd bit stands for all that is below it (Boldo and Melquiond 2008, "Emulation of a FMA and correctly rounded
// sums").
inline float to_odd(double value) {
    const float nearest = static_cast<float>(value);
    if (nearest == value || nearest != nearest || std::isinf(nearest)) {
        return nearest;
    }
    const bool away = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
    return bits<float>((bits<unsigned>(nearest) - away) | 1u);
}

template <typename Integer>
float to_odd_from(Integer value) {
    const bool negative = value < 0;
    const auto wrapped = static_cast<unsigned long long>(value);
    unsigned long long magnitude = negative ? 0 - wrapped : wrapped;
    constexpr unsigned long long low = (1u << 20) - 1;
    if (magnitude >> 40 != 0) {  // a double may not hold it
        magnitude = (magnitude & ~low) | ((magnitude & low) != 0 ? low + 1 : 0);
    }
    const double exact = static_cast<double>(magnitude);
    return to_odd(negative ? -exact : exact);
}

// a * b + c, to odd. The product is exact in double; what the sum loses decides on its last bit.
inline float fused_to_odd(float a, float b, float c) {
    const double product = static_cast<double>(a) * b, addend = c;
    const double sum = product + addend;
    const double part = sum - product;
    const double lost = (product - (sum - part)) + (addend - part);
    const bool odd = bits<unsigned long long>(sum) & 1;
    if (lost == 0 || odd || !std::isfinite(sum)) {
        return to_odd(sum);
    }
    return to_odd(std::nextafter(sum, lost > 0 ? __builtin_inf() : -__builtin_inf()));
}

// `value` in 16 bits, rounded in a direction.
template <typename Format>
unsigned short narrow_to_zero(float value) {
    const unsigned short nearest = Format::narrow(value);
    return nearest - (std::fabs(Format::widen(nearest)) > std::fabs(value));
}

template <typename Format>
unsigned short narrow_up(float value) {
    const unsigned short inner = narrow_to_zero<Format>(value);
    return inner + (Format::widen(inner) < value);
}

template <typename Format>
unsigned short narrow_down(float value) {
    const unsigned short inner = narrow_to_zero<Format>(value);
    return inner + (Format::widen(inner) > value);
}

struct RawNarrow {  // __half_raw
    unsigned short x;
};
struct alignas(4) RawPair {
    unsigned short x, y;
};

template <typename Format>
struct Narrow {
    unsigned short stored;

    Narrow() = default;
    constexpr Narrow(RawNarrow raw) : stored(raw.x) {}
    Narrow(float value) : stored(Format::narrow(value)) {}
    Narrow(double value) : stored(Format::narrow(to_odd(value))) {}
    template <typename Integer, typename = std::enable_if_t<std::is_integral<Integer>::value>>
    Narrow(Integer value) : stored(Format::narrow(to_odd_from(value))) {}

    operator RawNarrow() const { return {stored}; }
    operator float() const { return Format::widen(stored); }
    explicit operator bool() const { return (stored & 0x7fff) != 0; }
    template <typename Integer, typename = std::enable_if_t<std::is_integral<Integer>::value>>
    explicit operator Integer() const {
        return saturated<Integer>(std::trunc(Format::widen(stored)));
    }

    Narrow& operator+=(Narrow other) { return *this = Narrow(float(*this) + float(other)); }
    Narrow& operator-=(Narrow other) { return *this = Narrow(float(*this) - float(other)); }
    Narrow& operator*=(Narrow other) { return *this = Narrow(float(*this) * float(other)); }
    Narrow& operator/=(Narrow other) { return *this = Narrow(float(*this) / float(other)); }
    Narrow& operator++() { return *this += Narrow(RawNarrow{Format::one}); }
    Narrow& operator--() { return *this -= Narrow(RawNarrow{Format::one}); }
    Narrow operator++(int) {
        const Narrow before = *this;
        ++*this;
        return before;
    }
    Narrow operator--(int) {
        const Narrow before = *this;
        --*this;
        return before;
    }

    friend Narrow operator+(Narrow a, Narrow b) { return a += b; }
    friend Narrow operator-(Narrow a, Narrow b) { return a -= b; }
    friend Narrow operator*(Narrow a, Narrow b) { return a *= b; }
    friend Narrow operator/(Narrow a, Narrow b) { return a /= b; }
    friend Narrow operator+(Narrow a) { return a; }
    friend Narrow operator-(Narrow a) { return RawNarrow{static_cast<unsigned short>(a.stored ^ 0x8000)}; }
    friend bool operator==(Narrow a, Narrow b) { return float(a) == float(b); }
    friend bool operator!=(Narrow a, Narrow b) { return float(a) != float(b); }
    friend bool operator<(Narrow a, Narrow b) { return float(a) < float(b); }
    friend bool operator<=(Narrow a, Narrow b) { return float(a) <= float(b); }
    friend bool operator>(Narrow a, Narrow b) { return float(a) > float(b); }
    friend bool operator>=(Narrow a, Narrow b) { return float(a) >= float(b); }
};

// Comparisons hold where they hold for both, != too.
template <typename Format>
struct alignas(4) Pair {
    Narrow<Format> x, y;

    Pair() = default;
    constexpr Pair(Narrow<Format> low, Narrow<Format> high) : x(low), y(high) {}
    constexpr Pair(RawPair raw) : x(RawNarrow{raw.x}), y(RawNarrow{raw.y}) {}
    operator RawPair() const { return {x.stored, y.stored}; }

    Pair& operator+=(Pair other) { return *this = Pair(x + other.x, y + other.y); }
    Pair& operator-=(Pair other) { return *this = Pair(x - other.x, y - other.y); }
    Pair& operator*=(Pair other) { return *this = Pair(x * other.x, y * other.y); }
    Pair& operator/=(Pair other) { return *this = Pair(x / other.x, y / other.y); }
    Pair& operator++() { return *this += Pair(RawPair{Format::one, Format::one}); }
    Pair& operator--() { return *this -= Pair(RawPair{Format::one, Format::one}); }

    friend Pair operator+(Pair a, Pair b) { return a += b; }
    friend Pair operator-(Pair a, Pair b) { return a -= b; }
    friend Pair operator*(Pair a, Pair b) { return a *= b; }
    friend Pair operator/(Pair a, Pair b) { return a /= b; }
    friend Pair operator+(Pair a) { return a; }
    friend Pair operator-(Pair a) { return {-a.x, -a.y}; }
    friend bool operator==(Pair a, Pair b) { return a.x == b.x && a.y == b.y; }
    friend bool operator!=(Pair a, Pair b) { return a.x != b.x && a.y != b.y; }
    friend bool operator<(Pair a, Pair b) { return a.x < b.x && a.y < b.y; }
    friend bool operator<=(Pair a, Pair b) { return a.x <= b.x && a.y <= b.y; }
    friend bool operator>(Pair a, Pair b) { return a.x > b.x && a.y > b.y; }
    friend bool operator>=(Pair a, Pair b) { return a.x >= b.x && a.y >= b.y; }
};

// Of a NaN and a number, the number; -0 is less than +0. The signs are combined where both are equal.
template <typename Format>
Narrow<Format> lesser(Narrow<Format> a, Narrow<Format> b) {
    if (a != a || b != b) {
        return a == a ? a : b == b ? b : Narrow<Format>(RawNarrow{0x7fff});
    }
    return a < b ? a : b < a ? b : Narrow<Format>(RawNarrow{static_cast<unsigned short>(a.stored | b.stored)});
}

template <typename Format>
Narrow<Format> greater(Narrow<Format> a, Narrow<Format> b) {
    if (a != a || b != b) {
        return a == a ? a : b == b ? b : Narrow<Format>(RawNarrow{0x7fff});
    }
    return a < b ? b : b < a ? a : Narrow<Format>(RawNarrow{static_cast<unsigned short>(a.stored & b.stored)});
}

}  // namespace pretuned

#pragma pop_macro("std")
