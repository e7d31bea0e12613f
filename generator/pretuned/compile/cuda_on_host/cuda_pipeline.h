#error "asynchronous copies are for GPUs only: <cuda_pipeline.h>"
