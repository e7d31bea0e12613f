"""Uses the kernels of `matrices`; knows nothing of pretuned."""
