// <cuda_fp8.h>: values in 8 bits, E4M3 (4 bits of exponent, 3 of fraction) and E5M2, alone, in pairs and in fours. There
// are conversions only, no arithmetic, as on a GPU. The results are those of CUDA's header, bit for bit.
//
// Conversions round to nearest, ties to even. Those of the classes saturate: what is beyond the largest number (448 or
// 57344), infinities too, becomes that number. (The types of ml_dtypes and PyTorch give NaN or infinity there.) E4M3 has
// no infinities. The scales of E8M0 are not here.

#pragma once

#define __CUDA_FP8_H__  // CUDA's own guard

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "vector_types.h"

#pragma push_macro("std")  // see names.h
#undef std

using __nv_fp8_storage_t = unsigned char;
using __nv_fp8x2_storage_t = unsigned short;  // the first value in the low byte
using __nv_fp8x4_storage_t = unsigned int;

enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

namespace pretuned {

// A format by its bits of fraction, the code of its largest number, and that of a NaN. Behind the largest number comes
// infinity, unless that is NaN.
template <unsigned fraction, unsigned largest, unsigned nan>
struct Eight {
    static constexpr unsigned bias = (1u << (6 - fraction)) - 1, dropped = 23 - fraction;

    static float widen(unsigned char stored) {
        const unsigned sign = (stored & 0x80u) << 24, rest = stored & 0x7fu;
        if (rest > largest) {
            const bool infinite = rest == largest + 1 && rest != nan;
            return bits<float>(infinite ? sign | 0x7f800000u : 0x7fffffffu);
        }
        // Exact; the exponent's bias, 127 instead of `bias`, is a factor.
        return bits<float>(sign | bits<unsigned>(bits<float>(rest << dropped) * bits<float>((254 - bias) << 23)));
    }

    static unsigned char narrow(float value, __nv_saturation_t saturation) {
        if (value != value) {
            return 0x7f;
        }
        const unsigned all = bits<unsigned>(value), sign = all >> 24 & 0x80u, rest = all & 0x7fffffffu;
        const unsigned odd = rest >> dropped & 1;
        unsigned code = (rest + (1u << (dropped - 1)) - 1 + odd - ((127 - bias) << 23)) >> dropped;
        if (rest < (128 - bias) << 23) {  // subnormal: adding a power of two leaves the result's bits at the end
            const unsigned power = (128 - bias + dropped) << 23;
            code = bits<unsigned>(bits<float>(rest) + bits<float>(power)) - power;
        }
        return static_cast<unsigned char>(sign | (code <= largest ? code : largest + (saturation == __NV_NOSAT)));
    }

    static unsigned char narrow(double value, __nv_saturation_t saturation) {
        if (value != value) {  // keeps its sign, and of its fraction what fits
            const unsigned all = bits<unsigned long long>(value) >> 32;
            const unsigned kept = all >> (20 - fraction) & ((1u << fraction) - 1);
            return static_cast<unsigned char>((all >> 24 & 0x80u) | nan | kept);
        }
        return narrow(to_odd(value), saturation);
    }
};

using E4M3 = Eight<3, 0x7e, 0x7f>;
using E5M2 = Eight<2, 0x7b, 0x7e>;

template <typename Real>
unsigned narrow_to(__nv_fp8_interpretation_t format, Real value, __nv_saturation_t saturation) {
    return format == __NV_E4M3 ? E4M3::narrow(value, saturation) : E5M2::narrow(value, saturation);
}

template <typename Format>
struct Fp8 {
    __nv_fp8_storage_t __x;

    Fp8() = default;
    explicit Fp8(float value) : __x(Format::narrow(value, __NV_SATFINITE)) {}
    explicit Fp8(double value) : __x(Format::narrow(value, __NV_SATFINITE)) {}
    explicit Fp8(__half value) : Fp8(float(value)) {}
    explicit Fp8(__nv_bfloat16 value) : Fp8(float(value)) {}
    template <typename Integer, typename = std::enable_if_t<std::is_integral<Integer>::value>>
    explicit Fp8(Integer value) : Fp8(static_cast<float>(value)) {}

    explicit operator float() const { return Format::widen(__x); }
    explicit operator double() const { return Format::widen(__x); }
    explicit operator __half() const { return Format::widen(__x); }
    explicit operator __nv_bfloat16() const { return Format::widen(__x); }
    explicit operator bool() const { return (__x & 0x7f) != 0; }
    template <typename Integer, typename = std::enable_if_t<std::is_integral<Integer>::value>>
    explicit operator Integer() const {
        return saturated<Integer>(std::trunc(Format::widen(__x)));
    }
};

template <typename Format>
struct alignas(2) Fp8x2 {
    using One = Fp8<Format>;

    __nv_fp8x2_storage_t __x;

    Fp8x2() = default;
    explicit Fp8x2(float2 values) : Fp8x2(One(values.x), One(values.y)) {}
    explicit Fp8x2(double2 values) : Fp8x2(One(values.x), One(values.y)) {}
    explicit Fp8x2(__half2 values) : Fp8x2(One(values.x), One(values.y)) {}
    explicit Fp8x2(__nv_bfloat162 values) : Fp8x2(One(values.x), One(values.y)) {}

    explicit operator float2() const { return {Format::widen(__x & 0xff), Format::widen(__x >> 8)}; }
    explicit operator __half2() const { return {Format::widen(__x & 0xff), Format::widen(__x >> 8)}; }

  private:
    Fp8x2(One low, One high) : __x(static_cast<__nv_fp8x2_storage_t>(low.__x | high.__x << 8)) {}
};

template <typename Format>
struct alignas(4) Fp8x4 {
    using Two = Fp8x2<Format>;

    __nv_fp8x4_storage_t __x;

    Fp8x4() = default;
    explicit Fp8x4(__half2 low, __half2 high) : Fp8x4(Two(low), Two(high)) {}
    explicit Fp8x4(__nv_bfloat162 low, __nv_bfloat162 high) : Fp8x4(Two(low), Two(high)) {}
    explicit Fp8x4(float4 values) : Fp8x4(Two(float2{values.x, values.y}), Two(float2{values.z, values.w})) {}
    template <typename Four, typename = std::enable_if_t<std::is_same<decltype(Four::w), double>::value>>
    explicit Fp8x4(Four values) : Fp8x4(Two(double2{values.x, values.y}), Two(double2{values.z, values.w})) {}

    explicit operator float4() const {
        return {Format::widen(__x & 0xff), Format::widen(__x >> 8 & 0xff), Format::widen(__x >> 16 & 0xff),
                Format::widen(__x >> 24)};
    }

  private:
    Fp8x4(Two low, Two high) : __x(low.__x | static_cast<unsigned>(high.__x) << 16) {}
};

}  // namespace pretuned

using __nv_fp8_e4m3 = pretuned::Fp8<pretuned::E4M3>;
using __nv_fp8_e5m2 = pretuned::Fp8<pretuned::E5M2>;
using __nv_fp8x2_e4m3 = pretuned::Fp8x2<pretuned::E4M3>;
using __nv_fp8x2_e5m2 = pretuned::Fp8x2<pretuned::E5M2>;
using __nv_fp8x4_e4m3 = pretuned::Fp8x4<pretuned::E4M3>;
using __nv_fp8x4_e5m2 = pretuned::Fp8x4<pretuned::E5M2>;

// __nv_cvt_float_to_fp8 and __nv_cvt_float2_to_fp8x2, and so on: `element` of what is passed, as `real` has it.
#define PRETUNED_TO_FP8(name, one, two, element, real)                                                               \
    inline __nv_fp8_storage_t __nv_cvt_##name##_to_fp8(one x, __nv_saturation_t saturate,                            \
                                                       __nv_fp8_interpretation_t format) {                           \
        return static_cast<__nv_fp8_storage_t>(pretuned::narrow_to(format, real(element), saturate));                \
    }                                                                                                                \
    inline __nv_fp8x2_storage_t __nv_cvt_##name##2_to_fp8x2(two x, __nv_saturation_t saturate,                       \
                                                            __nv_fp8_interpretation_t format) {                      \
        return static_cast<__nv_fp8x2_storage_t>(pretuned::narrow_to(format, real(x.x), saturate) |                  \
                                                 pretuned::narrow_to(format, real(x.y), saturate) << 8);             \
    }
PRETUNED_TO_FP8(float, float, float2, x, float)
PRETUNED_TO_FP8(double, double, double2, x, double)
PRETUNED_TO_FP8(halfraw, __half_raw, __half2_raw, x.x, pretuned::Half::widen)
PRETUNED_TO_FP8(bfloat16raw, __nv_bfloat16_raw, __nv_bfloat162_raw, x.x, pretuned::Brain::widen)
#undef PRETUNED_TO_FP8

inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t format) {
    return {pretuned::Half::narrow(format == __NV_E4M3 ? pretuned::E4M3::widen(x) : pretuned::E5M2::widen(x))};
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t format) {
    return {__nv_cvt_fp8_to_halfraw(x & 0xff, format).x, __nv_cvt_fp8_to_halfraw(x >> 8, format).x};
}

#pragma pop_macro("std")
