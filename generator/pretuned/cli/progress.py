"""A line of progress on a terminal, for commands that take long."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

BAR_WIDTH: Final = 20


class ProgressLine:
    """What is being done, and how much of it is; texts are printed above it."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def show(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Show what is being done; counts that are not given stay."""
        self._progress.update(self._task, description=text, completed=done, total=total)

    def print(self, text: str) -> None:
        """Print a line above."""
        self._progress.console.print(text, markup=False, highlight=False)


@contextmanager
def progress_line(*, quiet: bool = False) -> Iterator[ProgressLine | None]:
    """Show a line of progress on stderr while a block runs; None where that is no terminal, or with `quiet`."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - only for terminals
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415
    from rich.table import Column  # noqa: PLC0415

    text = TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
    parts = (text, BarColumn(BAR_WIDTH), MofNCompleteColumn(), TimeElapsedColumn())  # counts stay where texts are long
    with Progress(*parts, console=Console(stderr=True), transient=True, expand=True) as progress:
        yield ProgressLine(progress, progress.add_task("starting", total=None))
