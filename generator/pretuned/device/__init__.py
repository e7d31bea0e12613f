"""Devices: what driver and GPUs are here, asked without CuPy."""
