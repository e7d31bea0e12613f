// What both kernels of the RMS norm share.
#pragma once

// The sum over a block of `threads`, in every thread. Every thread calls it.
template <int threads, typename Acc>
__device__ Acc sum_over_block(Acc value) {
    __shared__ Acc warps[threads / 32];
    for (int distance = 16; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(0xffffffff, value, distance);
    }
    __syncthreads();  // no thread reads the sum before any more
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = value;
    }
    __syncthreads();
    Acc total = 0;
    for (int i = 0; i < threads / 32; ++i) {
        total += warps[i];
    }
    return total;
}
