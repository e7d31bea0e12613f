"""One call that is checked and ready: what a launch, a lane and a bound call are made from."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import Foreign, Value
    from .arrays import View
    from .driver import Driver
    from .overrides import Overrides
    from .plans import Plan

_captured: list[Foreign] = []  # scratch of calls that became part of a graph, which goes on writing there


class Made:
    """One call that is ready to be launched: what its arrays are, and the values that it packs."""

    __slots__ = (
        "alive",
        "arrays",
        "handle",
        "keywords",
        "library",
        "ordinal",
        "overrides",
        "plan",
        "scalars",
        "scratch",
        "usual",
        "values",
        "views",
    )

    def __init__(self, scalars: Sequence[Foreign], keywords: tuple[Value, ...], overrides: Overrides) -> None:
        self.scalars, self.keywords, self.overrides = scalars, keywords, overrides
        self.library, self.ordinal, self.handle = "", 0, 0
        self.arrays: list[Foreign] = []
        self.views: list[View] = []
        self.scratch: list[Foreign] = []
        self.alive: Foreign = None  # what arrays of other libraries were taken in as
        self.values: tuple[Foreign, ...] = ()
        self.usual = True  # whether the problem's own plan runs, not one in place of a library's function
        self.plan: Plan


def keep_captured(driver: Driver, made: Made) -> bool:
    """Return whether a call's stream is being captured into a graph, which then keeps the call's scratch for good."""
    captured: bool = driver.capturing(made.handle)
    if captured:
        _captured.append(made.scratch)
    return captured
