"""Measuring: launch a candidate, verify what it wrote, time it, and survive whatever it does."""
