"""Which NVRTC a compilation would use, without loading it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final

DISTRIBUTIONS: Final = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")  # CUDA 13's and 12's


def installed() -> str | None:
    """Return the full version of the NVRTC that is installed as a Python package, such as `13.0.88`, or None."""
    for name in DISTRIBUTIONS:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None
