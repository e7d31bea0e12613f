"""The host as a machine: candidates are shared libraries, memory is the process's own."""
