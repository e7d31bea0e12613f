"""Strategies: which configurations to try next, given what is known. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from pretuned.spec.space import Configuration

EXHAUSTIVE_LIMIT: Final = 450  # configurations; screening them all takes a few seconds

Times = Mapping[Configuration, float | None]  # microseconds, or None for a failure


class Strategy(Protocol):
    """Proposes batches until it has nothing more to ask; the same decisions for the same measurements."""

    def propose(self, space: Sequence[Configuration], times_us: Times) -> Sequence[Configuration]:
        """Return configurations of `space` that `times_us` does not hold, or none to end the search.

        `space` is legal at the problem and starts with the default, which the first batch must hold.
        """
        ...


class Exhaustive:
    """Tries everything, in order."""

    def propose(self, space: Sequence[Configuration], times_us: Times) -> Sequence[Configuration]:
        """Return all that was not tried."""
        return [configuration for configuration in space if configuration not in times_us]


class RandomSample:
    """Tries the default and a fixed random sample of the rest: the control that any other strategy must beat."""

    def __init__(self, size: int = EXHAUSTIVE_LIMIT, seed: int = 0) -> None:
        self.size = size
        self.seed = seed

    def propose(self, space: Sequence[Configuration], times_us: Times) -> Sequence[Configuration]:
        """Return the sample, once."""
        if times_us:
            return []
        rest = random.Random(self.seed).sample(space[1:], min(self.size - 1, len(space) - 1))  # noqa: S311 - no secret
        return [space[0], *rest]


def strategy_for(size: int) -> Strategy:
    """Return the strategy for a space of `size` legal configurations."""
    return Exhaustive() if size <= EXHAUSTIVE_LIMIT else RandomSample()
