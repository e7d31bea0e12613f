"""What memory allows: copies, and kernels that only read, of as many bytes as a call's arrays have.

The copy by the driver is the ceiling of what reads and writes. A kernel that copies is faster than the driver at some
sizes, so it is measured as well, and shares of it are printed beside.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch

from figures import COPIES, READS

# The first gives each thread eight vectors of 16 bytes, all in flight at once; the second keeps as many blocks as the
# device holds, which go through all. What is faster at a size is its ceiling. Results are used so that loads stay.
SOURCE = r"""
extern "C" __global__ void read_at_once(const uint4* x, long long n, unsigned* sink) {
    long long first = (long long)blockIdx.x * blockDim.x * 8 + threadIdx.x;
    uint4 v[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        long long at = first + i * blockDim.x;
        v[i] = at < n ? x[at] : make_uint4(0, 0, 0, 0);
    }
    unsigned all = 0;
    #pragma unroll
    for (int i = 0; i < 8; ++i) all ^= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
    if (all == 0x9e3779b9u) *sink = all;
}
extern "C" __global__ void copy_at_once(uint4* out, const uint4* x, long long n) {
    long long first = (long long)blockIdx.x * blockDim.x * 4 + threadIdx.x;
    uint4 v[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        long long at = first + i * blockDim.x;
        if (at < n) v[i] = x[at];
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        long long at = first + i * blockDim.x;
        if (at < n) out[at] = v[i];
    }
}
extern "C" __global__ void read_in_a_loop(const uint4* x, long long n, unsigned* sink) {
    unsigned all = 0;
    long long step = (long long)gridDim.x * blockDim.x;
    #pragma unroll 4
    for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < n; at += step) {
        uint4 v = x[at];
        all ^= v.x ^ v.y ^ v.z ^ v.w;
    }
    if (all == 0x9e3779b9u) *sink = all;
}
"""
BLOCK = 256
VECTORS = 8  # of a thread that reads at once; one that copies has half as many


@cache
def _kernel(name: str) -> Any:
    import cupy  # noqa: PLC0415 - only on a GPU

    return cupy.RawModule(code=SOURCE).get_function(name.replace(" ", "_"))


def on_torchs_stream(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return `call` with CuPy on PyTorch's current stream."""
    import cupy  # noqa: PLC0415 - only on a GPU

    def called(*arguments: Any, **given: Any) -> Any:
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            return call(*arguments, **given)

    return called


def calls_of(bound: str, nbytes: int) -> dict[str, Callable[[], Callable[[], object]]]:
    """Return what makes a call of each ceiling's, by name, with arrays of its own."""
    if bound == "flops":
        return {}
    if bound == "read":
        return {name: partial(reading, nbytes, name) for name in READS}
    return {name: partial(copying, nbytes, name) for name in COPIES}


def copying(nbytes: int, name: str) -> Callable[[], object]:
    """Return a copy that reads half of the bytes and writes the other half."""
    source = torch.ones(max(16, nbytes // 2), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    if name == COPIES[0]:
        return lambda: target.copy_(source)
    kernel, vectors = _kernel("copy at once"), source.numel() // 16
    blocks = -(-vectors // (BLOCK * VECTORS // 2))

    def call() -> None:
        import cupy  # noqa: PLC0415 - only on a GPU

        addresses = cupy.uint64(target.data_ptr()), cupy.uint64(source.data_ptr())
        kernel((blocks,), (BLOCK,), (*addresses, cupy.int64(vectors)))

    return on_torchs_stream(call)


def reading(nbytes: int, name: str) -> Callable[[], object]:
    """Return a kernel's call that reads all of the bytes."""
    x = torch.ones(max(16, nbytes), dtype=torch.uint8, device="cuda")
    sink = torch.zeros(1, dtype=torch.int32, device="cuda")
    vectors = x.numel() // 16
    if name == READS[0]:
        blocks = -(-vectors // (BLOCK * VECTORS))
    else:
        blocks = min(-(-vectors // BLOCK), 8 * torch.cuda.get_device_properties(0).multi_processor_count)
    kernel = _kernel(name)

    def call() -> None:
        import cupy  # noqa: PLC0415 - only on a GPU

        kernel((blocks,), (BLOCK,), (cupy.uint64(x.data_ptr()), cupy.int64(vectors), cupy.uint64(sink.data_ptr())))

    return on_torchs_stream(call)
