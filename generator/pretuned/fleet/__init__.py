"""Tuning on several devices at once: what is lacking is split into units, which workers settle independently.

What is compared stays on one device. A unit is plain data, its answer a partial lock. `coordinator` hands units out and
judges answers, a crew brings units to workers, `serving` is what runs where the device is.
"""
