"""Which NVRTC a compilation would use, without loading it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final

# CuPy's distributions with the NVRTC that each loads.
PAIRS: Final = (("cupy-cuda13x", "nvidia-cuda-nvrtc"), ("cupy-cuda12x", "nvidia-cuda-nvrtc-cu12"))


def installed() -> str | None:
    """Return the full version of the NVRTC that the installed CuPy loads, such as `13.0.88`, or None if untold."""
    for cupy, nvrtc in PAIRS:
        if _version(cupy) is not None:
            return _version(nvrtc)
    return None


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
