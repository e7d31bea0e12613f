// Fills and copies of memory, and checks of what it holds: a list of them in one launch, since there are hundreds after
// a race and a launch costs the host microseconds. Compiled once when the device is opened.
//
// A task is cut into pieces of `length` bytes (elements, where they are compared), which blocks take one after the
// other: any grid does them all. Tasks of one launch touch different memory, or only read it. Each piece ends
// in a few atomic operations, so pieces are not smaller than they need be.

using Index = unsigned long long;

struct Task {
    Index address;
    Index other;         // of a copy the source, of a check what it is compared with
    Index size;          // bytes; elements, where they are compared
    Index length;        // of a piece, a multiple of 16
    Index pieces_before;  // those of the tasks before it
    double rtol;
    double atol;
    int kind;
    int value;  // a byte; of integers that are compared, their bytes, negative for signed types
};

enum Kind { FILL, COPY, UNLIKE, UNEQUAL, DIGEST, INTEGERS, FLOATING };  // FLOATING + i: the i-th floating type

struct Range {
    Index begin;
    Index end;
};

// The bytes of `range` of `data` that come before the first multiple of 16, and behind the last one.
struct Split {
    Index head;
    Index tail;
    __device__ Split(const void* data, Range range) {
        const Index address = reinterpret_cast<Index>(data) + range.begin;
        head = min(range.end, range.begin + (16 - address % 16) % 16);
        tail = head + (range.end - head) / 16 * 16;
    }
};

__device__ bool alike(const void* one, const void* other) {
    return reinterpret_cast<Index>(one) % 16 == reinterpret_cast<Index>(other) % 16;
}

__device__ uint4 repeated(unsigned char value) {
    const unsigned word = value * 0x01010101u;
    return make_uint4(word, word, word, word);
}

__device__ bool equal(uint4 a, uint4 b) { return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w; }

// Calls byte(i) for the bytes of `range` that do not belong to whole, aligned words of 16, and word(i) for the first
// byte of each that does; without `wide`, byte(i) for all.
template <typename Byte, typename Word>
__device__ void each(const void* data, Range range, bool wide, Byte byte, Word word) {
    const Split split(data, range);
    const Index head = wide ? split.head : range.end;
    const Index tail = wide ? split.tail : range.end;
    for (Index i = range.begin + threadIdx.x; i < head; i += blockDim.x) byte(i);
    for (Index i = head + 16 * threadIdx.x; i < tail; i += 16 * blockDim.x) word(i);
    for (Index i = tail + threadIdx.x; i < range.end; i += blockDim.x) byte(i);
}

__device__ void fill(unsigned char* data, Range range, unsigned char value) {
    const uint4 words = repeated(value);
    each(
        data, range, true, [=](Index i) { data[i] = value; },
        [=](Index i) { *reinterpret_cast<uint4*>(data + i) = words; });
}

__device__ void copy(unsigned char* data, const unsigned char* source, Range range) {
    each(
        data, range, alike(data, source), [=](Index i) { data[i] = source[i]; },
        [=](Index i) { *reinterpret_cast<uint4*>(data + i) = *reinterpret_cast<const uint4*>(source + i); });
}

// found[0] = the first byte of data that is not `value`.
__device__ void unlike(const unsigned char* data, Range range, unsigned char value, Index* found) {
    const uint4 words = repeated(value);
    const auto byte = [=](Index i) {
        if (data[i] != value) atomicMin(found, i);
    };
    each(data, range, true, byte, [=](Index i) {
        if (!equal(*reinterpret_cast<const uint4*>(data + i), words)) {
            for (Index k = i; k < i + 16; ++k) byte(k);
        }
    });
}

// found[0] = the first byte at which a and b differ, found[1] += how many do.
__device__ void unequal(const unsigned char* a, const unsigned char* b, Range range, Index* found) {
    const auto byte = [=](Index i) {
        if (a[i] != b[i]) {
            atomicMin(found, i);
            atomicAdd(found + 1, 1ull);
        }
    };
    each(a, range, alike(a, b), byte, [=](Index i) {
        if (!equal(*reinterpret_cast<const uint4*>(a + i), *reinterpret_cast<const uint4*>(b + i))) {
            for (Index k = i; k < i + 16; ++k) byte(k);
        }
    });
}

// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
__device__ Index mixed(Index value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

// found[1] += a digest of data, which is aligned to 8 bytes: the sum of its words, each mixed with its place.
__device__ void digest(const unsigned char* data, Range range, Index* found) {
    const Index words = range.end / 8;
    Index sum = 0;
    for (Index i = range.begin / 8 + threadIdx.x; i < words; i += blockDim.x) {
        sum += mixed(reinterpret_cast<const Index*>(data)[i] ^ mixed(i + 1));
    }
    for (Index i = max(range.begin, 8 * words) + threadIdx.x; i < range.end; i += blockDim.x) {
        sum += mixed(data[i] ^ mixed(~i));
    }
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    if (threadIdx.x % 32 == 0) atomicAdd(found + 1, sum);
}

__device__ bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }
__device__ bool same(double2 a, double2 b) { return same(a.x, b.x) && same(a.y, b.y); }
__device__ double distance(double a, double b) { return fabs(a - b); }
__device__ double distance(double2 a, double2 b) { return hypot(a.x - b.x, a.y - b.y); }
__device__ double magnitude(double a) { return fabs(a); }
__device__ double magnitude(double2 a) { return hypot(a.x, a.y); }
__device__ bool is_finite(double a) { return isfinite(a); }
__device__ bool is_finite(double2 a) { return isfinite(a.x) && isfinite(a.y); }
template <typename T>
__device__ double widened(T value, double) {
    return static_cast<double>(value);
}
template <typename T>
__device__ double2 widened(T value, double2) {
    return make_double2(value.x, value.y);
}

// found[0] = the first element of out that is off, found[1] += how many are; found[2] = the bits of the largest error
// within the tolerance as a share of it (errors are not negative, so their bits order as they do); found[3] = those of
// the largest finite error beyond it. `Wide` is double, or double2 of complex numbers, whose error is a magnitude.
template <typename T, typename Wide>
__device__ void compare(const T* out, const Wide* ref, Range range, double rtol, double atol, Index* found) {
    double worst = 0;
    double largest = 0;
    for (Index i = range.begin + threadIdx.x; i < range.end; i += blockDim.x) {
        const Wide wanted = ref[i];
        const Wide value = widened(out[i], wanted);
        if (same(value, wanted)) continue;
        const double error = distance(value, wanted);
        const double allowed = atol + rtol * magnitude(wanted);
        if (!is_finite(wanted) || !(error <= allowed)) {  // what is near an infinity is not it
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

// As `compare`, with found[3] = the largest error itself. One function for all types, since one for each would make
// half of the time in which this file compiles. Unsigned subtraction is modulo 2^64, so it gives the distance of any
// two. What is allowed is rounded as the host rounds it: no fused multiply-add.
__device__ void compare_integers(const void* out, const void* ref, Range range, double rtol, double atol, int bytes,
                                 Index* found) {
    double worst = 0;
    Index largest = 0;
    for (Index i = range.begin + threadIdx.x; i < range.end; i += blockDim.x) {
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

// Does a piece of a task. FLOATING_CASES, which judge.py writes before this text, has a case for each floating type:
// `case FLOATING + 0: return COMPARED(float);`
__device__ void perform(const Task& task, Range range, Index* found) {
    unsigned char* const data = reinterpret_cast<unsigned char*>(task.address);
    const unsigned char* const other = reinterpret_cast<const unsigned char*>(task.other);
    const unsigned char value = static_cast<unsigned char>(task.value);
#define COMPARED(T)                                                                                                    \
    compare(reinterpret_cast<const T*>(data), reinterpret_cast<const double*>(other), range, task.rtol, task.atol, \
            found)
#define COMPARED_COMPLEX(T)                                                                                            \
    compare(reinterpret_cast<const T*>(data), reinterpret_cast<const double2*>(other), range, task.rtol, task.atol, \
            found)
    switch (task.kind) {
        case FILL: return fill(data, range, value);
        case COPY: return copy(data, other, range);
        case UNLIKE: return unlike(data, range, value, found);
        case UNEQUAL: return unequal(data, other, range, found);
        case DIGEST: return digest(data, range, found);
        case INTEGERS: return compare_integers(data, other, range, task.rtol, task.atol, task.value, found);
        FLOATING_CASES
    }
}

// Performs `count` tasks of `pieces` pieces in all. `found` holds four numbers for each task: the smallest index at
// which a check failed (or all ones), and counters; the host sets them up and reads them back.
__device__ void perform_pieces(const Task* tasks, int count, Index pieces, Index* found) {
    for (Index piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
        int low = 0;
        for (int high = count; high - low > 1;) {  // the last task that begins with this piece or before it
            const int middle = (low + high) / 2;
            (tasks[middle].pieces_before <= piece ? low : high) = middle;
        }
        const Task& task = tasks[low];
        const Index begin = (piece - task.pieces_before) * task.length;
        perform(task, {begin, min(task.size, begin + task.length)}, found + 4 * low);
    }
}

extern "C" __global__ void perform_all(const Task* tasks, int count, Index pieces, Index* found) {
    perform_pieces(tasks, count, pieces, found);
}
