"""What selections lose between the sizes, as their certificates say, and the problems that these were made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pretuned.record import lock as lockfile
from pretuned.record.courses import HeldOut
from pretuned.record.lock import Lock
from pretuned.record.selections import Losses
from pretuned.report.figures.rows import States, line_numbers, moved_bytes
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Pairs, Problem, describe

HeldOuts = Mapping[tuple[str, str, Pairs], Sequence[HeldOut]]  # by kernel, device and specialisation


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A problem that a selection was certified at: its dims, what moves there in bytes (or None), and its loss.

    `slower`: whether the choice took over 2% longer than the default; None where the lock does not say it.
    """

    dims: Pairs
    moved_bytes: int | None
    loss: float
    inside: bool
    slower: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LossFigure:
    """A selection with its certificate, if it has one; `at` is its line in the lock, 0 where it has none as written.

    `dots` are all problems of the certificate where the user cache has them (`whole`), else the worst ones.
    """

    kernel: str
    device: str
    specialisation: str
    ships: int
    at: int
    state: str
    reason: str
    seed: int | None
    inside: Losses | None
    outside: Losses | None
    dots: tuple[Dot, ...]
    whole: bool

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.kernel} ({self.specialisation})" if self.specialisation else self.kernel

    @property
    def parts(self) -> Iterator[tuple[str, Losses]]:
        """The losses inside the sizes, and outside where they were certified."""
        if self.inside is not None:
            yield "inside", self.inside
        if self.outside is not None:
            yield "outside", self.outside

    def to_json(self) -> dict[str, Any]:
        """Return plain data, by the names of the lock."""
        return {
            "lock line": self.at,
            "kernel": self.kernel,
            "device": self.device,
            "specialisation": self.specialisation,
            "ships": self.ships,
            "state": self.state,
            "reason": self.reason,
            "seed": self.seed,
            **{where: _losses(of) for where, of in self.parts},
            "held-out problems": "all" if self.whole else "the worst",
            "dots": [
                {"problem": dict(one.dims), "loss": one.loss, "inside": one.inside, "slower": one.slower}
                for one in self.dots
            ],
        }


def _losses(of: Losses) -> dict[str, Any]:
    return {
        "problems": of.problems,
        "mean": of.mean,
        "p95": of.p95,
        "worst": of.worst,
        "slower": of.slower,
        "worst_at": dict(of.worst_at),
    }


def loss_figures(
    lock: Lock, text: str, specs: Mapping[str, KernelSpec], states: States, held_out: HeldOuts
) -> Iterator[LossFigure]:
    """Yield the selections of a lock in its order."""
    numbers = line_numbers(text)
    for rule in lock.selections:
        spec, certificate = specs.get(rule.kernel), rule.certificate
        state, reason = states.get(rule.key, ("fresh", "")) if spec is not None else ("", "")
        inside, outside = (None, None) if certificate is None else (certificate.inside, certificate.outside)
        known = held_out.get(rule.key, ()) if certificate is not None else ()
        worst = [(of, where) for of, where in ((inside, True), (outside, False)) if of is not None]
        dots = [
            Dot(
                dims=one.dims,
                moved_bytes=_bytes(spec, rule.specialisation, one.dims),
                loss=one.loss,
                inside=one.inside,
                slower=one.slower,
            )
            for one in known
        ] or [
            Dot(
                dims=of.worst_at,
                moved_bytes=_bytes(spec, rule.specialisation, of.worst_at),
                loss=of.worst,
                inside=where,
            )
            for of, where in worst
        ]
        yield LossFigure(
            kernel=rule.kernel,
            device=rule.device,
            specialisation=describe(rule.specialisation),
            ships=len(rule.choices),
            at=numbers.get(lockfile.selection_line(rule), 0),
            state=state,
            reason=reason,
            seed=None if certificate is None else certificate.seed,
            inside=inside,
            outside=outside,
            dots=tuple(dots),
            whole=bool(known),
        )


def _bytes(spec: KernelSpec | None, specialisation: Pairs, dims: Pairs) -> int | None:
    return None if spec is None else moved_bytes(spec, Problem(specialisation=specialisation, dims=dims))
