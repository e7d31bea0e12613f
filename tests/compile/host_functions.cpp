// Calls of device functions with the values that CUDA documents for them, run as a kernel of one thread.

#include "device.h"
#include "names.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <device_launch_parameters.h>
#include <math_constants.h>
#include <vector_functions.h>
#include <vector_types.h>

template <typename Value>
bool equal(Value a, Value b) {
    return memcmp(&a, &b, sizeof(Value)) == 0;
}

// The bits have to be the same, so that 0 is not -0 and the type counts.
#define CHECK(call, expected)                                          \
    do {                                                               \
        ++counts[0];                                                   \
        if (!equal<decltype(call)>(call, expected)) {                  \
            ++counts[1];                                               \
            printf("line %d: %s is not %s\n", __LINE__, #call, #expected); \
        }                                                              \
    } while (false)
#define HOLDS(condition) CHECK(static_cast<bool>(condition), true)

template <typename Left, typename Right>
struct Same {
    static constexpr bool value = false;
};
template <typename Type>
struct Same<Type, Type> {
    static constexpr bool value = true;
};
#define TYPE(call, type) static_assert(Same<decltype(call), type>::value, #call " has another type than CUDA's")

constexpr float tiny = 0x1p-149f;  // the least float

__device__ void check_types(int*) {
    TYPE(max(1, 2u), unsigned);
    TYPE(min(1L, 2UL), unsigned long);
    TYPE(max(1LL, 2ULL), unsigned long long);
    TYPE(max(1.0f, 2.0), double);
    TYPE(min(short(1), short(2)), int);
    TYPE(exp(1.0f), float);
    TYPE(exp(1.0), double);
    TYPE(abs(1.0f), float);
    TYPE(pow(1.0f, 2), float);
    TYPE(pow(1.0, 2), double);
    TYPE(rsqrt(1.0f), float);
    TYPE(rhypot(1.0f, 1.0f), double);
    TYPE(__popc(1u), int);
    TYPE(__half() + __half(), __half);
    TYPE(make_float4(1, 2, 3, 4), float4);
    static_assert(sizeof(char3) == 3 && sizeof(float3) == 12 && sizeof(__nv_bfloat162) == 4, "");
    static_assert(alignof(uchar4) == 4 && alignof(short4) == 8 && alignof(uint3) == 4 && alignof(int4) == 16, "");
    static_assert(alignof(float2) == 8 && alignof(float4) == 16 && alignof(double2) == 16 && alignof(double3) == 8, "");
    static_assert(alignof(double4) == 16 && alignof(double4_32a) == 32 && alignof(longlong4_16a) == 16, "");
    static_assert(alignof(long2) == 2 * sizeof(long) && alignof(__half) == 2 && alignof(__half2) == 4, "");
}

__device__ void check_mathematics(int* counts) {
    CHECK(max(-1, 1u), 0xffffffffu);
    CHECK(min(-1, 1u), 1u);
    CHECK(max(CUDART_NAN_F, 1.0f), 1.0f);
    CHECK(min(2.0, CUDART_NAN), 2.0);
    CHECK(abs(-3LL), 3LL);
    CHECK(pow(2.0f, -2), 0.25f);
    CHECK(sinpif(1.0f), 0.0f);
    CHECK(sinpi(-0.5), -1.0);
    CHECK(sinpi(-0.0), -0.0);
    CHECK(cospif(0.5f), 0.0f);
    CHECK(cospif(3.0f), -1.0f);
    CHECK(sinpif(16777215.0f), 0.0f);
    CHECK(exp10(3.0f), 1000.0f);
    CHECK(rsqrtf(4.0f), 0.5f);
    CHECK(rsqrtf(0.0f), CUDART_INF_F);
    CHECK(__frsqrt_rn(0x1.8p0f), 0x1.a20bd8p-1f);
    CHECK(rcbrtf(-8.0f), -0.5f);
    CHECK(norm3df(0x1p125f, 0x1.8p125f, 0x1.8p126f), 0x1.cp126f);  // the squares are no floats
    CHECK(norm4d(1, 1, 1, 1), 2.0);
    CHECK(rhypotf(3, 4), 0.2f);
    CHECK(normcdff(0.0f), 0.5f);
    CHECK(__saturatef(CUDART_NAN_F), 0.0f);
    CHECK(__saturatef(2.0f), 1.0f);
    CHECK(__expf(0.0f), 1.0f);
    CHECK(__fdividef(1.0f, 4.0f), 0.25f);
    CHECK(__exp10f(2.0f), 100.0f);
    float sine, cosine;
    sincospif(1.5f, &sine, &cosine);
    CHECK(sine, -1.0f);
    CHECK(cosine, 0.0f);
    __sincosf(0.0f, &sine, &cosine);
    CHECK(sine + cosine, 1.0f);
    HOLDS(isnan(CUDART_NAN_F) && isinf(-CUDART_INF) && !isfinite(CUDART_INF_F) && signbit(-0.0f));
}

// A third rounds down to nearest, and 1 + tiny to 1; the modes take the neighbours on either side.
__device__ void check_rounding(int* counts) {
    CHECK(__fadd_rn(1.0f, tiny), 1.0f);
    CHECK(__fadd_ru(1.0f, tiny), 0x1.000002p0f);
    CHECK(__fadd_rd(1.0f, -tiny), 0x1.fffffep-1f);
    CHECK(__fadd_rz(-1.0f, tiny), -0x1.fffffep-1f);
    CHECK(__fsub_rd(1.0f, 1.0f), -0.0f);
    CHECK(__fmul_rz(0x1.000002p0f, 0x1.000002p0f), 0x1.000004p0f);
    CHECK(__fmul_ru(0x1.000002p0f, 0x1.000002p0f), 0x1.000006p0f);
    CHECK(__fmul_ru(tiny, 0.5f), tiny);
    CHECK(__fmul_rz(3e38f, 2.0f), CUDART_MAX_NORMAL_F);
    CHECK(__fdiv_rd(1.0f, 3.0f), 0x1.555554p-2f);
    CHECK(__fdiv_ru(1.0f, 3.0f), 0x1.555556p-2f);
    CHECK(__frcp_rn(3.0f), 0x1.555556p-2f);
    CHECK(__fsqrt_rd(2.0f), 0x1.6a09e6p0f);
    CHECK(__fsqrt_ru(2.0f), 0x1.6a09e8p0f);
    CHECK(__fmaf_rn(0x1.000002p0f, 0x1.000002p0f, -0x1.000004p0f), 0x1p-46f);
    CHECK(__fmaf_rz(1.0f, 1.0f, -tiny), 0x1.fffffep-1f);
    CHECK(__dadd_ru(1.0, 0x1p-1074), 0x1.0000000000001p0);
    CHECK(__dmul_rd(-0x1p-1074, 0.5), -0x1p-1074);
    CHECK(__ddiv_rz(1.0, 3.0), 0x1.5555555555555p-2);
    CHECK(__dsqrt_ru(2.0), 0x1.6a09e667f3bcdp0);
    CHECK(__fma_rd(1.0, 1.0, -0x1p-1074), 0x1.fffffffffffffp-1);
    CHECK(1.0f + tiny, 1.0f);  // the mode is as it was
    volatile float x = 0x1.000002p0f;
    CHECK(__fadd_rn(__fmul_rn(x, x), -0x1.000004p0f), 0.0f);  // no fused multiply-add
    CHECK(__fmul_rn(x, x) - 0x1.000004p0f, 0.0f);
    CHECK(__double2float_ru(1.0 + 0x1p-50), 0x1.000002p0f);
    CHECK(__double2float_rd(1e300), CUDART_MAX_NORMAL_F);
    CHECK(__int2float_rz(16777219), 16777218.0f);
    CHECK(__int2float_rn(16777219), 16777220.0f);
    CHECK(__uint2float_ru(0xffffff01u), 4294967296.0f);
    CHECK(__ll2float_rd(-16777217LL), -16777218.0f);
    CHECK(__ull2float_rz(~0ULL), 0x1.fffffep63f);
    CHECK(__ll2double_ru((1LL << 53) + 1), 0x1p53 + 2);
    CHECK(__ull2double_rd(~0ULL), 0x1.fffffffffffffp63);
}

__device__ void check_conversions(int* counts) {
    CHECK(__float2int_rn(2.5f), 2);
    CHECK(__float2int_rn(-3.5f), -4);
    CHECK(__float2int_rz(-2.9f), -2);
    CHECK(__float2int_ru(2.1f), 3);
    CHECK(__float2int_rd(-2.1f), -3);
    CHECK(__float2int_rz(3e9f), 2147483647);
    CHECK(__float2int_rz(-3e9f), -2147483647 - 1);
    CHECK(__float2int_rn(CUDART_NAN_F), 0);
    CHECK(__float2uint_rz(-1.0f), 0u);
    CHECK(__float2uint_rn(4294967296.0f), 4294967295u);
    CHECK(__float2uint_rn(CUDART_NAN_F), 0u);
    CHECK(__float2ll_rz(1e30f), 0x7fffffffffffffffLL);
    CHECK(__float2ll_rn(CUDART_NAN_F), -0x7fffffffffffffffLL - 1);
    CHECK(__float2ull_rd(-0.5f), 0ULL);
    CHECK(__float2ull_rn(CUDART_INF_F), ~0ULL);
    CHECK(__double2int_rn(1e10), 2147483647);
    CHECK(__double2int_rn(2147483647.4), 2147483647);
    CHECK(__double2int_rn(CUDART_NAN), -2147483647 - 1);
    CHECK(__double2uint_ru(0.1), 1u);
    CHECK(__double2uint_rn(CUDART_NAN), 0x80000000u);
    CHECK(__double2ll_rd(-0.1), -1LL);
    CHECK(__double2ull_rn(CUDART_NAN), 1ULL << 63);
    CHECK(__float_as_int(-0.0f), -2147483647 - 1);
    CHECK(__float_as_uint(1.0f), 0x3f800000u);
    CHECK(__int_as_float(0x40490fdb), CUDART_PI_F);
    CHECK(__uint_as_float(1u), tiny);
    CHECK(__double_as_longlong(1.0), 0x3ff0000000000000LL);
    CHECK(__longlong_as_double(1LL), 0x1p-1074);
    CHECK(__double2hiint(-2.0), -1073741824);
    CHECK(__double2loint(__hiloint2double(5, -7)), -7);
    CHECK(__double2hiint(__hiloint2double(-5, -7)), -5);
}

__device__ void check_integers(int* counts) {
    CHECK(__popc(0xf0f0f0f0u), 16);
    CHECK(__popcll(~0ULL), 64);
    CHECK(__clz(0), 32);
    CHECK(__clz(-1), 0);
    CHECK(__clzll(1), 63);
    CHECK(__ffs(0), 0);
    CHECK(__ffs(-2147483647 - 1), 32);
    CHECK(__ffsll(1LL << 40), 41);
    CHECK(__brev(0x00000006u), 0x60000000u);
    CHECK(__brevll(1ULL), 1ULL << 63);
    CHECK(__byte_perm(0x33221100u, 0x77665544u, 0x7520u), 0x77552200u);
    CHECK(__byte_perm(0x33221100u, 0x77665544u, 0xffff89abu), 0x00112233u);
    CHECK(__funnelshift_l(0x80000000u, 0x00000001u, 1), 3u);
    CHECK(__funnelshift_l(7u, 5u, 32), 5u);
    CHECK(__funnelshift_lc(7u, 5u, 40), 7u);
    CHECK(__funnelshift_r(0x80000000u, 0x00000001u, 4), 0x18000000u);
    CHECK(__funnelshift_r(7u, 5u, 33), 0x80000003u);
    CHECK(__funnelshift_rc(7u, 5u, 33), 5u);
    CHECK(__mulhi(-2147483647 - 1, 2), -1);
    CHECK(__umulhi(0xffffffffu, 0xffffffffu), 0xfffffffeu);
    CHECK(__mul64hi(-1LL, 1LL), -1LL);
    CHECK(__umul64hi(~0ULL, ~0ULL), ~0ULL - 1);
    CHECK(__mul24(0x00ffffff, 5), -5);
    CHECK(__mul24(0x7f800000, 2), -0x1000000);
    CHECK(__umul24(0xff000003u, 0x01000005u), 15u);
    CHECK(__hadd(-3, -2), -3);
    CHECK(__rhadd(-3, -2), -2);
    CHECK(__uhadd(0xffffffffu, 0xffffffffu), 0xffffffffu);
    CHECK(__urhadd(0xfffffffeu, 0xffffffffu), 0xffffffffu);
    CHECK(__sad(-2147483647 - 1, 2147483647, 1u), 0u);
    CHECK(__usad(3u, 10u, 5u), 12u);
    CHECK(__dp4a(static_cast<int>(0xff02fd04u), 0x01020304, 10), 10 - 1 + 4 - 9 + 16);
    CHECK(__dp4a(0xff000001u, 0x02000003u, 1u), 514u);
    CHECK(__dp4a(0x01010101, 0x01010101, 2147483647), -2147483645);
    CHECK(__dp2a_lo(static_cast<int>(0xffff0003u), 0x01020304, 1), 1 + 3 * 4 - 3);
    CHECK(__dp2a_hi(0x00020003u, 0x01020304u, 0u), 3u * 2 + 2 * 1);
    CHECK(__vimax3_s32(-1, -5, -3), -1);
    CHECK(__viaddmin_u32(0xffffffffu, 2u, 5u), 1u);
    CHECK(__vadd2(0xffff0001u, 0x00010001u), 0x00000002u);
    CHECK(__vadd4(0xff010203u, 0x01010101u), 0x00020304u);
    CHECK(__vaddss2(0x7fff8000u, 0x00018000u), 0x7fff8000u);
    CHECK(__vaddus4(0xff10ff01u, 0x02020202u), 0xff12ff03u);
    CHECK(__vsubus2(0x00010005u, 0x00020002u), 0x00000003u);
    CHECK(__vmaxs2(0xffff0001u, 0x00000000u), 0x00000001u);
    CHECK(__vmaxu2(0xffff0001u, 0x00000002u), 0xffff0002u);
    CHECK(__vmins4(0x807f0001u, 0x00000000u), 0x80000000u);
    CHECK(__vcmpgts4(0x01ff0000u, 0x00000000u), 0xff000000u);
    CHECK(__vsetltu2(0x00018000u, 0x00027fffu), 0x00010000u);
    CHECK(__vabsdiffu4(0x00ff0510u, 0xff000302u), 0xffff020eu);
    CHECK(__vabs2(0x8000fffeu), 0x80000002u);
    CHECK(__vabsss2(0x8000fffeu), 0x7fff0002u);
    CHECK(__vavgu4(0x01020304u, 0x02020202u), 0x02020303u);
    CHECK(__vsadu4(0x01020304u, 0x04030201u), 8u);
    CHECK(__vneg4(0x01ff0080u), 0xff010080u);
}

__device__ void check_memory(int* counts) {
    const float4 four = make_float4(1, 2, 3, 4);
    CHECK(__ldg(&four).w, 4.0f);
    CHECK(__ldcs(&four).y, 2.0f);
    float4 stored;
    __stcg(&stored, four);
    CHECK(stored.z, 3.0f);
    float plain = 0;
    __stwt(&plain, 7);
    CHECK(plain, 7.0f);
    const dim3 extent(5);
    CHECK(extent.x + extent.y + extent.z, 7u);
}

__device__ void check_atomics(int* counts) {
    int a = 2147483647;
    CHECK(atomicAdd(&a, 1), 2147483647);
    CHECK(a, -2147483647 - 1);
    CHECK(atomicSub(&a, 1), -2147483647 - 1);
    CHECK(atomicMin_block(&a, -5), 2147483647);
    CHECK(atomicMax_system(&a, 7), -5);
    CHECK(atomicExch(&a, 12), 7);
    CHECK(atomicAnd(&a, 10), 12);
    CHECK(atomicOr(&a, 3), 8);
    CHECK(atomicXor(&a, 1), 11);
    CHECK(atomicCAS(&a, 10, 20), 10);
    CHECK(atomicCAS_block(&a, 10, 30), 20);
    CHECK(a, 20);
    unsigned b = 3;
    CHECK(atomicInc(&b, 3), 3u);
    CHECK(b, 0u);
    CHECK(atomicDec(&b, 9), 0u);
    CHECK(atomicDec(&b, 5), 9u);
    CHECK(b, 5u);
    unsigned long long c = 1ULL << 40;
    CHECK(atomicAdd_system(&c, 1ULL), 1ULL << 40);
    CHECK(atomicCAS(&c, (1ULL << 40) + 1, 3ULL), (1ULL << 40) + 1);
    long long d = -1;
    CHECK(atomicMax(&d, -2LL), -1LL);
    CHECK(atomicMin(&d, -2LL), -1LL);
    CHECK(d, -2LL);
    unsigned short e = 1;
    const unsigned short old = 1, other = 9;
    CHECK(atomicCAS(&e, old, other), old);
    CHECK(e, other);
    double f = 0.5;
    CHECK(atomicAdd(&f, 0.25), 0.5);
    CHECK(f, 0.75);
    float4 g = make_float4(1, 2, 3, 4);
    CHECK(atomicAdd(&g, make_float4(1, 1, 1, 1)).x, 1.0f);
    CHECK(atomicExch(&g, make_float4(0, 0, 0, 9)).w, 5.0f);
    CHECK(atomicCAS(&g, make_float4(0, 0, 0, 9), make_float4(8, 8, 8, 8)).w, 9.0f);
    CHECK(g.x, 8.0f);
    __half2 h = __floats2half2_rn(1, 2);
    CHECK(__low2float(atomicAdd(&h, __floats2half2_rn(3, 4))), 1.0f);
    CHECK(__high2float(h), 6.0f);
    __nv_bfloat16 i = 1.5f;
    CHECK(__bfloat162float(atomicAdd(&i, __nv_bfloat16(2))), 1.5f);
}

#define HALF(bits) __ushort_as_half(bits)
#define BRAIN(bits) __ushort_as_bfloat16(bits)

__device__ void check_half(int* counts) {
    CHECK(__float2half(65519.99f), HALF(0x7bff));
    CHECK(__float2half(65520.0f), HALF(0x7c00));
    CHECK(__float2half(0x1p-25f), HALF(0x0000));  // half the least, to even
    CHECK(__float2half(0x1.000002p-25f), HALF(0x0001));
    CHECK(__float2half(0x1.ffcp-15f), HALF(0x0400));  // the greatest subnormal and a half: to the least normal
    CHECK(__float2half(2049.0f), HALF(0x6800));
    CHECK(__float2half(2051.0f), HALF(0x6802));
    CHECK(__float2half(-0.0f), HALF(0x8000));
    CHECK(__float2half(CUDART_NAN_F), HALF(0x7fff));
    CHECK(__float2half_rz(65535.0f), HALF(0x7bff));
    CHECK(__float2half_ru(65505.0f), HALF(0x7c00));
    CHECK(__float2half_rd(-1e-20f), HALF(0x8001));
    CHECK(__float2half_ru(-1e-20f), HALF(0x8000));
    CHECK(__double2half(1 + 0x1p-11 + 0x1p-50), HALF(0x3c01));  // by way of float it would be 1
    CHECK(__half2float(HALF(0x0001)), 0x1p-24f);
    CHECK(__half2float(HALF(0xfc00)), -CUDART_INF_F);
    CHECK(__int2half_rn(65519), HALF(0x7bff));
    CHECK(__ll2half_rz(-(1LL << 40)), HALF(0xfbff));
    CHECK(__half2int_rn(__float2half(2.5f)), 2);
    CHECK(__half2short_rz(CUDART_INF_FP16), short{32767});
    CHECK(__half2uint_rn(__float2half(-3)), 0u);
    CHECK(__half2ll_rd(CUDART_NAN_FP16), -0x7fffffffffffffffLL - 1);
    CHECK(static_cast<int>(__float2half(-2.75f)), -2);
    const __half one = 1, third = __float2half(0.333f);
    CHECK(one + __float2half(0x1p-11f), HALF(0x3c00));
    CHECK(one / __half(3), HALF(0x3555));
    CHECK(__hfma(__float2half(1 + 0x1p-10f), __float2half(1 - 0x1p-10f), -1.0f), HALF(0x8010));
    CHECK(__hfma_relu(one, -1.0f, HALF(0)), HALF(0));
    CHECK(__hfma_sat(one, 2.0f, one), one);
    CHECK(__hadd_sat(one, third), one);
    CHECK(__hsub_sat(third, one), HALF(0));
    CHECK(__hmax(HALF(0x8000), HALF(0)), HALF(0));
    CHECK(__hmin(HALF(0x8000), HALF(0)), HALF(0x8000));
    CHECK(__hmax(CUDART_NAN_FP16, one), one);
    CHECK(__hmax_nan(CUDART_NAN_FP16, one), CUDART_NAN_FP16);
    CHECK(hexp(HALF(0)), one);
    CHECK(hsqrt(__half(4)), HALF(0x4000));
    CHECK(hrcp(__half(2)), HALF(0x3800));
    CHECK(hrint(__float2half(2.5f)), HALF(0x4000));
    HOLDS(!__hne(CUDART_NAN_FP16, one) && __hneu(CUDART_NAN_FP16, one) && __hltu(CUDART_NAN_FP16, one));
    HOLDS(one > third && one != third && !(CUDART_NAN_FP16 == CUDART_NAN_FP16));
    CHECK(__hisinf(HALF(0xfc00)), -1);
    const __half2 pair(one, third), other = __half2half2(one);
    CHECK(__heq2_mask(pair, other), 0x0000ffffu);
    HOLDS(!(pair == other) && !(pair != other));  // each asks it of both
    CHECK(__hadd2_sat(pair, other).y, one);
    CHECK(__hfma2(pair, other, other).x, HALF(0x4000));
    CHECK(__lowhigh2highlow(pair).x, third);
    CHECK(h2exp2(other).y, HALF(0x4000));
    CHECK(make_half2(one, third).y, third);
}

__device__ void check_bfloat16(int* counts) {
    CHECK(__float2bfloat16(1 + 0x1p-8f), BRAIN(0x3f80));
    CHECK(__float2bfloat16(1 + 0x1.8p-7f), BRAIN(0x3f82));
    CHECK(__float2bfloat16(3.4e38f), BRAIN(0x7f80));
    CHECK(__float2bfloat16_rz(3.4e38f), BRAIN(0x7f7f));
    CHECK(__float2bfloat16(CUDART_NAN_F), BRAIN(0x7fff));
    CHECK(__double2bfloat16(1 + 0x1p-8 + 0x1p-40), BRAIN(0x3f81));
    CHECK(__ll2bfloat16_rn((1LL << 62) + (1LL << 54) + 1), BRAIN(0x5e81));  // by way of double it would be 2^62
    CHECK(__bfloat162float(BRAIN(0x0001)), 0x1p-133f);
    CHECK(__bfloat162int_rz(BRAIN(0xc059)), -3);
    // The product lies between two values, and the addend decides: too small for a double to keep.
    CHECK(__hfma(BRAIN(0x3f8f), BRAIN(0x3f90), BRAIN(0x0001)), BRAIN(0x3fa1));
    CHECK(__hfma(BRAIN(0x3f90), BRAIN(0x3f84), BRAIN(0x0001)), BRAIN(0x3f95));
    CHECK(__hfma(BRAIN(0x3f90), BRAIN(0x3f84), BRAIN(0x8001)), BRAIN(0x3f94));
    CHECK(__hfma(BRAIN(0x3f90), BRAIN(0x3f84), BRAIN(0x0000)), BRAIN(0x3f94));
    CHECK(__hmul2(__float2bfloat162_rn(3), __floats2bfloat162_rn(5, -0.0f)).y, BRAIN(0x8000));
    CHECK(h2tanh(__float2bfloat162_rn(100)).x, CUDART_ONE_BF16);
    CHECK(__bfloat1622float2(__halves2bfloat162(BRAIN(0x4000), BRAIN(0x4040))).y, 3.0f);
}

// Every value of 16 bits comes back, and what lies between two goes to the nearer, or of two to the even one.
template <typename Value>
__device__ void check_all(int* counts, unsigned short infinity, Value (*narrow)(float),
                          Value (*from_bits)(unsigned short)) {
    for (unsigned short bits = 0; bits < infinity; ++bits) {
        const Value value = from_bits(bits), next = from_bits(static_cast<unsigned short>(bits + 1));
        HOLDS(equal(narrow(value), value) && equal(narrow(-float(value)), -value));
        if (bits + 1 < infinity) {
            const float between = 0.5f * float(value) + 0.5f * float(next);
            HOLDS(equal(narrow(between), bits % 2 == 0 ? value : next));
            HOLDS(equal(narrow(__uint_as_float(__float_as_uint(between) + 1)), next));
            HOLDS(equal(narrow(__uint_as_float(__float_as_uint(between) - 1)), value));
        }
    }
}

extern "C" __global__ void check(int* counts) {
    check_types(counts);
    check_mathematics(counts);
    check_rounding(counts);
    check_conversions(counts);
    check_integers(counts);
    check_memory(counts);
    check_atomics(counts);
    check_half(counts);
    check_bfloat16(counts);
    check_all<__half>(counts, 0x7c00, __float2half, __ushort_as_half);
    check_all<__nv_bfloat16>(counts, 0x7f80, __float2bfloat16, __ushort_as_bfloat16);
}
PRETUNED_ENTRY(check)

extern "C" const char* pretuned_launch(void (*)(void**), void**, const unsigned*, const unsigned*, size_t,
                                       unsigned long long, const void**);

int main() {
    int counts[2] = {0, 0};
    int* argument = counts;
    void* values[] = {&argument};
    const unsigned one[] = {1, 1, 1};
    const void* code[2];
    const char* problem = pretuned_launch(pretuned_call_check, values, one, one, 0, 0, code);
    printf("%s%d calls, %d wrong\n", problem != nullptr ? problem : "", counts[0], counts[1]);
    return problem != nullptr || counts[1] != 0;
}
