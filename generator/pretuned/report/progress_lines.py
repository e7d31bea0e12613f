"""The progress of a tuning in words: the lines of a display that is so wide, and one line of a log.

A display has the same lines from the beginning to the end, whatever is known yet, so that nothing jumps. Where a line
is too narrow for its text, the kernel's name is shortened in the middle, and then the end is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pretuned.errors import counted
from pretuned.report.progress import BestSoFar, Count, ProgressView
from pretuned.report.time_left import about, duration

LABEL: Final = 10  # columns, with the gap behind
BAR: Final = 20  # columns of a bar, at most
BAR_SHARE: Final = 6  # of so many columns, a bar has one
MS_US: Final = 1e3
S_US: Final = 1e6
IN_TWO_LINES: Final = 4  # devices; more of them have a line each
LEAST_NAME: Final = 8  # columns that a shortened name keeps


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The characters of a display: those of a terminal that knows Unicode, or of one that does not."""

    full: str = "█"
    empty: str = "░"
    cut: str = "…"


ASCII: Final = Marks(full="#", empty="-", cut="...")


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayLine:
    """A line of a display: what it is about, a bar or nothing, and a text; together no wider than the display."""

    label: str
    bar: str = ""
    text: str

    def __str__(self) -> str:
        return f"{self.label}{self.bar}{self.text}"


def display_lines(views: Sequence[ProgressView], width: int, marks: Marks = Marks()) -> list[DisplayLine]:
    """Return the lines of a display of `width` columns: seven for one device, two or one for each of several.

    What is of all of them together has two lines.
    """
    if len(views) == 1:
        return _of_one(views[0], width, marks)
    whole = views[:1] if views[1].is_part and not views[0].is_part else []
    return [*_of_parts(whole, width, marks), *_of_parts(views[len(whole) :], width, marks)]


def _of_parts(parts: Sequence[ProgressView], width: int, marks: Marks) -> Iterator[DisplayLine]:
    for view in parts:
        if len(parts) > IN_TWO_LINES:
            yield _of_many(view, width, marks)
        else:
            yield from _of_several(view, width, marks)


def _of_one(view: ProgressView, width: int, marks: Marks) -> list[DisplayLine]:
    sources = f"{view.compiled.done} of {counted(view.compiled.of, 'source')}"
    working = f", {view.compiling} at work" if view.compiling else ""
    seen = f"{view.screened.done} of {counted(view.screened.of, 'configuration')}"
    return [
        _title(view, width, marks),
        _barred("rows", view.rows, _rows(view), width, marks),
        _line("kernel", place(view, width - LABEL, marks), width, marks),
        _line("step", step(view), width, marks),
        _barred("compiled", view.compiled, sources + working if view.compiled.of else "", width, marks),
        _barred("screened", view.screened, seen if view.screened.of else "", width, marks),
        _line("best", best(view.best, configuration=True), width, marks),
    ]


def _rows(view: ProgressView) -> str:
    if view.rows.of:
        return f"{view.rows.done} of {view.rows.of}"
    return f"{view.rows.done} so far" if view.rows.done else ""


def _of_several(view: ProgressView, width: int, marks: Marks) -> list[DisplayLine]:
    doing = ": ".join(part for part in (place(view, width // 2, marks), view.step) if part)
    rows = f"{view.rows.done} of {view.rows.of}" if view.rows.of else ""
    return [_title(view, width, marks), _barred("  rows", view.rows, f"{rows}  {doing}", width, marks)]


def _of_many(view: ProgressView, width: int, marks: Marks) -> DisplayLine:
    columns = width // 4
    rows = f"{view.rows.done} of {counted(view.rows.of, 'row')}, " if view.rows.of else ""
    doing = ": ".join(part for part in (view.kernel, view.step) if part)
    name = shortened(view.device, columns, marks).ljust(columns)
    return DisplayLine(label=name, text=ended(f"  {rows}{doing}", width - columns, marks))


def _title(view: ProgressView, width: int, marks: Marks) -> DisplayLine:
    """Return the device on the left and the time on the right, which matters more."""
    spent = time_spent(view)
    name = shortened(view.device, width - len(spent) - 2, marks) if width - len(spent) - 2 >= LEAST_NAME else ""
    text = ended(spent.rjust(width - len(name)), width - len(name), marks)
    return DisplayLine(label=name, text=text)


def _barred(label: str, count: Count, text: str, width: int, marks: Marks) -> DisplayLine:
    columns = min(BAR, width // BAR_SHARE)
    full = int(count.share * columns)
    bar = marks.full * full + marks.empty * (columns - full)
    return DisplayLine(
        label=label.ljust(LABEL), bar=bar, text=ended(f"  {text}".rstrip(), width - LABEL - columns, marks)
    )


def _line(label: str, text: str, width: int, marks: Marks) -> DisplayLine:
    return DisplayLine(label=label.ljust(LABEL), text=ended(text, width - LABEL, marks))


def time_spent(view: ProgressView) -> str:
    """Return the time in words: what was spent, of which budget, and what is left; nothing of a part."""
    if view.is_part:
        return ""
    budget = "" if view.budget_s is None else f" of {duration(view.budget_s)}"
    left = "" if view.left_s is None else f", {about(view.left_s)} left"
    over = view.budget_s is not None and view.spent_s > view.budget_s
    return f"{duration(view.spent_s)}{budget}" + (", finishing" if over else left)


def place(view: ProgressView, width: int | None = None, marks: Marks = Marks()) -> str:
    """Return the kernel and the problem at hand, in so many columns if the kernel's name can be shortened to that."""
    if view.problem is None:
        return view.kernel
    problem = f": {view.problem}"
    if width is None:
        return view.kernel + problem
    return shortened(view.kernel, max(LEAST_NAME, width - len(problem)), marks) + problem


def step(view: ProgressView) -> str:
    """Return what is done now, and which candidates are left where they race."""
    if not view.contenders:
        return view.step
    return f"{view.step}, {len(view.contenders)} left: {'; '.join(map(str, view.contenders))}"


def best(found: BestSoFar | None, *, configuration: bool) -> str:
    """Return the best so far beside the default, in words; nothing where none is known."""
    if found is None:
        return ""
    said = taken(found.time_us)
    if found.default_us == found.time_us:
        return f"{said}, the default"
    if found.default_us is not None:
        said += f", {found.default_us / found.time_us:.2f}x faster (default {taken(found.default_us)})"
    return f"{said}: {found.configuration}" if configuration else said


def taken(time_us: float) -> str:
    """Return a time with the unit that suits it: `12.4 us`, `7.52 ms`, `1.2 s`."""
    if time_us < MS_US:
        return f"{time_us:.3g} us"
    return f"{time_us / MS_US:.3g} ms" if time_us < S_US else f"{time_us / S_US:.3g} s"


def log_line(view: ProgressView) -> str:
    """Return one line with the same facts, however wide."""
    facts = [f"{view.rows.done} of {counted(view.rows.of, 'row')}"] if view.rows.of else []
    facts += [f"{counted(view.rows.done, 'row')} so far"] if view.rows.done and not view.rows.of else []
    doing = view.step + (f", {len(view.contenders)} left" if view.contenders else "")
    if view.step == "screening":
        doing += f", {view.screened.done} of {counted(view.screened.of, 'configuration')}"
    facts.append(": ".join(part for part in (place(view), doing) if part))
    if view.compiled.done < view.compiled.of:
        sources = counted(view.compiled.of, "source")
        facts.append(f"{view.compiled.done} of {sources} compiled, {view.compiling} at work")
    if view.best is not None:
        facts.append(f"best {best(view.best, configuration=False)}")
    return ": ".join(part for part in (time_spent(view), "; ".join(facts)) if part)


def shortened(text: str, width: int, marks: Marks) -> str:
    """Return a text of at most so many columns, with its middle left out."""
    if len(text) <= width:
        return text
    kept = max(0, width - len(marks.cut))
    tail = kept // 2
    return text[: kept - tail] + marks.cut[:width] + text[len(text) - tail :]


def ended(text: str, width: int, marks: Marks) -> str:
    """Return a text of at most so many columns, with its end left out."""
    return text if len(text) <= width else text[: max(0, width - len(marks.cut))] + marks.cut[: max(0, width)]
