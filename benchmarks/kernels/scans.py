"""Sums of all that stands before in a row."""

from __future__ import annotations

import torch

from ceiling import on_torchs_stream
from contest import Contest, Peer

LARGEST = 65520  # what rounds to infinity in float16, from there on


def exact(x, **_):
    sums = torch.cumsum(x.double(), -1)
    return torch.where(sums.abs() >= LARGEST, sums * torch.inf, sums) if x.dtype == torch.float16 else sums


def eager(x, out, **_):
    return torch.cumsum(x, -1, dtype=out.dtype, out=out)


def compiled(x, out, **_):
    return out.copy_(torch.cumsum(x, -1, dtype=out.dtype))


def cub(x, out, **_):
    import cupy  # noqa: PLC0415 - only on a GPU

    if len(x) == 1:  # which CuPy gives CUB as an array of one axis alone
        x, out = x[0], out[0]
    on_torchs_stream(cupy.cumsum)(cupy.asarray(x), axis=-1, out=cupy.asarray(out))
    return out


CONTESTS = (
    Contest(
        kernel="scan",
        bound="copy",
        exact=exact,
        peers=(
            Peer(name="torch", call=eager),
            Peer(name="torch.compile", call=compiled, compiled=True),
            Peer(name="CuPy", call=cub, takes=lambda v: v["T"] != "bfloat16"),
        ),
        values={"exclusive": False},
        large=({"rows": 1, "n": 1 << 25}, {"rows": 1, "n": 1 << 27}, {"rows": 8192, "n": 8192}),
    ),
)
