"""Certificates in words: what selections lose at problems that they were not made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from pretuned.errors import counted
from pretuned.record.selections import Certificate, Losses
from pretuned.spec.space import Pairs, describe
from pretuned.tune.events import Certified


def chosen(kernel: str, specialisation: Pairs) -> str:
    """Return `softmax (T=float32)`, without brackets where the caller has no choice."""
    return f"{kernel} ({describe(specialisation)})" if specialisation else kernel


def sentence(certificate: Certificate) -> str:
    """Return what a certificate says in one line."""
    outside = f"; outside the sizes: {losses(certificate.outside)}" if certificate.outside is not None else ""
    weighed = ", by their calls" if certificate.calls else ""
    return f"certified{weighed}: {losses(certificate.inside)}{outside}"


def losses(of: Losses) -> str:
    """Return `32 problems, mean 0.6%, p95 2.1%, worst 4.0% (n=1031), none slower than the default`."""
    slower = round(of.slower * of.problems)
    return (
        f"{counted(of.problems, 'problem')}, mean {of.mean:.1%}, p95 {of.p95:.1%}, worst {of.worst:.1%} "
        f"({describe(of.worst_at)}), {slower or 'none'} slower than the default"
    )


def certificate_json(certificate: Certificate) -> dict[str, Any]:
    """Return plain data, by the names of the lock."""
    found = asdict(certificate)
    for part in ("inside", "outside"):
        if found[part] is not None:
            found[part]["worst_at"] = dict(found[part]["worst_at"])
    return found


def summary(certified: Sequence[Certified], max_loss: float | None) -> Iterator[str]:
    """Yield what a tuning certified: the whole in one line, then each selection that loses more than `max_loss`."""
    if not certified:
        return
    inside = [one.certificate.inside for one in certified]
    problems = sum(found.problems for found in inside)
    mean = sum(found.mean * found.problems for found in inside) / problems if problems else 0.0
    slower = sum(round(found.slower * found.problems) for found in inside)
    worst = max(certified, key=lambda one: one.certificate.inside.worst)
    yield (
        f"{counted(len(certified), 'selection')} certified at {counted(problems, 'problem')}: mean {mean:.1%}, "
        f"worst {worst.certificate.inside.worst:.1%} ({chosen(worst.kernel, worst.specialisation)} at "
        f"{describe(worst.certificate.inside.worst_at)}), {slower or 'none'} slower than the default"
    )
    if max_loss is None:
        return
    over = [one for one in certified if one.certificate.inside.mean > max_loss]
    if not over:
        yield f"max-loss {max_loss:.1%} holds for every selection"
    for one in over:
        tried = f" after {counted(one.attempts, 'refinement')}" if one.attempts else ""
        why = ": the time for it ended" if one.spent else ", and more are not tried" if one.attempts else ""
        yield (
            f"{chosen(one.kernel, one.specialisation)}: mean {one.certificate.inside.mean:.1%} is over max-loss "
            f"{max_loss:.1%}{tried}{why}"
        )
