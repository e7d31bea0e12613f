// CUDA's vector types, with their alignments (CUDA C++ Programming Guide, "Built-in Vector Types"), and make functions.
//
// `#include <vector_types.h>` in a template finds this file. The guards are those of CUDA's own files, so that another
// header of CUDA's, which includes its neighbours by their names in quotes, defines nothing again.

#pragma once

#define __VECTOR_TYPES_H__
#define __VECTOR_FUNCTIONS_H__
#define __VECTOR_FUNCTIONS_HPP__

#define PRETUNED_VECTORS(name, type, align2, align4)                                      \
    struct name##1 {                                                                      \
        type x;                                                                           \
    };                                                                                    \
    struct alignas(align2) name##2 {                                                      \
        type x, y;                                                                        \
    };                                                                                    \
    struct name##3 {                                                                      \
        type x, y, z;                                                                     \
    };                                                                                    \
    struct alignas(align4) name##4 {                                                      \
        type x, y, z, w;                                                                  \
    };                                                                                    \
    inline constexpr name##1 make_##name##1(type x) { return {x}; }                       \
    inline constexpr name##2 make_##name##2(type x, type y) { return {x, y}; }            \
    inline constexpr name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
    inline constexpr name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

PRETUNED_VECTORS(char, signed char, 2, 4)
PRETUNED_VECTORS(uchar, unsigned char, 2, 4)
PRETUNED_VECTORS(short, short, 4, 8)
PRETUNED_VECTORS(ushort, unsigned short, 4, 8)
PRETUNED_VECTORS(int, int, 8, 16)
PRETUNED_VECTORS(uint, unsigned int, 8, 16)
PRETUNED_VECTORS(long, long, 2 * sizeof(long), 16)
PRETUNED_VECTORS(ulong, unsigned long, 2 * sizeof(long), 16)
PRETUNED_VECTORS(longlong, long long, 16, 16)
PRETUNED_VECTORS(ulonglong, unsigned long long, 16, 16)
PRETUNED_VECTORS(float, float, 8, 16)
PRETUNED_VECTORS(double, double, 16, 16)
#undef PRETUNED_VECTORS

// CUDA 13 names the alignment of the 32-byte types.
#define PRETUNED_ALIGNED(name, type, align)                                                         \
    struct alignas(align) name##4_##align##a {                                                      \
        type x, y, z, w;                                                                            \
    };                                                                                              \
    inline constexpr name##4_##align##a make_##name##4_##align##a(type x, type y, type z, type w) { \
        return {x, y, z, w};                                                                        \
    }

PRETUNED_ALIGNED(long, long, 16)
PRETUNED_ALIGNED(long, long, 32)
PRETUNED_ALIGNED(ulong, unsigned long, 16)
PRETUNED_ALIGNED(ulong, unsigned long, 32)
PRETUNED_ALIGNED(longlong, long long, 16)
PRETUNED_ALIGNED(longlong, long long, 32)
PRETUNED_ALIGNED(ulonglong, unsigned long long, 16)
PRETUNED_ALIGNED(ulonglong, unsigned long long, 32)
PRETUNED_ALIGNED(double, double, 16)
PRETUNED_ALIGNED(double, double, 32)
#undef PRETUNED_ALIGNED

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
    constexpr dim3(uint3 extent) : x(extent.x), y(extent.y), z(extent.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};
