"""The matrix product of Triton's tutorial, in float16: c = a @ b, row-major."""

import triton
import triton.language as tl


@triton.jit
def matmul(  # noqa: PLR0913, PLR0917 - a launch passes sizes and strides
    a, b, c, m, n, k, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr, group: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    down, across = tl.cdiv(m, bm), tl.cdiv(n, bn)
    first = block // (group * across) * group
    height = min(down - first, group)
    row = first + block % (group * across) % height
    col = block % (group * across) // height
    rows = (row * bm + tl.arange(0, bm)) % m
    cols = (col * bn + tl.arange(0, bn)) % n
    depth = tl.arange(0, bk)
    from_a = a + rows[:, None] * stride_am + depth[None, :] * stride_ak
    from_b = b + depth[:, None] * stride_bk + cols[None, :] * stride_bn
    sums = tl.zeros((bm, bn), dtype=tl.float32)
    for turn in range(tl.cdiv(k, bk)):
        left = k - turn * bk
        tile_a = tl.load(from_a, mask=depth[None, :] < left, other=0.0)
        tile_b = tl.load(from_b, mask=depth[:, None] < left, other=0.0)
        sums = tl.dot(tile_a, tile_b, sums)
        from_a += bk * stride_ak
        from_b += bk * stride_bk
    rows = row * bm + tl.arange(0, bm)
    cols = col * bn + tl.arange(0, bn)
    to = c + rows[:, None] * stride_cm + cols[None, :] * stride_cn
    tl.store(to, sums.to(tl.float16), mask=(rows[:, None] < m) & (cols[None, :] < n))
