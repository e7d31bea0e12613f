"""How long a tuning still takes: an estimate from what is planned and what was spent. Pure: callers bring the time.

Theory of operation. A tuning announces what each of its tasks is expected to take, in seconds as they were measured on
one machine. How far it is counts in these seconds. What they take on this machine, its *pace*, is learned: the seconds
that were spent over those that are done, where both begin with some seconds at a pace of 1. So the first results do not
throw the estimate about. What is left is what is planned and not done, at that pace, and never more than is left of the
budget.

What is shown follows that estimate slowly: it runs down as time passes, and is corrected by a small share a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PRIOR_SHARE: Final = 0.1  # of the plan, at a pace of 1
LEAST_PRIOR_S: Final = 3.0
# By how much a second corrects what is shown at most, beside running down: a part of it, and some seconds. Upwards it
# has to outrun the clock.
DOWN: Final = (0.04, 0.5)
UP: Final = (0.08, 1.5)
FEW_S: Final = 8.0
SECONDS_UP_TO_S: Final = 100.0
STEP_S: Final = 5.0
MINUTE_S: Final = 60.0
HOUR_S: Final = 3600.0
HOURS_FROM_S: Final = 2 * HOUR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What is known of a tuning's time, in seconds: `planned_s` of it were expected in all, `done_s` of them are done.

    `spent_s` have passed since the plan was made, and `room_s` are left of the budget, None without one.
    """

    planned_s: float
    done_s: float
    spent_s: float
    room_s: float | None = None

    @property
    def left_s(self) -> float:
        """The estimate: 0 or more."""
        prior_s = max(LEAST_PRIOR_S, PRIOR_SHARE * self.planned_s)
        pace = (max(0.0, self.spent_s) + prior_s) / (self.done_s + prior_s)
        left_s = max(0.0, self.planned_s - self.done_s) * pace
        return left_s if self.room_s is None else max(0.0, min(left_s, self.room_s))


class TimeLeft:
    """What is shown of the estimates of one tuning, each given with the time at which it was made."""

    def __init__(self) -> None:
        self._shown_s: float | None = None
        self._at_s = 0.0

    def follow(self, account: Account, now_s: float) -> float:
        """Return the seconds to show at `now_s`: those shown before, less what has passed, and corrected a little."""
        wanted_s = account.left_s
        if self._shown_s is None:
            self._shown_s, self._at_s = wanted_s, now_s
            return wanted_s
        passed_s = max(0.0, now_s - self._at_s)
        expected_s = max(0.0, self._shown_s - passed_s)
        most_up_s, most_down_s = ((part * self._shown_s + more_s) * passed_s for part, more_s in (UP, DOWN))
        self._shown_s = max(0.0, expected_s + min(most_up_s, max(-most_down_s, wanted_s - expected_s)))
        if account.room_s is not None:
            self._shown_s = min(self._shown_s, max(0.0, account.room_s))
        self._at_s = now_s
        return self._shown_s


def duration(seconds: float) -> str:
    """Return seconds in words, as a clock counts them: `12 s`, `3 min 20 s`, `1 h 5 min`."""
    whole = int(max(0.0, seconds))
    if whole < SECONDS_UP_TO_S:
        return f"{whole} s"
    minutes, rest = divmod(whole, int(MINUTE_S))
    if whole < HOUR_S:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def about(seconds: float) -> str:
    """Return an estimate in words, no finer than it is known: `a few seconds`, `about 40 s`, `about 3 min`."""
    if seconds < FEW_S:
        return "a few seconds"
    if seconds < SECONDS_UP_TO_S:
        return f"about {STEP_S * round(seconds / STEP_S):.0f} s"
    if seconds < HOURS_FROM_S:
        return f"about {seconds / MINUTE_S:.0f} min"
    return f"about {seconds / HOUR_S:.0f} h"
