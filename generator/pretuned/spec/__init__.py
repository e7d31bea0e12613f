"""Kernel specs: what they say, whether it makes sense, and the space of configurations they span."""
