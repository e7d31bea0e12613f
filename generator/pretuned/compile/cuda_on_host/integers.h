// Integer intrinsics: bits, products, sums of differences, dot products (CUDA Math API, "Integer Intrinsics").
//
// Sums wrap as on a GPU, so they are formed in unsigned types: UBSan would tell of signed ones.

#pragma once

#include "vector_types.h"

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }

inline unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
inline unsigned long long __brevll(unsigned long long x) {
    const unsigned long long high = __brev(static_cast<unsigned>(x));
    return high << 32 | __brev(static_cast<unsigned>(x >> 32));
}

// Four bytes out of the eight of `y` and `x`; bit 3 of each selector is not looked at.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long bytes = static_cast<unsigned long long>(y) << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        result |= static_cast<unsigned>(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    }
    return result;
}

// A word out of `high` and `low`, shifted together: by `shift` modulo 32, or (the ones with a c) by 32 at most.
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    const unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
    return static_cast<unsigned>(both << (shift < 32 ? shift : 32) >> 32);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    const unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
    return static_cast<unsigned>(both >> (shift < 32 ? shift : 32));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return __funnelshift_lc(low, high, shift & 31);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return __funnelshift_rc(low, high, shift & 31);
}

// --- Products and averages

namespace pretuned {

__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 UnsignedWide;

inline int low_24(int x) { return static_cast<int>(static_cast<unsigned>(x) << 8) >> 8; }

}  // namespace pretuned

inline int __mulhi(int x, int y) { return static_cast<int>(static_cast<long long>(x) * y >> 32); }
inline unsigned __umulhi(unsigned x, unsigned y) {
    return static_cast<unsigned>(static_cast<unsigned long long>(x) * y >> 32);
}
inline long long __mul64hi(long long x, long long y) {
    return static_cast<long long>(static_cast<pretuned::Wide>(x) * y >> 64);
}
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return static_cast<unsigned long long>(static_cast<pretuned::UnsignedWide>(x) * y >> 64);
}
inline int __mul24(int x, int y) {
    return static_cast<int>(static_cast<long long>(pretuned::low_24(x)) * pretuned::low_24(y));
}
inline unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffff) * (y & 0xffffff); }
inline int __hadd(int x, int y) { return static_cast<int>((static_cast<long long>(x) + y) >> 1); }
inline int __rhadd(int x, int y) { return static_cast<int>((static_cast<long long>(x) + y + 1) >> 1); }
inline unsigned __uhadd(unsigned x, unsigned y) {
    return static_cast<unsigned>((static_cast<unsigned long long>(x) + y) >> 1);
}
inline unsigned __urhadd(unsigned x, unsigned y) {
    return static_cast<unsigned>((static_cast<unsigned long long>(x) + y + 1) >> 1);
}
inline unsigned __usad(unsigned x, unsigned y, unsigned z) { return (x < y ? y - x : x - y) + z; }
inline unsigned __sad(int x, int y, unsigned z) {
    const unsigned difference = static_cast<unsigned>(x) - static_cast<unsigned>(y);
    return (x < y ? 0 - difference : difference) + z;
}

// --- Dot products of bytes with bytes, and of half-words with bytes

inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
    for (int i = 0; i < 32; i += 8) {
        sum += (a >> i & 0xff) * (b >> i & 0xff);
    }
    return sum;
}
inline int __dp4a(int a, int b, int sum) {
    unsigned result = static_cast<unsigned>(sum);
    for (int i = 0; i < 32; i += 8) {
        result += static_cast<unsigned>(static_cast<signed char>(a >> i) * static_cast<signed char>(b >> i));
    }
    return static_cast<int>(result);
}
inline int __dp4a(char4 a, char4 b, int sum) {
    const unsigned product = static_cast<unsigned>(a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w);
    return static_cast<int>(static_cast<unsigned>(sum) + product);
}
inline unsigned __dp4a(uchar4 a, uchar4 b, unsigned sum) {
    return sum + static_cast<unsigned>(a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w);
}

#define PRETUNED_DP2A(name, shift, first, second)                                                                    \
    inline int name(int a, int b, int sum) {                                                                         \
        const int low = static_cast<short>(a) * static_cast<signed char>(b >> shift);                                \
        const int high = static_cast<short>(a >> 16) * static_cast<signed char>(b >> (shift + 8));                   \
        return static_cast<int>(static_cast<unsigned>(sum) + static_cast<unsigned>(low + high));                     \
    }                                                                                                                \
    inline unsigned name(unsigned a, unsigned b, unsigned sum) {                                                     \
        return sum + (a & 0xffff) * (b >> shift & 0xff) + (a >> 16) * (b >> (shift + 8) & 0xff);                     \
    }                                                                                                                \
    inline int name(short2 a, char4 b, int sum) {                                                                    \
        return static_cast<int>(static_cast<unsigned>(sum) + static_cast<unsigned>(a.x * b.first + a.y * b.second)); \
    }                                                                                                                \
    inline unsigned name(ushort2 a, uchar4 b, unsigned sum) {                                                        \
        return sum + static_cast<unsigned>(a.x * b.first) + static_cast<unsigned>(a.y * b.second);                   \
    }
PRETUNED_DP2A(__dp2a_lo, 0, x, y)
PRETUNED_DP2A(__dp2a_hi, 16, z, w)
#undef PRETUNED_DP2A

// --- Least and greatest of three, and of a sum and another ("DPX")

#define PRETUNED_THREE(suffix, type)                                                                          \
    inline type __vimin3_##suffix(type a, type b, type c) { return a < b ? (a < c ? a : c) : b < c ? b : c; } \
    inline type __vimax3_##suffix(type a, type b, type c) { return a > b ? (a > c ? a : c) : b > c ? b : c; } \
    inline type __viaddmin_##suffix(type a, type b, type c) {                                                 \
        const type sum = static_cast<type>(static_cast<unsigned>(a) + static_cast<unsigned>(b));              \
        return sum < c ? sum : c;                                                                             \
    }                                                                                                         \
    inline type __viaddmax_##suffix(type a, type b, type c) {                                                 \
        const type sum = static_cast<type>(static_cast<unsigned>(a) + static_cast<unsigned>(b));              \
        return sum > c ? sum : c;                                                                             \
    }
PRETUNED_THREE(s32, int)
PRETUNED_THREE(u32, unsigned)
#undef PRETUNED_THREE
