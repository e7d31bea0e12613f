"""Softmax of rows."""

from __future__ import annotations

import torch

import liger_peers
import triton_peers
from contest import MATRICES, Contest, Peer


def exact(x, **_):
    return torch.softmax(x.double(), -1)


def eager(x, out, **_):
    return torch.softmax(x, -1, out=out)


def compiled(x, out, **_):
    return out.copy_(torch.softmax(x, -1))


CONTESTS = (
    Contest(
        kernel="row_softmax",
        bound="copy",
        exact=exact,
        peers=(
            Peer(name="torch", call=eager),
            Peer(name="torch.compile", call=compiled, compiled=True),
            Peer(name="Triton", jit=True, call=triton_peers.softmax, takes=triton_peers.holds),
            Peer(name="Liger", jit=True, call=liger_peers.softmax, takes=triton_peers.holds),
        ),
        large=MATRICES,
        rows=True,
    ),
)
