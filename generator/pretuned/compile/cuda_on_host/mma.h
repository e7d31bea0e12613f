#error "tensor cores are for GPUs only: <mma.h>"
