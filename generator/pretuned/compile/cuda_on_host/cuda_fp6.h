#error "the host device has no types of 6 bits: <cuda_fp6.h> is for GPUs only"
