// Bit casts, and conversions to integers.

#pragma once

#include <cmath>
#include <cstring>
#include <limits>

namespace pretuned {

template <typename To, typename From>
To bits(From value) {
    static_assert(sizeof(To) == sizeof(From), "bits of another size");
    To result;
    std::memcpy(&result, &value, sizeof(To));
    return result;
}

// The integer nearest to an integral value. Of a NaN: 0, or the highest bit alone if either type has 64 bits (PTX ISA,
// "cvt").
template <typename Integer, typename Real>
Integer saturated(Real x) {
    using Limits = std::numeric_limits<Integer>;
    if (x != x) {
        constexpr bool wide = sizeof(Integer) == 8 || sizeof(Real) == 8;
        return wide ? static_cast<Integer>(1ull << (8 * sizeof(Integer) - 1)) : Integer{0};
    }
    // 2^63 and the like are exact; the largest integer itself may not be.
    constexpr Real beyond = 2 * static_cast<Real>(Limits::max() / 2 + 1);
    if (x >= beyond) {
        return Limits::max();
    }
    return x < static_cast<Real>(Limits::min()) ? Limits::min() : static_cast<Integer>(x);
}

}  // namespace pretuned

inline int __float_as_int(float x) { return pretuned::bits<int>(x); }
inline unsigned __float_as_uint(float x) { return pretuned::bits<unsigned>(x); }
inline float __int_as_float(int x) { return pretuned::bits<float>(x); }
inline float __uint_as_float(unsigned x) { return pretuned::bits<float>(x); }
inline long long __double_as_longlong(double x) { return pretuned::bits<long long>(x); }
inline double __longlong_as_double(long long x) { return pretuned::bits<double>(x); }
inline int __double2hiint(double x) { return static_cast<int>(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(__double_as_longlong(x)); }
inline double __hiloint2double(int high, int low) {
    return pretuned::bits<double>(static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 |
                                  static_cast<unsigned>(low));
}

#define PRETUNED_CONVERSIONS(name, real, integer)                                                \
    inline integer name##_rn(real x) { return pretuned::saturated<integer>(std::nearbyint(x)); } \
    inline integer name##_rz(real x) { return pretuned::saturated<integer>(std::trunc(x)); }     \
    inline integer name##_ru(real x) { return pretuned::saturated<integer>(std::ceil(x)); }      \
    inline integer name##_rd(real x) { return pretuned::saturated<integer>(std::floor(x)); }
PRETUNED_CONVERSIONS(__float2int, float, int)
PRETUNED_CONVERSIONS(__float2uint, float, unsigned)
PRETUNED_CONVERSIONS(__float2ll, float, long long)
PRETUNED_CONVERSIONS(__float2ull, float, unsigned long long)
PRETUNED_CONVERSIONS(__double2int, double, int)
PRETUNED_CONVERSIONS(__double2uint, double, unsigned)
PRETUNED_CONVERSIONS(__double2ll, double, long long)
PRETUNED_CONVERSIONS(__double2ull, double, unsigned long long)
#undef PRETUNED_CONVERSIONS
