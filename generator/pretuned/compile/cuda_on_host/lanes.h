// Arithmetic on the half-words or bytes of a word: the commoner "SIMD video" functions, __vadd2, __vmaxs4 and so on.

#pragma once

namespace pretuned {

// A word of what `operation` makes of each pair of lanes; `Lane` is signed or unsigned, as the function looks at them.
template <typename Lane, typename Operation>
unsigned by_lane(unsigned a, unsigned b, Operation operation) {
    constexpr int width = 8 * sizeof(Lane);
    unsigned result = 0;
    for (int shift = 0; shift < 32; shift += width) {
        const int x = static_cast<Lane>(a >> shift), y = static_cast<Lane>(b >> shift);
        result |= (static_cast<unsigned>(operation(x, y)) & ((1u << width) - 1)) << shift;
    }
    return result;
}

template <typename Lane, typename Operation>
unsigned sum_by_lane(unsigned a, unsigned b, Operation operation) {
    unsigned sum = 0;
    for (int shift = 0; shift < 32; shift += 8 * static_cast<int>(sizeof(Lane))) {
        sum += static_cast<unsigned>(operation(static_cast<Lane>(a >> shift), static_cast<Lane>(b >> shift)));
    }
    return sum;
}

template <typename Lane>
int clamped(int value) {
    constexpr int bits = 8 * sizeof(Lane);
    constexpr bool is_signed = static_cast<Lane>(-1) < static_cast<Lane>(0);
    constexpr int least = is_signed ? -(1 << (bits - 1)) : 0;
    constexpr int greatest = is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
    return value < least ? least : value > greatest ? greatest : value;
}

inline int distance(int x, int y) { return x < y ? y - x : x - y; }

}  // namespace pretuned

// `expression` makes a lane of the result from lanes x and y; it may name their type, Lane.
#define PRETUNED_LANE(function, lane, parameters, left, right, expression)                     \
    inline unsigned function parameters {                                                      \
        return pretuned::by_lane<lane>(left, right, []([[maybe_unused]] int x, int y) -> int { \
            using Lane [[maybe_unused]] = lane;                                                \
            return expression;                                                                 \
        });                                                                                    \
    }
#define PRETUNED_LANES(name, lane2, lane4, expression)                        \
    PRETUNED_LANE(name##2, lane2, (unsigned a, unsigned b), a, b, expression) \
    PRETUNED_LANE(name##4, lane4, (unsigned a, unsigned b), a, b, expression)
#define PRETUNED_SIGNED(name, expression) PRETUNED_LANES(name, short, signed char, expression)
#define PRETUNED_UNSIGNED(name, expression) PRETUNED_LANES(name, unsigned short, unsigned char, expression)

PRETUNED_UNSIGNED(__vadd, x + y)
PRETUNED_UNSIGNED(__vsub, x - y)
PRETUNED_SIGNED(__vaddss, pretuned::clamped<Lane>(x + y))
PRETUNED_UNSIGNED(__vaddus, pretuned::clamped<Lane>(x + y))
PRETUNED_SIGNED(__vsubss, pretuned::clamped<Lane>(x - y))
PRETUNED_UNSIGNED(__vsubus, pretuned::clamped<Lane>(x - y))
PRETUNED_SIGNED(__vmins, x < y ? x : y)
PRETUNED_UNSIGNED(__vminu, x < y ? x : y)
PRETUNED_SIGNED(__vmaxs, x < y ? y : x)
PRETUNED_UNSIGNED(__vmaxu, x < y ? y : x)
PRETUNED_SIGNED(__vabsdiffs, pretuned::distance(x, y))
PRETUNED_UNSIGNED(__vabsdiffu, pretuned::distance(x, y))
PRETUNED_UNSIGNED(__vavgu, (x + y + 1) >> 1)
PRETUNED_UNSIGNED(__vhaddu, (x + y) >> 1)

// Comparisons give all bits of a lane (__vcmp...) or its lowest (__vset...).
#define PRETUNED_COMPARED(kind, name, operation)          \
    PRETUNED_##kind(__vcmp##name, x operation y ? -1 : 0) \
    PRETUNED_##kind(__vset##name, x operation y ? 1 : 0)
PRETUNED_COMPARED(UNSIGNED, eq, ==)
PRETUNED_COMPARED(UNSIGNED, ne, !=)
PRETUNED_COMPARED(SIGNED, lts, <)
PRETUNED_COMPARED(SIGNED, les, <=)
PRETUNED_COMPARED(SIGNED, gts, >)
PRETUNED_COMPARED(SIGNED, ges, >=)
PRETUNED_COMPARED(UNSIGNED, ltu, <)
PRETUNED_COMPARED(UNSIGNED, leu, <=)
PRETUNED_COMPARED(UNSIGNED, gtu, >)
PRETUNED_COMPARED(UNSIGNED, geu, >=)
#undef PRETUNED_COMPARED

#define PRETUNED_ALONE(name, expression)                          \
    PRETUNED_LANE(name##2, short, (unsigned a), 0, a, expression) \
    PRETUNED_LANE(name##4, signed char, (unsigned a), 0, a, expression)
PRETUNED_ALONE(__vneg, -y)
PRETUNED_ALONE(__vabs, y < 0 ? -y : y)
PRETUNED_ALONE(__vnegss, pretuned::clamped<Lane>(-y))
PRETUNED_ALONE(__vabsss, pretuned::clamped<Lane>(y < 0 ? -y : y))
#undef PRETUNED_ALONE

#define PRETUNED_SUM(name, lane)                                      \
    inline unsigned name(unsigned a, unsigned b) {                    \
        return pretuned::sum_by_lane<lane>(a, b, pretuned::distance); \
    }
PRETUNED_SUM(__vsads2, short)
PRETUNED_SUM(__vsads4, signed char)
PRETUNED_SUM(__vsadu2, unsigned short)
PRETUNED_SUM(__vsadu4, unsigned char)
#undef PRETUNED_SUM

#undef PRETUNED_SIGNED
#undef PRETUNED_UNSIGNED
#undef PRETUNED_LANES
#undef PRETUNED_LANE
