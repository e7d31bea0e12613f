"""Products of matrices."""

from __future__ import annotations

import torch

from contest import Contest, Peer

RAGGED = 100  # products of odd sizes, each of which is held to cuBLAS' time


def exact(a, b, **_):
    return a.double() @ b.double()


def eager(a, b, c, **_):
    return torch.mm(a, b, out=c)


def exact_gemv(a, x, **_):
    return a.double() @ x.double()


def eager_gemv(a, x, out, **_):
    return torch.mv(a, x, out=out)


def compiled_gemv(a, x, out, **_):
    return out.copy_(torch.mv(a, x))


def exact_linear(x, weight, **_):
    return x.double() @ weight.double().t()


def eager_linear(x, weight, out, **_):
    return torch.mm(x, weight.t(), out=out)


CONTESTS = (
    Contest(
        kernel="sgemm",
        bound="flops",
        exact=exact,
        peers=(Peer(name="torch", call=eager),),
        tuned=64,
        ragged=RAGGED,
        misaligned=False,
        flops=lambda v: 2.0 * v["m"] * v["n"] * v["k"],
    ),
    Contest(
        kernel="gemv",
        bound="read",
        exact=exact_gemv,
        peers=(
            Peer(name="torch", call=eager_gemv),
            Peer(name="torch.compile", call=compiled_gemv, compiled=True),
        ),
        large=({"rows": 8192, "cols": 8192}, {"rows": 2048, "cols": 32768}),
    ),
    Contest(
        kernel="skinny_gemm",
        bound="read",
        exact=exact_linear,
        peers=(Peer(name="torch", call=eager_linear),),
        large=({"m": 1, "n": 14336, "k": 4096}, {"m": 16, "n": 8192, "k": 8192}),
        tuned=12,
    ),
)
