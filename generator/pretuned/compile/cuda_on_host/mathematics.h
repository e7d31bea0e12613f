// Mathematical functions as device code sees them without an #include: overloaded for float and double in the global
// namespace (CUDA Math API; which overloads there are was asked of NVRTC 13).
//
// The fast ones (__expf and its like) give exact results: a template that lives by their errors is not to be judged on
// the host. What few call (erfcxf, the inverse error functions, Bessel functions that the C library lacks) is not here,
// and does not compile.

#pragma once

#include <cmath>
#include <cstdlib>
#include <type_traits>

using std::abs;
using std::acos;
using std::acosh;
using std::asin;
using std::asinh;
using std::atan;
using std::atan2;
using std::atanh;
using std::cbrt;
using std::ceil;
using std::copysign;
using std::cos;
using std::cosh;
using std::erf;
using std::erfc;
using std::exp;
using std::exp2;
using std::expm1;
using std::fabs;
using std::fdim;
using std::floor;
using std::fma;
using std::fmax;
using std::fmin;
using std::fmod;
using std::frexp;
using std::hypot;
using std::ilogb;
using std::isfinite;
using std::isinf;
using std::isnan;
using std::ldexp;
using std::lgamma;
using std::llrint;
using std::llround;
using std::log;
using std::log10;
using std::log1p;
using std::log2;
using std::logb;
using std::lrint;
using std::lround;
using std::modf;
using std::nearbyint;
using std::nextafter;
using std::pow;
using std::remainder;
using std::remquo;
using std::rint;
using std::round;
using std::scalbln;
using std::scalbn;
using std::signbit;
using std::sin;
using std::sinh;
using std::sqrt;
using std::tan;
using std::tanh;
using std::tgamma;
using std::trunc;

// --- Where CUDA and the standard library give other types

inline float pow(float x, int y) { return std::pow(x, static_cast<float>(y)); }
inline float fmax(float x, int y) { return fmaxf(x, static_cast<float>(y)); }
inline float fmax(int x, float y) { return fmaxf(static_cast<float>(x), y); }
inline float fmin(float x, int y) { return fminf(x, static_cast<float>(y)); }
inline float fmin(int x, float y) { return fminf(static_cast<float>(x), y); }

// --- Minima and maxima. There is none for a long and an int, say: the call is ambiguous, as it is for NVRTC.

#define PRETUNED_LESSER(left, right, type)                                                                \
    inline constexpr type min(left a, right b) {                                                          \
        return static_cast<type>(a) < static_cast<type>(b) ? static_cast<type>(a) : static_cast<type>(b); \
    }                                                                                                     \
    inline constexpr type max(left a, right b) {                                                          \
        return static_cast<type>(a) < static_cast<type>(b) ? static_cast<type>(b) : static_cast<type>(a); \
    }
#define PRETUNED_INTEGERS(type, unsigned_type)                   \
    PRETUNED_LESSER(type, type, type)                            \
    PRETUNED_LESSER(unsigned_type, unsigned_type, unsigned_type) \
    PRETUNED_LESSER(type, unsigned_type, unsigned_type)          \
    PRETUNED_LESSER(unsigned_type, type, unsigned_type)
PRETUNED_INTEGERS(int, unsigned)
PRETUNED_INTEGERS(long, unsigned long)
PRETUNED_INTEGERS(long long, unsigned long long)
#undef PRETUNED_INTEGERS
#undef PRETUNED_LESSER
// Of a NaN and a number, the number.
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return ::fmin(a, b); }
inline double max(double a, double b) { return ::fmax(a, b); }
inline double min(float a, double b) { return ::fmin(static_cast<double>(a), b); }
inline double max(float a, double b) { return ::fmax(static_cast<double>(a), b); }
inline double min(double a, float b) { return ::fmin(a, static_cast<double>(b)); }
inline double max(double a, float b) { return ::fmax(a, static_cast<double>(b)); }
inline constexpr unsigned umin(unsigned a, unsigned b) { return min(a, b); }
inline constexpr unsigned umax(unsigned a, unsigned b) { return max(a, b); }
inline constexpr long long llmin(long long a, long long b) { return min(a, b); }
inline constexpr long long llmax(long long a, long long b) { return max(a, b); }
inline constexpr unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
inline constexpr unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }

// --- What the C library lacks, or has by another name. In float: a double's result, rounded.

inline float exp10(float x) { return exp10f(x); }

inline double rsqrt(double x) { return 1 / std::sqrt(x); }
// Correctly rounded: of all 2^24 significands and parities of the exponent none comes close to a midpoint.
inline float rsqrtf(float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline double rcbrt(double x) { return 1 / std::cbrt(x); }
inline float rcbrtf(float x) { return static_cast<float>(1 / std::cbrt(static_cast<double>(x))); }
inline float rcbrt(float x) { return rcbrtf(x); }

namespace pretuned {

constexpr double pi = 3.14159265358979323846;

// sin(pi * x), exact where it is 0, 1 or -1: `remainder` is exact, and so is the distance from a half.
inline double sine_of_pi(double x) {
    const double turned = std::remainder(x, 2.0);
    const double folded = std::fabs(turned) > 0.5 ? std::copysign(1.0, turned) - turned : turned;
    return std::sin(pi * folded);
}

inline double cosine_of_pi(double x) { return std::sin(pi * (0.5 - std::fabs(std::remainder(x, 2.0)))); }

}  // namespace pretuned

inline double sinpi(double x) { return pretuned::sine_of_pi(x); }
inline double cospi(double x) { return pretuned::cosine_of_pi(x); }
inline float sinpif(float x) { return static_cast<float>(pretuned::sine_of_pi(x)); }
inline float cospif(float x) { return static_cast<float>(pretuned::cosine_of_pi(x)); }
inline float sinpi(float x) { return sinpif(x); }
inline float cospi(float x) { return cospif(x); }

#define PRETUNED_BOTH(name, real, sine, cosine)                \
    inline void name(real x, real* sine_at, real* cosine_at) { \
        *sine_at = sine(x);                                    \
        *cosine_at = cosine(x);                                \
    }
PRETUNED_BOTH(sincos, float, sinf, cosf)  // for double the C library has it
PRETUNED_BOTH(sincospi, double, sinpi, cospi)
PRETUNED_BOTH(sincospi, float, sinpif, cospif)
PRETUNED_BOTH(sincospif, float, sinpif, cospif)
PRETUNED_BOTH(__sincosf, float, sinf, cosf)
#undef PRETUNED_BOTH

inline double normcdf(double x) { return 0.5 * std::erfc(-0.70710678118654752440 * x); }
inline float normcdff(float x) { return static_cast<float>(normcdf(static_cast<double>(x))); }
inline float normcdf(float x) { return normcdff(x); }
inline float j0(float x) { return j0f(x); }
inline float j1(float x) { return j1f(x); }
inline float jn(int n, float x) { return jnf(n, x); }
inline float y0(float x) { return y0f(x); }
inline float y1(float x) { return y1f(x); }
inline float yn(int n, float x) { return ynf(n, x); }
inline float fdividef(float x, float y) { return x / y; }

// Lengths of vectors, without overflow on the way.
inline double norm3d(double x, double y, double z) { return std::hypot(std::hypot(x, y), z); }
inline double norm4d(double x, double y, double z, double w) { return std::hypot(std::hypot(x, y), std::hypot(z, w)); }
inline double norm(int count, const double* values) {
    double length = 0;
    for (int i = 0; i < count; ++i) {
        length = std::hypot(length, values[i]);
    }
    return length;
}
inline double rnorm3d(double x, double y, double z) { return 1 / norm3d(x, y, z); }
inline double rnorm4d(double x, double y, double z, double w) { return 1 / norm4d(x, y, z, w); }
inline double rnorm(int count, const double* values) { return 1 / norm(count, values); }
inline double rhypot(double x, double y) { return 1 / std::hypot(x, y); }
inline float norm3df(float x, float y, float z) { return static_cast<float>(norm3d(x, y, z)); }
inline float norm4df(float x, float y, float z, float w) { return static_cast<float>(norm4d(x, y, z, w)); }
inline float normf(int count, const float* values) {
    double length = 0;
    for (int i = 0; i < count; ++i) {
        length = std::hypot(length, static_cast<double>(values[i]));
    }
    return static_cast<float>(length);
}
inline float rnorm3df(float x, float y, float z) { return static_cast<float>(rnorm3d(x, y, z)); }
inline float rnorm4df(float x, float y, float z, float w) { return static_cast<float>(rnorm4d(x, y, z, w)); }
inline float rnormf(int count, const float* values) { return 1 / normf(count, values); }
inline float rhypotf(float x, float y) { return static_cast<float>(rhypot(x, y)); }

// --- The fast ones

inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return exp10f(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __tanhf(float x) { return tanhf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }  // of a NaN, 0
