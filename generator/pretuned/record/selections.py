"""Selections: what decides between a kernel's configurations at problems that nobody measured, and what that loses.

A selection belongs to one kernel, device and specialisation. It names the few configurations that ship, and for each a
*cost*: the predicted time of a call as a sum of terms, with a whole number of femtoseconds for each. A term is an
expression of the spec's language over the free dims alone, with parameters, types and the device folded in, such as
`ceil_div(n, 1024)`. So a prediction is exact integer arithmetic, the same in the builder and in a generated package.

The rule. Of the configurations whose guards hold, the one with the lowest cost runs, the first of equals, if it is
predicted to be faster than the problem's default by the selection's margin; else the default runs. Outside `reach`, the
sizes that the costs were fitted to, the margin is a wider one. At a problem that has a row the row's own choices come
first.

The certificate says what this rule loses at problems that were drawn after it was made, by a recorded seed.

Costs come from measurements, so a re-tune finds other numbers for the same rule. It *confirms* a selection if it ships
the same choices, of the same binaries, from the same space, by the same calls, and the one that
stands is certified as well: it loses no
more on average, but for what other problems alone make of that, and is no more often slower than the default. A new
certificate of the same costs confirms nothing: it was asked for. Neither is one confirmed that loses more than is
admitted, so that what mends it is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pretuned.record.rows import rank_of_effort
from pretuned.spec.space import Configuration, Pairs

# By how much the mean loss of one rule differs from certificate to certificate: at least, and as a share of it.
MEAN_DIFFERS: Final = 0.002
MEAN_SHARE: Final = 0.25

Cost = tuple[tuple[str, int], ...]  # terms, sorted, each with its femtoseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedChoice:
    """A configuration that ships, with its cost.

    `candidate` is the key of what was measured and `cubin` the digest of what ran; of a library call it is empty, and
    `library` says whose function ran, with its version.
    """

    configuration: Configuration
    candidate: str
    cubin: str
    cost: Cost
    library: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """What the rule loses at `problems` problems, against the fastest of all that was timed there.

    `mean`, `p95` and `worst` are shares of the fastest's time (0.01 is 1% slower). `slower` is the share of problems at
    which the rule's choice takes over 2% longer than the default. `worst_at` are the dims of the worst problem.
    """

    problems: int
    mean: float
    p95: float
    worst: float
    slower: float
    worst_at: Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The losses at problems drawn by `seed`: `inside` the spec's sizes, and `outside`, up to twice beyond them.

    `outside` is None where the spec admits no problem there, or where fewer than four were asked for inside. `calls`
    says whether problems were drawn by the numbers of a usage file's calls.
    """

    seed: int
    inside: Losses
    outside: Losses | None = None
    calls: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The rule for one kernel, device and specialisation.

    `choices` has the default last, or, where it depends on the problem, the `defaults` that it may be. One that was
    never timed has no cost, and nothing else runs where it is the default. `margins` are per mille of the default's
    predicted time: inside `reach`, and outside. `reach` gives the smallest and the largest size of each free dim that
    the costs were fitted to, `problems` at how many problems. `space`, `verification`, `compiler`, `driver`, `date`,
    `headers` and `effort` are as in a row.
    `usage` is the digest of the calls by which it was chosen, empty where problems weighed alike.
    `certificate` is None where the budget ended before, which leaves `space` empty too, or where the spec admits no
    problem but those that have rows.
    """

    kernel: str
    device: str
    specialisation: Pairs
    choices: tuple[PredictedChoice, ...]
    margins: tuple[int, int]
    reach: tuple[tuple[str, tuple[int, int]], ...]
    problems: int
    space: str
    verification: str
    compiler: str
    driver: str
    date: str
    certificate: Certificate | None = None
    headers: Pairs = ()
    usage: str = ""
    defaults: int = 1
    effort: str = ""

    @property
    def key(self) -> tuple[str, str, Pairs]:
        """What it answers for."""
        return self.kernel, self.device, self.specialisation

    @property
    def predicted(self) -> tuple[PredictedChoice, ...]:
        """The choices that a call can take by their costs, the default last: those without a cost predict nothing."""
        if self.defaults > 1:
            return tuple(choice for choice in self.choices if choice.cost)
        *others, default = self.choices
        return (*(choice for choice in others if choice.cost and default.cost), default)

    @property
    def default_configurations(self) -> tuple[Configuration, ...]:
        """What the author's default may be."""
        return tuple(choice.configuration for choice in self.choices[-self.defaults :])

    def keeps_to(self, max_loss: float | None) -> bool:
        """Return whether it is certified to lose no more than `max_loss` inside the sizes on average (None: any).

        One that was made whole and has no certificate keeps to it: it found no problem that has no row.
        """
        if max_loss is None or self.certificate is None:
            return max_loss is None or bool(self.space)
        return self.certificate.inside.mean <= max_loss


def confirms(new: Selection, old: Selection, max_loss: float | None = None) -> bool:
    """Return whether `new` finds all that `old` says, so that `old` stands; see the rule above.

    `max_loss` is the mean loss that is admitted, None for any.
    """

    def essence(selection: Selection) -> object:
        choices = {(c.configuration, c.candidate, c.cubin, c.library) for c in selection.choices}
        return choices, selection.defaults, selection.verification, selection.compiler, selection.usage

    more = rank_of_effort(new.effort) > rank_of_effort(old.effort)
    if more or essence(new) != essence(old) or new.space not in {"", old.space}:
        return False
    if new.certificate is None or old.certificate is None:
        return new.certificate is None
    same_rule = (new.choices, new.margins, new.reach) == (old.choices, old.margins, old.reach)
    if same_rule or new.certificate.calls != old.certificate.calls or not old.keeps_to(max_loss):
        return new.certificate == old.certificate
    return _as_good(old.certificate.inside, new.certificate.inside) and (
        new.certificate.outside is None
        or (old.certificate.outside is not None and _as_good(old.certificate.outside, new.certificate.outside))
    )


def _as_good(old: Losses, new: Losses) -> bool:
    return old.slower <= new.slower and old.mean <= new.mean + max(MEAN_DIFFERS, MEAN_SHARE * new.mean)
