// What a kernel takes, as the compiler has it: NVRTC and the host's compiler alike.
//
// `PRETUNED_TAKES(axpy)` defines an array of integers: how many parameters there are, then one code for each. A code is
// the parameter's size in bits (0 for what a pointer points to and may be incomplete), a bit for a pointer, and a kind in
// six bits; `pretuned.compile.parameters` reads it. References, const, volatile, __restrict__ and typedefs are gone by
// then. For NVRTC `pretuned.compile.contract` adds kinds for CUDA's own classes; the host's are other classes.

#pragma once

#define PRETUNED_KIND(pretuned_type, pretuned_kind, pretuned_bytes)                          \
    template <>                                                                              \
    struct pretuned_kind_of<pretuned_type, false> {                                          \
        enum : int { value = pretuned_kind, bits = 8 * static_cast<int>(pretuned_bytes) };   \
    };

// 0 a class or whatever else there is, 1 void, 2 bool, 3 signed and 4 unsigned integers, 5 floating, 6 an enumeration,
// 7 a pointer that a pointer points to, 8 char, 9 unsigned char.
template <typename pretuned_value, bool pretuned_is_enum = __is_enum(pretuned_value)>
struct pretuned_kind_of {
    enum : int { value = 0, bits = 0 };
};
template <typename pretuned_value>
struct pretuned_kind_of<pretuned_value, true> {
    enum : int { value = 6, bits = 8 * static_cast<int>(sizeof(pretuned_value)) };
};
template <>
struct pretuned_kind_of<void> {
    enum : int { value = 1, bits = 0 };
};
template <typename pretuned_value>
struct pretuned_kind_of<pretuned_value*, false> {
    enum : int { value = 7, bits = 8 * static_cast<int>(sizeof(pretuned_value*)) };
};
PRETUNED_KIND(bool, 2, sizeof(bool))
PRETUNED_KIND(signed char, 3, sizeof(signed char))
PRETUNED_KIND(short, 3, sizeof(short))
PRETUNED_KIND(int, 3, sizeof(int))
PRETUNED_KIND(long, 3, sizeof(long))
PRETUNED_KIND(long long, 3, sizeof(long long))
PRETUNED_KIND(unsigned short, 4, sizeof(unsigned short))
PRETUNED_KIND(unsigned int, 4, sizeof(unsigned int))
PRETUNED_KIND(unsigned long, 4, sizeof(unsigned long))
PRETUNED_KIND(unsigned long long, 4, sizeof(unsigned long long))
PRETUNED_KIND(float, 5, sizeof(float))
PRETUNED_KIND(double, 5, sizeof(double))
PRETUNED_KIND(char, 8, sizeof(char))
PRETUNED_KIND(unsigned char, 9, sizeof(unsigned char))

template <typename pretuned_value>
struct pretuned_bare {
    using type = pretuned_value;
};
template <typename pretuned_value>
struct pretuned_bare<const pretuned_value> {
    using type = pretuned_value;
};
template <typename pretuned_value>
struct pretuned_bare<volatile pretuned_value> {
    using type = pretuned_value;
};
template <typename pretuned_value>
struct pretuned_bare<const volatile pretuned_value> {
    using type = pretuned_value;
};

template <typename pretuned_taken>
struct pretuned_code {
    using kind = pretuned_kind_of<pretuned_taken>;
    enum : int { value = (8 * static_cast<int>(sizeof(pretuned_taken))) * 128 + kind::value };
};
template <typename pretuned_pointed>
struct pretuned_code<pretuned_pointed*> {
    using kind = pretuned_kind_of<typename pretuned_bare<pretuned_pointed>::type>;
    enum : int { value = kind::bits * 128 + 64 + kind::value };
};
template <typename pretuned_referred>
struct pretuned_code<pretuned_referred&> {
    enum : int { value = 8 * static_cast<int>(sizeof(void*)) * 128 };
};

template <typename pretuned_function>
struct pretuned_taken_by;
template <typename... pretuned_taken>
struct pretuned_taken_by<void(pretuned_taken...)> {
    struct list {
        int values[1 + sizeof...(pretuned_taken)];
    };
    static constexpr list codes = {{static_cast<int>(sizeof...(pretuned_taken)),
                                    pretuned_code<typename pretuned_bare<pretuned_taken>::type>::value...}};
};

#ifdef PRETUNED_HOST
#define PRETUNED_KEPT __attribute__((visibility("default")))
#else
#define PRETUNED_KEPT __device__
#endif
#define PRETUNED_TAKES(kernel)                                                                 \
    extern "C" {                                                                               \
    PRETUNED_KEPT pretuned_taken_by<decltype(kernel)>::list pretuned_takes_##kernel =          \
        pretuned_taken_by<decltype(kernel)>::codes;                                            \
    }
