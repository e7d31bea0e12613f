"""What a tuning shows while it runs: a display of several lines on a terminal, lines of a log elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pretuned.cli.project import console
from pretuned.config import Progress
from pretuned.report.effort import describe
from pretuned.report.progress import TuningProgress
from pretuned.report.progress_lines import ASCII, Marks, display_lines
from pretuned.report.progress_log import ALL, SETTLING, Kinds, logged
from pretuned.tune.events import (
    AnswerRefused,
    ByNumpy,
    Event,
    Failed,
    GivenAgain,
    Listener,
    Noisy,
    OutOfBudget,
    Passed,
    Planned,
    RemarkedReference,
    Shared,
    Waiting,
    innermost,
    is_of_a_part,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

WIDEST: Final = 100  # columns: a display that is wider is not easier to read
PER_SECOND: Final = 4
OF_FLEET: Final = Shared | GivenAgain | AnswerRefused
# above the display, to stay
PRINTED: Final = Failed | OutOfBudget | Passed | Waiting | Planned | Noisy | ByNumpy | RemarkedReference | OF_FLEET


@contextmanager
def shown(progress: Progress, *, verbose: bool = False, kinds: Kinds = SETTLING) -> Iterator[Listener]:
    """Yield a listener that shows a tuning while the block runs: on stderr, as far as `progress` allows.

    Events of `kinds` may have lines of their own, and what else settles something has none. With `verbose` every event
    has, and there is no display.
    """
    if progress == "off" and not verbose:
        yield lambda _event: None
        return
    terminal = None if verbose or progress == "plain" else _terminal()
    if terminal is None:
        with logged(console.info, ALL if verbose else kinds) as listen:
            yield listen
        return
    with _display(terminal, tuple(kind for kind in SETTLING if kind not in kinds)) as listen:
        yield listen


def _terminal() -> Console | None:
    """Return the terminal that stderr is, or None where it is none, or one whose cursor cannot be moved."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console  # noqa: PLC0415 - only for terminals

    terminal = Console(stderr=True)
    return None if terminal.is_dumb_terminal else terminal


@contextmanager
def _display(terminal: Console, silent: Kinds) -> Iterator[Listener]:
    """Show a display; events of the kinds of `silent` are printed by somebody else."""
    from rich.live import Live  # noqa: PLC0415 - only for terminals

    progress = TuningProgress()
    marks = Marks() if terminal.encoding.startswith("utf") else ASCII

    def render() -> RenderableType:
        return rendered(progress, min(WIDEST, terminal.width), marks)

    with Live(get_renderable=render, console=terminal, refresh_per_second=PER_SECOND, transient=True) as live:
        live.refresh()  # from here on the display stands, and what two threads write at once cannot miss its place

        def listen(event: Event) -> None:
            progress.hear(event)
            inner = innermost(event)
            if isinstance(inner, PRINTED) and not (isinstance(inner, silent) or is_of_a_part(event)):
                terminal.print(describe(event), markup=False, highlight=False)

        yield listen


def rendered(progress: TuningProgress, width: int, marks: Marks) -> RenderableType:
    """Return the display as it is now. Its only colour is that of its bars, which is read on dark and on light."""
    from rich.text import Text  # noqa: PLC0415 - only for terminals

    lines = display_lines(progress.views(), width, marks)
    parts = [Text.assemble((line.label, "bold"), (line.bar, "green"), line.text, no_wrap=True) for line in lines]
    return Text("\n").join(parts)
