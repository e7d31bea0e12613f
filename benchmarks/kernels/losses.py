"""Losses of rows. Liger's kernel is called by itself: around it, Liger reads counts on the host, as no graph can."""

from __future__ import annotations

import torch
from torch.nn import functional

import liger_peers
from contest import MATRICES, Contest, Peer


def one_by_one(logits, target, ignore_index):
    """Return the loss of each row and its logsumexp."""
    sums = torch.logsumexp(logits, -1)
    chosen = torch.gather(logits, 1, target.clamp(min=0)[:, None])[:, 0]
    return torch.where(target == ignore_index, 0.0, sums - chosen), sums


def exact(logits, target, ignore_index, **_):
    return dict(zip(("loss", "logsumexp"), one_by_one(logits.double(), target, ignore_index), strict=True))


def eager(logits, target, ignore_index, **_):
    return {"loss": functional.cross_entropy(logits.float(), target, reduction="none", ignore_index=ignore_index)}


def compiled(logits, target, ignore_index, loss, logsumexp, **_):
    found = one_by_one(logits.float(), target, ignore_index)
    return loss.copy_(found[0]), logsumexp.copy_(found[1])


def saved(logits, target, logsumexp, ignore_index, **_):
    """Return what autograd keeps of the forward pass."""
    return {
        "log_probabilities": logits.float() - logsumexp[:, None],
        "counted": (target != ignore_index).sum().float(),
    }


def gradient(logits, target, logsumexp, grad_loss, ignore_index):
    columns = torch.arange(logits.shape[1], device=logits.device)
    found = (torch.exp(logits - logsumexp[:, None]) - (columns == target[:, None]).to(logits.dtype)) * grad_loss[
        :, None
    ]
    return torch.where((target == ignore_index)[:, None], 0.0, found)


def exact_backward(logits, target, logsumexp, grad_loss, ignore_index, **_):
    return gradient(logits.double(), target, logsumexp.double(), grad_loss.double(), ignore_index)


def eager_backward(logits, target, grad_loss, ignore_index, log_probabilities, counted, **_):
    of_rows = torch.ops.aten.nll_loss_backward(grad_loss, log_probabilities, target, None, 0, ignore_index, counted)
    found = torch.ops.aten._log_softmax_backward_data(of_rows, log_probabilities, 1, torch.float32)
    return found.to(logits.dtype)


def compiled_backward(logits, target, logsumexp, grad_loss, ignore_index, grad_logits, **_):
    return grad_logits.copy_(gradient(logits.float(), target, logsumexp, grad_loss, ignore_index))


CONTESTS = (
    Contest(
        kernel="cross_entropy",
        bound="read",
        exact=exact,
        peers=(
            Peer(name="torch", call=eager),
            Peer(name="torch.compile", call=compiled, compiled=True),
            Peer(name="Liger", jit=True, call=liger_peers.cross_entropy),
        ),
        large=MATRICES,
        rows=True,
    ),
    Contest(
        kernel="cross_entropy_backward",
        bound="copy",
        exact=exact_backward,
        peers=(
            Peer(name="torch", call=eager_backward),
            Peer(name="torch.compile", call=compiled_backward, compiled=True),
        ),
        large=MATRICES,
        rows=True,
        saved=saved,
    ),
)
