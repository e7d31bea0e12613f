// <cuComplex.h>: complex numbers as pairs, with CUDA's functions and their order of operations.

#pragma once

#define CU_COMPLEX_H_  // CUDA's own guard

#include "vector_types.h"

#define PRETUNED_COMPLEX(name, pair, part, f, largest)                                                              \
    using name = pair;                                                                                              \
    inline part cuCreal##f(name x) { return x.x; }                                                                  \
    inline part cuCimag##f(name x) { return x.y; }                                                                  \
    inline name make_##name(part real, part imaginary) { return {real, imaginary}; }                                \
    inline name cuConj##f(name x) { return {x.x, -x.y}; }                                                           \
    inline name cuCadd##f(name x, name y) { return {x.x + y.x, x.y + y.y}; }                                        \
    inline name cuCsub##f(name x, name y) { return {x.x - y.x, x.y - y.y}; }                                        \
    inline name cuCmul##f(name x, name y) { return {x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x}; }                \
    inline name cuCdiv##f(name x, name y) { /* scaled, so that what lies between does not overflow */               \
        const part by = 1 / (fabs##f(y.x) + fabs##f(y.y));                                                          \
        const name a{x.x * by, x.y * by}, b{y.x * by, y.y * by};                                                    \
        const part over = 1 / (b.x * b.x + b.y * b.y);                                                              \
        return {(a.x * b.x + a.y * b.y) * over, (a.y * b.x - a.x * b.y) * over};                                    \
    }                                                                                                               \
    inline part cuCabs##f(name x) {                                                                                 \
        const part a = fabs##f(x.x), b = fabs##f(x.y), v = a > b ? a : b, w = a > b ? b : a, t = w / v;             \
        return v == 0 || v > largest || w > largest ? v + w : v * sqrt##f(1 + t * t);                               \
    }                                                                                                               \
    inline name cuCfma##f(name x, name y, name d) {                                                                 \
        return {-(x.y * y.y) + (x.x * y.x + d.x), x.y * y.x + (x.x * y.y + d.y)};                                   \
    }

PRETUNED_COMPLEX(cuFloatComplex, float2, float, f, 3.402823466e38f)
PRETUNED_COMPLEX(cuDoubleComplex, double2, double, , 1.79769313486231570e+308)
#undef PRETUNED_COMPLEX

using cuComplex = cuFloatComplex;
inline cuComplex make_cuComplex(float real, float imaginary) { return {real, imaginary}; }
inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex x) { return {x.x, x.y}; }
inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex x) {
    return {static_cast<float>(x.x), static_cast<float>(x.y)};
}
