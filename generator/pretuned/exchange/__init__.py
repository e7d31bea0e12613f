"""The formats of the field (T1 spaces, T4 results, Kernel Tuner's cache files), and replaying them as a device."""
