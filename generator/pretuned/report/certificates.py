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


def whole(certificates: Sequence[tuple[str, Certificate]]) -> str:
    """Return in one line what certificates of one or more selections, by their names, say together."""
    inside = [(name, certificate.inside) for name, certificate in certificates]
    problems = sum(of.problems for _, of in inside)
    mean = sum(of.mean * of.problems for _, of in inside) / problems if problems else 0.0
    slower = sum(round(of.slower * of.problems) for _, of in inside)
    name, worst = max(inside, key=lambda one: one[1].worst)
    return (
        f"{counted(len(inside), 'selection')} certified at {counted(problems, 'problem')}: mean {mean:.1%}, "
        f"worst {worst.worst:.1%} ({name} at {describe(worst.worst_at)}), {slower or 'none'} slower than the default"
    )


def summary(certified: Sequence[Certified], max_loss: float | None) -> Iterator[str]:
    """Yield what a tuning certified: the whole in one line, what was hurried, what loses more than `max_loss`."""
    if not certified:
        return
    yield whole([(chosen(one.kernel, one.specialisation), one.certificate) for one in certified])
    if hurried := sum(one.hurried for one in certified):
        yield (
            f"run the same command again to go on: {counted(hurried, 'selection')} made in a hurry, where the default "
            "runs unless much is to be gained"
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
