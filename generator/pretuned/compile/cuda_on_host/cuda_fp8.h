#error "the host device has no types of 8 bits: <cuda_fp8.h> is for GPUs only"
