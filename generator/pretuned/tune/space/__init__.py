"""The space of a kernel: its legal configurations, found without an object for each."""
