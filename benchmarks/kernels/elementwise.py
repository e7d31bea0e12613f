"""Kernels that go through their arrays element by element."""

from __future__ import annotations

from functools import cache

import torch

import triton_peers
from ceiling import on_torchs_stream
from contest import Contest, Peer


def exact(x, y, a, b, **_):
    return a * x.double() + b * y.double()


def eager(x, y, a, b, out, **_):
    torch.mul(x, a, out=out)
    return out.add_(y, alpha=b)


def compiled(x, y, a, b, out, **_):
    return out.copy_((a * x.float() + b * y.float()).to(out.dtype))


@cache
def _elementwise():
    import cupy  # noqa: PLC0415 - only on a GPU

    return cupy.ElementwiseKernel(
        "T x, T y, float32 a, float32 b", "T out", "out = a * (float)x + b * (float)y", "axpby"
    )


def elementwise(x, y, a, b, out, **_):
    import cupy  # noqa: PLC0415 - only on a GPU

    on_torchs_stream(_elementwise())(cupy.asarray(x), cupy.asarray(y), a, b, cupy.asarray(out))
    return out


CONTESTS = (
    Contest(
        kernel="axpby",
        bound="copy",
        exact=exact,
        peers=(
            Peer(name="torch", call=eager),
            Peer(name="torch.compile", call=compiled, compiled=True),
            Peer(name="Triton", jit=True, call=triton_peers.axpby),
            Peer(name="CuPy", call=elementwise, takes=lambda v: v["T"] in {"float32", "float16"}),
        ),
        large=({"n": 1 << 25}, {"n": 1 << 27}),
    ),
)
