"""Kernels that only move elements."""

from __future__ import annotations

import numpy as np

from ceiling import on_torchs_stream
from contest import Contest, Peer


def exact_transpose(x, **_):
    return x.mT.contiguous()


def eager_transpose(x, out, **_):
    return out.copy_(x.mT)


def cupy_transpose(x, out, **_):
    import cupy  # noqa: PLC0415 - only on a GPU

    on_torchs_stream(cupy.copyto)(cupy.asarray(out), cupy.asarray(x).swapaxes(-1, -2))
    return out


def axes_of(order):
    return ["abcd".index(axis) for axis in order]


def exact_permute(x, order, **_):
    return x.permute(axes_of(order)).contiguous()


def eager_permute(x, out, order, **_):
    return out.copy_(x.permute(axes_of(order)))


def cupy_permute(x, out, order, **_):
    import cupy  # noqa: PLC0415 - only on a GPU

    on_torchs_stream(cupy.copyto)(cupy.asarray(out), cupy.asarray(x).transpose(axes_of(order)))
    return out


def is_numpys(values):
    return hasattr(np, values["T"])


CONTESTS = (
    Contest(
        kernel="transpose",
        bound="copy",
        exact=exact_transpose,
        peers=(
            Peer(name="torch", call=eager_transpose),
            Peer(name="torch.compile", call=eager_transpose, compiled=True),
            Peer(name="CuPy", call=cupy_transpose, takes=is_numpys),
        ),
        large=tuple(
            {"batch": batch, "rows": rows, "cols": cols}
            for batch, rows, cols in ((1, 8192, 8192), (1, 32768, 2048), (1, 2048, 32768), (64, 1024, 1024))
        ),
    ),
    Contest(
        kernel="permute",
        bound="copy",
        exact=exact_permute,
        peers=(
            Peer(name="torch", call=eager_permute),
            Peer(name="torch.compile", call=eager_permute, compiled=True),
            Peer(name="CuPy", call=cupy_permute, takes=is_numpys),
        ),
        large=tuple(
            {"a": a, "b": b, "c": c, "d": d}
            for a, b, c, d in ((4, 2048, 32, 128), (4, 32, 2048, 128), (1, 384, 384, 256))
        ),
        ragged=3,  # of 20 specialisations each
    ),
)
