"""The kernel of three arrays in Triton, plain and under its autotuner."""

import triton
import triton.language as tl


def touch(out, x, y, s, n, BLOCK: tl.constexpr):  # noqa: N803 - Triton's custom
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, s * tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


plain = triton.jit(touch)
autotuned = triton.autotune([triton.Config({"BLOCK": size}) for size in (256, 512)], key=["n"])(triton.jit(touch))
