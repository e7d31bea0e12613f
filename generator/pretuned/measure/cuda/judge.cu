// What measuring itself runs on the device besides tasks.cu, which stands before this text: sums, sweeping L2, holding
// launches back, and a canary for the clocks. Every kernel takes any grid.

__device__ Index first_index() { return blockIdx.x * static_cast<Index>(blockDim.x) + threadIdx.x; }
__device__ Index stride() { return gridDim.x * static_cast<Index>(blockDim.x); }

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

// Performs tasks `delay_ns` late, and lets a programmatic dependent launch behind it begin at once: only what waits
// (PTX ISA, griddepcontrol.wait) finds them done.
extern "C" __global__ void perform_late(const Task* tasks, int count, Index pieces, Index* found,
                                        unsigned long long delay_ns) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
    const unsigned long long begin = now_ns();
    while (now_ns() - begin < delay_ns) {
    }
    perform_pieces(tasks, count, pieces, found);
}

// A chain of dependent operations: it takes so many cycles whatever memory does, and so tells the SMs' clock.
extern "C" __global__ void canary(int length, float* sink) {
    float value = threadIdx.x;
    for (int i = 0; i < length; ++i) value = fmaf(value, 0.999f, 0.5f);
    if (value == 1.0f) *sink = value;
}

// What makes float64 of a floating type, and complex128 of a complex one; judge.py writes one for each behind this text.
#define WIDEN(name, type)                                                                                          \
    extern "C" __global__ void widen_##name(const type* values, double* wide, Index n) {                           \
        for (Index i = first_index(); i < n; i += stride()) wide[i] = static_cast<double>(values[i]);              \
    }
#define WIDEN_COMPLEX(name, type)                                                                                  \
    extern "C" __global__ void widen_##name(const type* values, double2* wide, Index n) {                          \
        for (Index i = first_index(); i < n; i += stride()) wide[i] = make_double2(values[i].x, values[i].y);      \
    }
