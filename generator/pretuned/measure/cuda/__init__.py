"""The GPU as a machine. Only the modules in here import CuPy."""
