"""The CUDA majors that are supported, each with its distributions of CuPy and NVRTC. Nothing else lists them."""

from __future__ import annotations


class CudaMajor:
    """One CUDA major: the distributions that belong together, and the oldest driver that runs it (Linux)."""

    __slots__ = ("cccl", "cudart", "cupy", "driver", "number", "nvrtc")

    def __init__(self, number: int, cupy: str, nvrtc: str, cudart: str, cccl: str, driver: int) -> None:
        self.number, self.cupy, self.driver = number, cupy, driver
        self.nvrtc, self.cudart, self.cccl = nvrtc, cudart, cccl


CUDA_MAJORS = (  # the newest first
    CudaMajor(13, "cupy-cuda13x", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-cccl", driver=580),
    CudaMajor(
        12, "cupy-cuda12x", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime-cu12", "nvidia-cuda-cccl-cu12", driver=525
    ),
)
NEWEST, OLDEST = CUDA_MAJORS[0], CUDA_MAJORS[-1]
CUPY_WHEELS = f"{NEWEST.cupy} (or {', '.join(major.cupy for major in CUDA_MAJORS[1:])})"  # for messages
