"""Compiling: modules to machine code with NVRTC, in worker processes, with or without a GPU."""
