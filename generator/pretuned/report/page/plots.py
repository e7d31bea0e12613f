"""The plots of a report: each an inline SVG with a title, a description, and its figures as titles of its marks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from pretuned.record.courses import Course, Curve
from pretuned.report.figures.losses import Dot, LossFigure
from pretuned.report.figures.rows import RowFigure, product_of
from pretuned.report.page.drawing import COLOURS, SHAPES, Drawn, Frame, Plane, circle, closed, legend
from pretuned.spec.space import describe

BYTES = "bytes read and written"
DIMS = "product of the dims"
LEAST_S = 0.01  # of a curve's axis


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A plot: what it shows in a line, and the SVG."""

    caption: str
    svg: str


def ratio_plot(rows: Sequence[RowFigure], named: str, names: Sequence[str]) -> Drawing:
    """Return the winners' times as shares of the defaults', with the 95% intervals of their duels, over the sizes.

    `names` are all specialisations that a kernel's plots have, so that marks mean the same in each.
    """
    series = _series(names)
    plane = Plane.around(
        [row.work for row in rows], [1.0, *(ratio for row in rows for ratio in row.line.ratio)], Frame(height=230)
    )
    end = plane.frame.width - plane.frame.right
    one = f'<path d="M{plane.frame.left} {plane.y(1):.1f}H{end}" stroke="currentColor" stroke-dasharray="5 3"/>'
    for row in rows:
        low, high = row.line.ratio
        own, x = series[row.line.specialisation], plane.x(row.work)
        if high > low:
            own.line(x, plane.y(high), plane.y(low))
        title = f"{_problem(row)}: {row.line.winner_us:g} us, default {row.line.default_us:g} us"
        own.mark(x, plane.y((low + high) / 2), title, filled=not row.line.is_default)
    caption = "Winner's time by the default's (below 100%: faster), with its 95% interval; hollow: the default won"
    return _drawing(caption, named, plane, [one], series, _axis(rows), _percent)


def share_plot(rows: Sequence[RowFigure], named: str, names: Sequence[str]) -> Drawing | None:
    """Return which share of the nominal bandwidth winners and defaults reach; None where no row has bytes."""
    found = [row for row in rows if row.share(row.line.winner_us) is not None]
    if not found:
        return None
    series = _series(names)
    shares = [(row, row.share(row.line.winner_us) or 0.0, row.share(row.line.default_us) or 0.0) for row in found]
    plane = Plane.around(
        [row.work for row in found], [0.0, *(max(one, other) for _, one, other in shares)], Frame(height=230)
    )
    for row, winner, default in shares:
        own, x = series[row.line.specialisation], plane.x(row.work)
        if not row.line.is_default:
            own.line(x, plane.y(default), plane.y(winner))
            own.dot(x, plane.y(default))
        title = f"{_problem(row)}: {winner:.1%}, default {default:.1%}"
        own.mark(x, plane.y(winner), title, filled=not row.line.is_default)
    caption = "Share of the device's nominal memory bandwidth; small circles: the defaults"
    return _drawing(caption, named, plane, [], series, _axis(found), _percent)


def loss_plot(losses: Sequence[LossFigure], named: str, names: Sequence[str]) -> Drawing | None:
    """Return what selections lost at held-out problems; None where none is certified."""
    dots = [(rule, dot) for rule in losses for dot in rule.dots]
    if not dots:
        return None
    by_bytes = all(dot.moved_bytes is not None for _, dot in dots)
    series = _series(names)
    works = [_work(dot, by_bytes=by_bytes) for _, dot in dots]
    plane = Plane.around(works, [0.0, *(dot.loss for _, dot in dots)], Frame(height=230))
    for (rule, dot), work in zip(dots, works, strict=True):
        slower = ", slower than the default" if dot.slower else ""
        title = f"{describe(dot.dims)}: {dot.loss:.1%}{slower}"
        series[rule.specialisation].mark(plane.x(work), plane.y(dot.loss), title, filled=dot.inside)
    which = "all held-out problems" if all(rule.whole for rule, _ in dots) else "the worst held-out problems"
    caption = f"Loss of the selection against the fastest, at {which}; hollow: outside the tuned sizes"
    return _drawing(caption, named, plane, [], series, BYTES if by_bytes else DIMS, _percent)


def course_plot(course: Course, named: str) -> Drawing | None:
    """Return how near to the best that was found each problem was after so many seconds; None without curves."""
    curves = [curve for curve in course.curves if len(curve.points) > 1]
    if not curves:
        return None
    steps = [list(_steps(curve)) for curve in curves]
    seconds = [s for points in steps for s, _ in points]
    plane = Plane.around(seconds, [1.0, *(factor for points in steps for _, factor in points)], Frame(height=230))
    parts = []
    for place, (curve, points) in enumerate(zip(curves, steps, strict=True)):
        begin = f"M{plane.x(points[0][0]):.1f} {plane.y(points[0][1]):.1f}"
        path = begin + "".join(f"H{plane.x(s):.1f}V{plane.y(factor):.1f}" for s, factor in points[1:])
        colour = COLOURS[place % len(COLOURS)]
        parts.append(closed(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"', curve.problem))
    caption = "Best time so far, by the fastest found, over seconds; a line for each problem"
    return _drawing(caption, named, plane, parts, {}, "seconds of the kernel's tuning", lambda v: f"{v:.3g}x")


def _steps(curve: Curve) -> Iterator[tuple[float, float]]:
    fastest = min(time_us for _, time_us in curve.points)
    best = curve.points[0][1]
    for seconds, time_us in curve.points:
        best = min(best, time_us)
        yield max(LEAST_S, seconds), best / fastest


@dataclass(slots=True, kw_only=True)
class _Series:
    """What a plot draws of one specialisation, in a colour and a shape of its own.

    `aside` is how far beside their place its marks stand, so that those of one problem do not hide each other.
    """

    colour: str
    shape: Drawn
    aside: float
    lines: list[str] = field(default_factory=list)
    filled: list[str] = field(default_factory=list)
    hollow: list[str] = field(default_factory=list)

    def line(self, x: float, y: float, to: float) -> None:
        """Draw a line up or down."""
        self.lines.append(f"M{x + self.aside:.1f} {y:.1f}V{to:.1f}")

    def mark(self, x: float, y: float, title: str, *, filled: bool) -> None:
        """Draw a mark that says its title where it is pointed at."""
        (self.filled if filled else self.hollow).append(closed(self.shape(x + self.aside, y), title))

    def dot(self, x: float, y: float) -> None:
        """Draw a small circle."""
        self.hollow.append(f"{circle(x + self.aside, y, 2.5)}/>")

    @property
    def svg(self) -> str:
        """All of it in groups, so that the colour stands once; nothing where nothing is drawn."""
        if not (self.filled or self.hollow):
            return ""
        parts = [f'<g class="series" fill="{self.colour}" stroke="{self.colour}">']
        if self.lines:
            parts.append(f'<path d="{"".join(self.lines)}"/>')
        parts += self.filled
        if self.hollow:
            parts += ['<g fill="none">', *self.hollow, "</g>"]
        return "\n".join([*parts, "</g>"])


def _series(names: Sequence[str]) -> dict[str, _Series]:
    """Return an empty series for each name, in the order of the names."""
    own = list(dict.fromkeys(names))
    shapes: Sequence[Drawn] = (circle, *SHAPES)
    return {
        name: _Series(
            colour=COLOURS[place % len(COLOURS)],
            shape=shapes[place % len(shapes)],
            aside=(place - (len(own) - 1) / 2) * min(5.0, 14 / len(own)),
        )
        for place, name in enumerate(own)
    }


def _drawing(
    caption: str,
    named: str,
    plane: Plane,
    parts: Sequence[str],
    series: Mapping[str, _Series],
    horizontal: str,
    vertical: Callable[[float], str],
) -> Drawing:
    frame = plane.frame
    entries = [(f'{one.shape(0, 0)} fill="{one.colour}"', name) for name, one in series.items() if name]
    names, lines = legend(entries, frame.left, frame.height + 6, frame.width - frame.right)
    height = frame.height + 16 * lines
    drawn = [plane.axes(horizontal, vertical), *parts, *(one.svg for one in series.values() if one.svg), names]
    svg = (
        f'<svg viewBox="0 0 {frame.width} {height}" role="img" font-size="11" fill="currentColor">\n'
        f"<title>{escape(f'{named}: {caption}')}</title>\n"
        f"<desc>Over {escape(horizontal)}. The tables have all figures.</desc>\n" + "\n".join(drawn) + "\n</svg>"
    )
    return Drawing(caption=caption, svg=svg)


def _percent(value: float) -> str:
    return f"{100 * value:.3g}%"


def _problem(row: RowFigure) -> str:
    return ", ".join(part for part in (describe(row.dims), row.line.specialisation) if part)


def _axis(rows: Sequence[RowFigure]) -> str:
    return BYTES if all(row.moved_bytes is not None for row in rows) else DIMS


def _work(dot: Dot, *, by_bytes: bool) -> float:
    if by_bytes:
        return float(max(1, dot.moved_bytes or 0))
    return product_of(dot.dims)
