"""Which few configurations ship: those that together leave the least to lose over many problems. Pure.

The loss of a set at a problem is what its fastest member takes longer than the fastest of all. It is a submodular
function of the set, but for its sign, so adding what helps most comes near to the best set (Nemhauser, Wolsey and
Fisher, 1978); exchanges of single members mend what the first additions got wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from pretuned.tune.selection.terms import Reals

CAP: Final = 1.0  # a loss, beyond which a problem counts no more: twice the time
GAIN: Final = 0.0005  # of the mean loss: what a further configuration must save
_EXCHANGES: Final = 3  # rounds, at most


def losses(times_us: Reals) -> Reals:
    """Return what each configuration (column) takes longer at each problem (row), as a share of the fastest.

    A configuration that does not run there (nan, inf) loses CAP. A problem at which nothing runs loses nothing.
    """
    times = np.where(np.isfinite(times_us), times_us, np.inf)
    times = np.maximum(times, np.finfo(float).tiny)  # a cost may predict nothing at all
    best = times.min(axis=1, initial=np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        shares: Reals = np.minimum(times / best[:, None] - 1, CAP)
    return np.where(np.isinf(best)[:, None], 0.0, shares)


def choose(lost: Reals, weights: Reals, defaults: Sequence[int], most: int, *, gain: float = GAIN) -> list[int]:
    """Return the columns that ship, `defaults` first and in any case, then others in the order of what they save.

    With one default they are at most `most`; further defaults come in addition. `lost` has a problem in each row,
    `weights` say what each counts. Ends where a further one saves less than `gain`.
    """
    share = weights / max(float(weights.sum()), np.finfo(float).tiny)
    chosen = list(defaults)
    while len(chosen) < min(most + len(defaults) - 1, lost.shape[1]):
        added, saved = _addition(lost, share, chosen)
        if saved < gain:
            break
        chosen.append(added)
    for _ in range(_EXCHANGES):
        before = list(chosen)
        for position in range(len(defaults), len(chosen)):
            rest = chosen[:position] + chosen[position + 1 :]
            chosen[position], _saved = _addition(lost, share, rest)
        if chosen == before:
            break
    return list(dict.fromkeys(chosen))


def _addition(lost: Reals, share: Reals, chosen: list[int]) -> tuple[int, float]:
    """Return the column that saves most beside those chosen, the first of equals, and how much."""
    covered = lost[:, chosen].min(axis=1)
    saved = share @ np.maximum(covered[:, None] - lost, 0.0)
    saved = np.round(saved, 12)  # so that the order of a sum does not decide between equals
    best = int(saved.argmax())
    return best, float(saved[best])
