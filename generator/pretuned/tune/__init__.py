"""Tuning: which configuration is fastest for each row, and whether that is certain. Imports no CUDA."""
