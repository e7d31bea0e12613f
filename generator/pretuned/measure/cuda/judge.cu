// What measuring itself runs on the device: judging results, sweeping L2, holding launches back, and a canary for the
// clocks. Compiled once when the device is opened.
//
// Every kernel takes any grid. `found` holds, for each check, the smallest index at which it failed (or all ones), and
// counters; the host sets it up and reads it back.

using Index = unsigned long long;

__device__ Index first_index() { return blockIdx.x * static_cast<Index>(blockDim.x) + threadIdx.x; }
__device__ Index stride() { return gridDim.x * static_cast<Index>(blockDim.x); }

// found[0] = the first byte of data that is not `value`.
extern "C" __global__ void unlike(const unsigned char* data, Index n, int value, Index* found) {
    for (Index i = first_index(); i < n; i += stride()) {
        if (data[i] != static_cast<unsigned char>(value)) atomicMin(found, i);
    }
}

// found[0] = the first byte at which a and b differ, found[1] += how many do.
extern "C" __global__ void unequal(const unsigned char* a, const unsigned char* b, Index n, Index* found) {
    for (Index i = first_index(); i < n; i += stride()) {
        if (a[i] != b[i]) {
            atomicMin(found, i);
            atomicAdd(found + 1, 1ull);
        }
    }
}

// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
__device__ Index mixed(Index value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

// found[1] += a digest of data, which is aligned to 8 bytes: the sum of its words, each mixed with its place.
extern "C" __global__ void digest(const unsigned char* data, Index n, Index* found) {
    const Index words = n / 8;
    Index sum = 0;
    for (Index i = first_index(); i < words; i += stride()) {
        sum += mixed(reinterpret_cast<const Index*>(data)[i] ^ mixed(i + 1));
    }
    for (Index i = 8 * words + first_index(); i < n; i += stride()) sum += mixed(data[i] ^ mixed(~i));
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    if (threadIdx.x % 32 == 0) atomicAdd(found + 1, sum);
}

__device__ bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

// found[0] = the first element of out that is off, found[1] += how many are; found[2] = the bits of the largest error
// within the tolerance as a share of it (errors are not negative, so their bits order as they do); found[3] = those of
// the largest finite error beyond it.
template <typename T>
__device__ void compare(const T* out, const double* ref, Index n, double rtol, double atol, Index* found) {
    double worst = 0;
    double largest = 0;
    for (Index i = first_index(); i < n; i += stride()) {
        const double value = static_cast<double>(out[i]);
        const double wanted = ref[i];
        if (same(value, wanted)) continue;
        const double error = fabs(value - wanted);
        const double allowed = atol + rtol * fabs(wanted);
        if (!isfinite(wanted) || !(error <= allowed)) {  // what is near an infinity is not it
            atomicMin(found, i);
            atomicAdd(found + 1, 1ull);
            if (isfinite(error)) largest = fmax(largest, error);
        } else if (allowed > 0) {
            worst = fmax(worst, error / allowed);
        }
    }
    if (worst > 0) atomicMax(found + 2, static_cast<Index>(__double_as_longlong(worst)));
    if (largest > 0) atomicMax(found + 3, static_cast<Index>(__double_as_longlong(largest)));
}

// One integer of `bytes`, which are negative for signed types; a negative one fills all 64 bits.
__device__ Index integer(const void* data, Index i, int bytes) {
    switch (bytes) {
        case -1: return static_cast<Index>(static_cast<const signed char*>(data)[i]);
        case -2: return static_cast<Index>(static_cast<const short*>(data)[i]);
        case -4: return static_cast<Index>(static_cast<const int*>(data)[i]);
        case 1: return static_cast<const unsigned char*>(data)[i];
        case 2: return static_cast<const unsigned short*>(data)[i];
        case 4: return static_cast<const unsigned int*>(data)[i];
        default: return static_cast<const Index*>(data)[i];
    }
}

// As `compare`, with found[3] = the largest error itself. One kernel for all types, since one for each would make half
// of the time in which this file compiles. Unsigned subtraction is modulo 2^64, so it gives the distance of any two.
// What is allowed is rounded as the host rounds it: no fused multiply-add.
extern "C" __global__ void compare_integers(const void* out, const void* ref, Index n, double rtol, double atol,
                                            int bytes, Index* found) {
    double worst = 0;
    Index largest = 0;
    for (Index i = first_index(); i < n; i += stride()) {
        const Index value = integer(out, i, bytes);
        const Index wanted = integer(ref, i, bytes);
        if (value == wanted) continue;
        const bool above = bytes < 0 ? static_cast<long long>(value) > static_cast<long long>(wanted) : value > wanted;
        const Index error = above ? value - wanted : wanted - value;
        const Index size = bytes < 0 && static_cast<long long>(wanted) < 0 ? 0 - wanted : wanted;
        const double allowed = __dadd_rn(atol, __dmul_rn(rtol, __ull2double_rn(size)));
        if (allowed < 18446744073709551616.0 && error > __double2ull_rz(allowed)) {
            atomicMin(found, i);
            atomicAdd(found + 1, 1ull);
            largest = error > largest ? error : largest;
        } else {  // the error is 1 at least, and so is what is allowed
            worst = fmax(worst, __ull2double_rn(error) / allowed);
        }
    }
    if (worst > 0) atomicMax(found + 2, static_cast<Index>(__double_as_longlong(worst)));
    if (largest > 0) atomicMax(found + 3, largest);
}

// sums[0] += the squares of the finite elements, sums[1] += their number.
extern "C" __global__ void squares(const double* ref, Index n, double* sums) {
    double sum = 0;
    double count = 0;
    for (Index i = first_index(); i < n; i += stride()) {
        if (isfinite(ref[i])) {
            sum += ref[i] * ref[i];
            count += 1;
        }
    }
    for (int lane = 16; lane > 0; lane /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, lane);
        count += __shfl_xor_sync(0xffffffffu, count, lane);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(sums, sum);
        atomicAdd(sums + 1, count);
    }
}

// Reads all of data, and so evicts what else is in L2. The sum is never 1: the data are zeros, but the compiler cannot
// know.
extern "C" __global__ void sweep(const float4* data, Index n, float* sink) {
    float sum = 0;
    for (Index i = first_index(); i < n; i += stride()) sum += data[i].x;
    if (sum == 1.0f) *sink = sum;
}

__device__ unsigned long long now_ns() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

// Keeps what was enqueued behind it from running until the host writes `ticket` to `gate`, or `most_ns` have passed.
extern "C" __global__ void hold(const volatile int* gate, int ticket, unsigned long long most_ns) {
    const unsigned long long begin = now_ns();
    while (*gate != ticket && now_ns() - begin < most_ns) {
    }
}

// A chain of dependent operations: it takes so many cycles whatever memory does, and so tells the SMs' clock.
extern "C" __global__ void canary(int length, float* sink) {
    float value = threadIdx.x;
    for (int i = 0; i < length; ++i) value = fmaf(value, 0.999f, 0.5f);
    if (value == 1.0f) *sink = value;
}

// What judging a floating type takes; judge.py writes one for each behind this text, and their headers before it.
#define FLOATING(name, type)                                                                                       \
    extern "C" __global__ void compare_##name(const type* out, const double* ref, Index n, double rtol,            \
                                              double atol, Index* found) {                                         \
        compare(out, ref, n, rtol, atol, found);                                                                   \
    }                                                                                                              \
    extern "C" __global__ void widen_##name(const type* values, double* wide, Index n) {                           \
        for (Index i = first_index(); i < n; i += stride()) wide[i] = static_cast<double>(values[i]);              \
    }
