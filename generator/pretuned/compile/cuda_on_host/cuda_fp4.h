#error "the host device has no types of 4 bits: <cuda_fp4.h> is for GPUs only"
