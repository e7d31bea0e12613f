"""Search strategies: which configurations of a space are tried, and in which order.

A strategy is one class in one file. Those of this folder go by the names in `_registered`; others are found by
`PACKAGE.MODULE:CLASS`, or by the name of an entry point in the group `pretuned.strategies`.

Nothing here imports NumPy, since a build that only reads its table imports this module and may not have NumPy. A
strategy's own module may import it.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

from pretuned.errors import Error, ExitCode
from pretuned.runtime.text import no_such

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# (configurations, parameters): row i is a legal configuration; an entry is the index of its value in the parameter's
# sorted values, -1 where the configuration's implementation has no such parameter. The first column is the
# implementation's index.
Codes: TypeAlias = "npt.NDArray[np.int16]"

AUTO: Final = "auto"
GROUP: Final = "pretuned.strategies"  # of entry points
EXHAUSTIVE_LIMIT: Final = 450  # configurations; screening them all takes a few seconds
EVALUATIONS: Final = 448  # of a search through a larger space
BATCH: Final = 32  # keeps 16 compile workers busy while another batch is measured


class Strategy(Protocol):
    """Proposes batches until it has nothing more to ask; the same measurements give the same decisions.

    The codes of a parameter are in the order of its values. One that has an attribute `nominal` is told in it which
    columns have no such order, since their values are texts; one that has `under_way`, which rows count as under way.
    """

    @property
    def complete(self) -> bool:
        """Whether it asks for every configuration."""
        ...

    def propose(self, codes: Codes, times_us: Mapping[int, float], /) -> list[int]:
        """Return rows of `codes` that `times_us` does not hold, at most a batch; an empty list ends the search.

        Row 0 is the default, which the first batch holds. `times_us` maps rows to microseconds, inf for a failure. It
        may hold rows that were never proposed, and has the median time so far for rows that are still under way.
        """
        ...


StrategyFactory = Callable[[int, Sequence[int]], Strategy]  # of the number of configurations, and the rows to try first


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedStrategy:
    """A strategy as it was asked for; `make` returns a new one for each search."""

    name: str
    make: StrategyFactory


class StrategyError(Error):
    """There is no strategy of that name, or it cannot be loaded."""

    exit_code = ExitCode.INPUT


@runtime_checkable
class OrderAware(Protocol):
    """A strategy that takes neighbouring values for similar, but for those of the `nominal` columns."""

    nominal: Sequence[int]


@runtime_checkable
class AwareOfWork(Protocol):
    """A strategy that does not take the times of the rows `under_way` for measured ones."""

    under_way: Collection[int]


@runtime_checkable
class Promising(Protocol):
    """A strategy that says by how much its last batch is expected to lower the natural logarithm of the best time."""

    promise: float


def ask(strategy: Strategy, codes: Codes, times_us: Mapping[int, float]) -> list[int]:
    """Return the next batch of `strategy`; raises StrategyError where it is not made of new rows of `codes`."""
    batch = [int(row) for row in strategy.propose(codes, times_us)]
    wrong = next((row for row in batch if not 0 <= row < len(codes) or row in times_us), None)
    if wrong is not None:
        reason = "has a time already" if wrong in times_us else f"is not one of {len(codes)}"
        raise StrategyError(f"{type(strategy).__name__} proposed row {wrong}, which {reason}")
    if len(set(batch)) < len(batch):
        raise StrategyError(f"{type(strategy).__name__} proposed a row twice in one batch")
    return batch


def by_size(size: int, first: Sequence[int] = ()) -> Strategy:
    """Return the default strategy: every configuration of a small space, the hybrid search through a larger one."""
    make = named("exhaustive" if size <= EXHAUSTIVE_LIMIT else "hybrid").make
    return make(size, first)


_registered: Final[dict[str, str | StrategyFactory]] = {
    AUTO: by_size,
    "exhaustive": "pretuned.strategies.exhaustive:Exhaustive",
    "hybrid": "pretuned.strategies.hybrid:Hybrid",
    "random": "pretuned.strategies.random_sample:RandomSample",
}


def register(name: str, strategy: str | StrategyFactory) -> None:
    """Have `named(name)` find a strategy: a class or function, or `PACKAGE.MODULE:CLASS`, imported when it is used."""
    if name in _registered:
        raise ValueError(f"there is a strategy {name} already")
    _registered[name] = strategy


def names() -> list[str]:
    """Return the names of all strategies, those of installed packages included."""
    return sorted({*_registered, *importlib.metadata.entry_points(group=GROUP).names})


def named(name: str) -> NamedStrategy:
    """Return the strategy of a name, or of `PACKAGE.MODULE:CLASS`; raises StrategyError where there is none."""
    known = _registered.get(name)
    if known is None and ":" in name:
        known = name
    if known is None:
        known = next((entry.value for entry in importlib.metadata.entry_points(group=GROUP, name=name)), None)
    if known is None:
        raise StrategyError(no_such("strategy", name, names()))
    return NamedStrategy(name=name, make=_loaded(name, known) if isinstance(known, str) else known)


def _loaded(name: str, place: str) -> StrategyFactory:
    module_name, _, attribute = place.partition(":")
    try:
        with _current_folder_too() if name == place else nullcontext():  # what is registered is installed
            found = getattr(importlib.import_module(module_name), attribute)
    except Exception as error:  # a module of others may raise anything
        raise StrategyError(f"strategy '{name}' cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise StrategyError(
            f"strategy '{name}' cannot be loaded: {attribute} of {module_name} is not a class or function"
        )
    make: StrategyFactory = found
    return make


@contextmanager
def _current_folder_too() -> Iterator[None]:
    """Import from the current folder as well, after all others, as `python -m pretuned` does."""
    folder = os.getcwd()  # noqa: PTH109 - entries of sys.path are text
    if folder in sys.path:
        yield
        return
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
