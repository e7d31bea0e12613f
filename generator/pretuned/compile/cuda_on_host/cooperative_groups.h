#error "cooperative groups are for GPUs only: <cooperative_groups.h>"
