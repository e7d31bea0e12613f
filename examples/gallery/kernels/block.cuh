// Sums and maxima over the threads of a block. Every thread calls them; every thread gets the result.
#pragma once

struct Sum {
    __device__ float operator()(float a, float b) const { return a + b; }
};

struct Maximum {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <int threads, typename Operation>
__device__ float over_block(float value, Operation combine) {
    static_assert(threads % 32 == 0 && threads <= 1024);
    __shared__ float warps[threads / 32];
    for (int distance = 16; distance > 0; distance /= 2) {
        value = combine(value, __shfl_xor_sync(0xffffffff, value, distance));
    }
    if constexpr (threads > 32) {
        __syncthreads();  // nobody reads the result before any more
        if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
        __syncthreads();
        value = warps[0];
        for (int i = 1; i < threads / 32; ++i) value = combine(value, warps[i]);
    }
    return value;
}
