// Arithmetic in a stated rounding mode: __fadd_rn, __fmul_ru, __dsqrt_rz and their like.
//
// CUDA does not merge these with their neighbours into a fused multiply-add; nor may the compiler here.

#pragma once

#include <cfenv>
#include <cmath>

namespace pretuned {

// A value that the compiler knows nothing of, so that it cannot merge what made it with what comes.
template <typename Real>
Real alone(Real value) {
#if defined(__x86_64__)
    asm("" : "+x"(value));
#else
    asm("" : "+w"(value));
#endif
    return value;
}

// Another rounding mode while it lives.
class Rounding {
public:
    explicit Rounding(int mode) : before_(std::fegetround()) { std::fesetround(mode); }
    ~Rounding() { std::fesetround(before_); }
    Rounding(const Rounding&) = delete;
    Rounding& operator=(const Rounding&) = delete;

private:
    int before_;
};

}  // namespace pretuned

// Volatile: compilers take the mode for constant, but do not move such reads and writes over its change.
#define PRETUNED_DIRECTED(name, real, parameters, inputs, mode, expression) \
    inline real name parameters {                                           \
        inputs;                                                             \
        const pretuned::Rounding rounding(mode);                            \
        const volatile real result = expression;                            \
        return result;                                                      \
    }
#define PRETUNED_ROUNDED(name, real, parameters, inputs, expression)                  \
    inline real name##_rn parameters {                                                \
        inputs;                                                                       \
        return pretuned::alone<real>(expression);                                     \
    }                                                                                 \
    PRETUNED_DIRECTED(name##_rz, real, parameters, inputs, FE_TOWARDZERO, expression) \
    PRETUNED_DIRECTED(name##_ru, real, parameters, inputs, FE_UPWARD, expression)     \
    PRETUNED_DIRECTED(name##_rd, real, parameters, inputs, FE_DOWNWARD, expression)
#define PRETUNED_UNARY(name, result, argument, expression) \
    PRETUNED_ROUNDED(name, result, (argument a), const volatile argument x = a, expression)
#define PRETUNED_BINARY(name, real, expression) \
    PRETUNED_ROUNDED(name, real, (real a, real b), const volatile real x = a; const volatile real y = b, expression)
#define PRETUNED_TERNARY(name, real, expression)                                                                 \
    PRETUNED_ROUNDED(name, real, (real a, real b, real c), const volatile real x = a; const volatile real y = b; \
                     const volatile real z = c, expression)

PRETUNED_BINARY(__fadd, float, x + y)
PRETUNED_BINARY(__fsub, float, x - y)
PRETUNED_BINARY(__fmul, float, x* y)
PRETUNED_BINARY(__fdiv, float, x / y)
PRETUNED_UNARY(__frcp, float, float, 1 / x)
PRETUNED_UNARY(__fsqrt, float, float, sqrtf(x))
PRETUNED_TERNARY(__fmaf, float, fmaf(x, y, z))
PRETUNED_BINARY(__dadd, double, x + y)
PRETUNED_BINARY(__dsub, double, x - y)
PRETUNED_BINARY(__dmul, double, x* y)
PRETUNED_BINARY(__ddiv, double, x / y)
PRETUNED_UNARY(__drcp, double, double, 1 / x)
PRETUNED_UNARY(__dsqrt, double, double, ::sqrt(x))
PRETUNED_TERNARY(__fma, double, ::fma(x, y, z))

PRETUNED_UNARY(__double2float, float, double, static_cast<float>(x))
PRETUNED_UNARY(__int2float, float, int, static_cast<float>(x))
PRETUNED_UNARY(__uint2float, float, unsigned, static_cast<float>(x))
PRETUNED_UNARY(__ll2float, float, long long, static_cast<float>(x))
PRETUNED_UNARY(__ull2float, float, unsigned long long, static_cast<float>(x))
PRETUNED_UNARY(__ll2double, double, long long, static_cast<double>(x))
PRETUNED_UNARY(__ull2double, double, unsigned long long, static_cast<double>(x))
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }

#undef PRETUNED_TERNARY
#undef PRETUNED_BINARY
#undef PRETUNED_UNARY
#undef PRETUNED_ROUNDED
#undef PRETUNED_DIRECTED
