// What CUDA gives for a type of 16 bits: conversions, arithmetic, comparisons, functions, for values and for pairs.
//
// Included once for each type, which PRETUNED_VALUE, PRETUNED_PAIR, PRETUNED_FORMAT and PRETUNED_NAME (half, bfloat16:
// as functions are named) stand for. They are no templates, so that arguments convert as they do for CUDA's.

#pragma push_macro("std")  // names.h hides these
#pragma push_macro("uint")
#pragma push_macro("ushort")
#undef std
#undef uint
#undef ushort

#define PRETUNED_JOIN_(a, b, c, d, e) a##b##c##d##e
#define PRETUNED_JOIN(a, b, c, d, e) PRETUNED_JOIN_(a, b, c, d, e)
#define PRETUNED_FROM(type) PRETUNED_JOIN(__, type, 2, PRETUNED_NAME, )  // __float2half
#define PRETUNED_TO(type) PRETUNED_JOIN(__, PRETUNED_NAME, 2, type, )    // __half2float
#define PRETUNED_NAMED(before, after) PRETUNED_JOIN(before, PRETUNED_NAME, after, , )
#define PRETUNED_RAW(value) PRETUNED_VALUE(pretuned::RawNarrow{value})

// --- Conversions

inline float PRETUNED_TO(float)(PRETUNED_VALUE a) { return a; }
inline PRETUNED_VALUE PRETUNED_FROM(float)(float a) { return a; }
inline PRETUNED_VALUE PRETUNED_FROM(double)(double a) { return a; }

#define PRETUNED_ROUNDED(type, name, exact)                                                                    \
    inline PRETUNED_VALUE PRETUNED_JOIN(__, name, 2, PRETUNED_NAME, _rn)(type a) { return PRETUNED_VALUE(a); } \
    inline PRETUNED_VALUE PRETUNED_JOIN(__, name, 2, PRETUNED_NAME, _rz)(type a) {                             \
        return PRETUNED_RAW(pretuned::narrow_to_zero<PRETUNED_FORMAT>(exact(a)));                              \
    }                                                                                                          \
    inline PRETUNED_VALUE PRETUNED_JOIN(__, name, 2, PRETUNED_NAME, _ru)(type a) {                             \
        return PRETUNED_RAW(pretuned::narrow_up<PRETUNED_FORMAT>(exact(a)));                                   \
    }                                                                                                          \
    inline PRETUNED_VALUE PRETUNED_JOIN(__, name, 2, PRETUNED_NAME, _rd)(type a) {                             \
        return PRETUNED_RAW(pretuned::narrow_down<PRETUNED_FORMAT>(exact(a)));                                 \
    }
PRETUNED_ROUNDED(float, float, float)
PRETUNED_ROUNDED(short, short, float)
PRETUNED_ROUNDED(unsigned short, ushort, float)
PRETUNED_ROUNDED(int, int, pretuned::to_odd_from)
PRETUNED_ROUNDED(unsigned, uint, pretuned::to_odd_from)
PRETUNED_ROUNDED(long long, ll, pretuned::to_odd_from)
PRETUNED_ROUNDED(unsigned long long, ull, pretuned::to_odd_from)
#undef PRETUNED_ROUNDED

#define PRETUNED_INTEGER(type, name, mode, function)                                \
    inline type PRETUNED_JOIN(__, PRETUNED_NAME, 2, name, mode)(PRETUNED_VALUE a) { \
        return pretuned::saturated<type>(function(float(a)));                       \
    }
#define PRETUNED_INTEGERS(type, name)                 \
    PRETUNED_INTEGER(type, name, _rn, std::nearbyint) \
    PRETUNED_INTEGER(type, name, _rz, std::trunc)     \
    PRETUNED_INTEGER(type, name, _ru, std::ceil)      \
    PRETUNED_INTEGER(type, name, _rd, std::floor)
PRETUNED_INTEGER(signed char, char, _rz, std::trunc)
PRETUNED_INTEGER(unsigned char, uchar, _rz, std::trunc)
PRETUNED_INTEGERS(short, short)
PRETUNED_INTEGERS(unsigned short, ushort)
PRETUNED_INTEGERS(int, int)
PRETUNED_INTEGERS(unsigned, uint)
PRETUNED_INTEGERS(long long, ll)
PRETUNED_INTEGERS(unsigned long long, ull)
#undef PRETUNED_INTEGERS
#undef PRETUNED_INTEGER

inline unsigned short PRETUNED_NAMED(__, _as_ushort)(PRETUNED_VALUE a) { return a.stored; }
inline short PRETUNED_NAMED(__, _as_short)(PRETUNED_VALUE a) { return static_cast<short>(a.stored); }
inline PRETUNED_VALUE PRETUNED_NAMED(__ushort_as_, )(unsigned short a) { return PRETUNED_RAW(a); }
inline PRETUNED_VALUE PRETUNED_NAMED(__short_as_, )(short a) { return PRETUNED_RAW(static_cast<unsigned short>(a)); }

// --- Making pairs, and taking them apart

inline PRETUNED_PAIR PRETUNED_NAMED(make_, 2)(PRETUNED_VALUE a, PRETUNED_VALUE b) { return {a, b}; }
inline PRETUNED_PAIR PRETUNED_NAMED(__halves2, 2)(PRETUNED_VALUE a, PRETUNED_VALUE b) { return {a, b}; }
inline PRETUNED_PAIR PRETUNED_JOIN(__, PRETUNED_NAME, 2, PRETUNED_NAME, 2)(PRETUNED_VALUE a) { return {a, a}; }
inline PRETUNED_PAIR PRETUNED_NAMED(__float2, 2_rn)(float a) { return {a, a}; }
inline PRETUNED_PAIR PRETUNED_NAMED(__floats2, 2_rn)(float a, float b) { return {a, b}; }
inline PRETUNED_PAIR PRETUNED_NAMED(__float22, 2_rn)(float2 a) { return {a.x, a.y}; }
inline float2 PRETUNED_NAMED(__, 22float2)(PRETUNED_PAIR a) { return {a.x, a.y}; }
inline PRETUNED_VALUE PRETUNED_NAMED(__low2, )(PRETUNED_PAIR a) { return a.x; }
inline PRETUNED_VALUE PRETUNED_NAMED(__high2, )(PRETUNED_PAIR a) { return a.y; }
inline PRETUNED_PAIR PRETUNED_NAMED(__low2, 2)(PRETUNED_PAIR a) { return {a.x, a.x}; }
inline PRETUNED_PAIR PRETUNED_NAMED(__high2, 2)(PRETUNED_PAIR a) { return {a.y, a.y}; }
inline PRETUNED_PAIR PRETUNED_NAMED(__lows2, 2)(PRETUNED_PAIR a, PRETUNED_PAIR b) { return {a.x, b.x}; }
inline PRETUNED_PAIR PRETUNED_NAMED(__highs2, 2)(PRETUNED_PAIR a, PRETUNED_PAIR b) { return {a.y, b.y}; }
inline float __low2float(PRETUNED_PAIR a) { return a.x; }
inline float __high2float(PRETUNED_PAIR a) { return a.y; }
inline PRETUNED_PAIR __lowhigh2highlow(PRETUNED_PAIR a) { return {a.y, a.x}; }

// --- Arithmetic: `suffix` goes to the end, of the pair's function behind the 2

#define PRETUNED_UNARY(name, name2, expression)                         \
    inline PRETUNED_VALUE name(PRETUNED_VALUE a) { return expression; } \
    inline PRETUNED_PAIR name2(PRETUNED_PAIR a) { return {name(a.x), name(a.y)}; }
#define PRETUNED_BINARY(name, suffix, expression)                                                 \
    inline PRETUNED_VALUE name##suffix(PRETUNED_VALUE a, PRETUNED_VALUE b) { return expression; } \
    inline PRETUNED_PAIR name##2##suffix(PRETUNED_PAIR a, PRETUNED_PAIR b) {                      \
        return {name##suffix(a.x, b.x), name##suffix(a.y, b.y)};                                  \
    }
#define PRETUNED_FUSED(suffix, finish)                                                           \
    inline PRETUNED_VALUE __hfma##suffix(PRETUNED_VALUE a, PRETUNED_VALUE b, PRETUNED_VALUE c) { \
        const PRETUNED_VALUE result = pretuned::fused_to_odd(a, b, c);                           \
        return finish;                                                                           \
    }                                                                                            \
    inline PRETUNED_PAIR __hfma2##suffix(PRETUNED_PAIR a, PRETUNED_PAIR b, PRETUNED_PAIR c) {    \
        return {__hfma##suffix(a.x, b.x, c.x), __hfma##suffix(a.y, b.y, c.y)};                   \
    }
#define PRETUNED_NAN PRETUNED_RAW(0x7fff)

PRETUNED_UNARY(__hneg, __hneg2, -a)
PRETUNED_UNARY(__habs, __habs2, PRETUNED_RAW(static_cast<unsigned short>(a.stored & 0x7fff)))
PRETUNED_BINARY(__hadd, , a + b)
PRETUNED_BINARY(__hadd, _rn, a + b)
PRETUNED_BINARY(__hadd, _sat, __saturatef(a + b))
PRETUNED_BINARY(__hsub, , a - b)
PRETUNED_BINARY(__hsub, _rn, a - b)
PRETUNED_BINARY(__hsub, _sat, __saturatef(a - b))
PRETUNED_BINARY(__hmul, , a* b)
PRETUNED_BINARY(__hmul, _rn, a* b)
PRETUNED_BINARY(__hmul, _sat, __saturatef(a* b))
PRETUNED_BINARY(__hmin, , pretuned::lesser(a, b))
PRETUNED_BINARY(__hmax, , pretuned::greater(a, b))
PRETUNED_BINARY(__hmin, _nan, a != a || b != b ? PRETUNED_NAN : pretuned::lesser(a, b))
PRETUNED_BINARY(__hmax, _nan, a != a || b != b ? PRETUNED_NAN : pretuned::greater(a, b))
PRETUNED_FUSED(, result)
PRETUNED_FUSED(_sat, __saturatef(result))
PRETUNED_FUSED(_relu, result != result ? result : pretuned::greater(result, PRETUNED_RAW(0)))
inline PRETUNED_VALUE __hdiv(PRETUNED_VALUE a, PRETUNED_VALUE b) { return a / b; }
inline PRETUNED_PAIR __h2div(PRETUNED_PAIR a, PRETUNED_PAIR b) { return a / b; }
// a * b + c of complex numbers
inline PRETUNED_PAIR __hcmadd(PRETUNED_PAIR a, PRETUNED_PAIR b, PRETUNED_PAIR c) {
    return {__hfma(-a.y, b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y))};
}

// --- Comparisons: with a NaN they do not hold, but those with a u do

inline bool __hisnan(PRETUNED_VALUE a) { return a != a; }
inline PRETUNED_PAIR __hisnan2(PRETUNED_PAIR a) { return {__hisnan(a.x) ? 1.0f : 0.0f, __hisnan(a.y) ? 1.0f : 0.0f}; }
inline int __hisinf(PRETUNED_VALUE a) {
    return (a.stored & 0x7fff) != PRETUNED_FORMAT::infinity ? 0 : a.stored >> 15 ? -1 : 1;
}

#define PRETUNED_COMPARED(name, expression)                                                     \
    inline bool __h##name(PRETUNED_VALUE a, PRETUNED_VALUE b) { return expression; }            \
    inline bool __hb##name##2(PRETUNED_PAIR a, PRETUNED_PAIR b) {                               \
        return __h##name(a.x, b.x) && __h##name(a.y, b.y);                                      \
    }                                                                                           \
    inline PRETUNED_PAIR __h##name##2(PRETUNED_PAIR a, PRETUNED_PAIR b) {                       \
        return {__h##name(a.x, b.x) ? 1.0f : 0.0f, __h##name(a.y, b.y) ? 1.0f : 0.0f};          \
    }                                                                                           \
    inline unsigned __h##name##2_mask(PRETUNED_PAIR a, PRETUNED_PAIR b) {                       \
        return (__h##name(a.x, b.x) ? 0xffffu : 0u) | (__h##name(a.y, b.y) ? 0xffff0000u : 0u); \
    }
PRETUNED_COMPARED(eq, a == b)
PRETUNED_COMPARED(ne, a < b || a > b)
PRETUNED_COMPARED(lt, a < b)
PRETUNED_COMPARED(le, a <= b)
PRETUNED_COMPARED(gt, a > b)
PRETUNED_COMPARED(ge, a >= b)
PRETUNED_COMPARED(equ, !(a < b || a > b))
PRETUNED_COMPARED(neu, a != b)
PRETUNED_COMPARED(ltu, !(a >= b))
PRETUNED_COMPARED(leu, !(a > b))
PRETUNED_COMPARED(gtu, !(a <= b))
PRETUNED_COMPARED(geu, !(a < b))
#undef PRETUNED_COMPARED

// --- Functions: in float, then rounded

PRETUNED_UNARY(hexp, h2exp, expf(a))
PRETUNED_UNARY(hexp2, h2exp2, exp2f(a))
PRETUNED_UNARY(hexp10, h2exp10, exp10f(a))
PRETUNED_UNARY(hlog, h2log, logf(a))
PRETUNED_UNARY(hlog2, h2log2, log2f(a))
PRETUNED_UNARY(hlog10, h2log10, log10f(a))
PRETUNED_UNARY(hsqrt, h2sqrt, sqrtf(a))
PRETUNED_UNARY(hrsqrt, h2rsqrt, rsqrtf(a))
PRETUNED_UNARY(hrcp, h2rcp, 1 / float(a))
PRETUNED_UNARY(hsin, h2sin, sinf(a))
PRETUNED_UNARY(hcos, h2cos, cosf(a))
PRETUNED_UNARY(htanh, h2tanh, tanhf(a))
PRETUNED_UNARY(htanh_approx, h2tanh_approx, tanhf(a))
PRETUNED_UNARY(hceil, h2ceil, ceilf(a))
PRETUNED_UNARY(hfloor, h2floor, floorf(a))
PRETUNED_UNARY(htrunc, h2trunc, truncf(a))
PRETUNED_UNARY(hrint, h2rint, rintf(a))

inline PRETUNED_VALUE atomicAdd(PRETUNED_VALUE* address, PRETUNED_VALUE value) {
    return pretuned::update(address, [value](PRETUNED_VALUE old) { return old + value; });
}
inline PRETUNED_PAIR atomicAdd(PRETUNED_PAIR* address, PRETUNED_PAIR value) {
    return pretuned::update(address, [value](PRETUNED_PAIR old) { return old + value; });
}

#undef PRETUNED_UNARY
#undef PRETUNED_BINARY
#undef PRETUNED_FUSED
#undef PRETUNED_NAN
#undef PRETUNED_RAW
#undef PRETUNED_NAMED
#undef PRETUNED_TO
#undef PRETUNED_FROM
#undef PRETUNED_JOIN
#undef PRETUNED_JOIN_

#pragma pop_macro("ushort")
#pragma pop_macro("uint")
#pragma pop_macro("std")
