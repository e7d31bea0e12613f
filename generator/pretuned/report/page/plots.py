"""The plots of a report: each an inline SVG with a title, a description, and its figures as titles of its marks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
    marks = _Marks(names)
    plane = Plane.around(
        [row.work for row in rows], [1.0, *(ratio for row in rows for ratio in row.line.ratio)], Frame(height=230)
    )
    end = plane.frame.width - plane.frame.right
    one = f"M{plane.frame.left} {plane.y(1):.1f}H{end}"
    parts = [f'<path d="{one}" stroke="currentColor" stroke-dasharray="5 3"/>']
    for row in rows:
        low, high = row.line.ratio
        x, colour = plane.x(row.work) + marks.aside(row.line.specialisation), marks.colour(row.line.specialisation)
        if high > low:
            parts.append(f'<path d="M{x:.1f} {plane.y(high):.1f}V{plane.y(low):.1f}" stroke="{colour}"/>')
        mark = marks.drawn(row.line.specialisation, x, plane.y((low + high) / 2), filled=not row.line.is_default)
        parts.append(closed(mark, f"{_problem(row)}: {row.line.winner_us:g} us, default {row.line.default_us:g} us"))
    caption = "Winner's time by the default's (below 100%: faster), with its 95% interval; hollow: the default won"
    return _drawing(caption, named, plane, parts, marks, _axis(rows), _percent)


def share_plot(rows: Sequence[RowFigure], named: str, names: Sequence[str]) -> Drawing | None:
    """Return which share of the nominal bandwidth winners and defaults reach; None where no row has bytes."""
    found = [row for row in rows if row.share(row.line.winner_us) is not None]
    if not found:
        return None
    marks = _Marks(names)
    shares = [(row, row.share(row.line.winner_us) or 0.0, row.share(row.line.default_us) or 0.0) for row in found]
    plane = Plane.around(
        [row.work for row in found], [0.0, *(max(one, other) for _, one, other in shares)], Frame(height=230)
    )
    parts = []
    for row, winner, default in shares:
        x, colour = plane.x(row.work) + marks.aside(row.line.specialisation), marks.colour(row.line.specialisation)
        title = f"{_problem(row)}: {winner:.1%}, default {default:.1%}"
        if not row.line.is_default:
            parts.append(f'<path d="M{x:.1f} {plane.y(default):.1f}V{plane.y(winner):.1f}" stroke="{colour}"/>')
            parts.append(
                f'{circle(x, plane.y(default))} r="2.5" fill="none" stroke="{colour}"/>'.replace('r="4.5" ', "")
            )
        mark = marks.drawn(row.line.specialisation, x, plane.y(winner), filled=not row.line.is_default)
        parts.append(closed(mark, title))
    caption = "Share of the device's nominal memory bandwidth; small circles: the defaults"
    return _drawing(caption, named, plane, parts, marks, _axis(found), _percent)


def loss_plot(losses: Sequence[LossFigure], named: str, names: Sequence[str]) -> Drawing | None:
    """Return what selections lost at held-out problems; None where none is certified."""
    dots = [(rule, dot) for rule in losses for dot in rule.dots]
    if not dots:
        return None
    by_bytes = all(dot.moved_bytes is not None for _, dot in dots)
    marks = _Marks(names)
    works = [_work(dot, by_bytes=by_bytes) for _, dot in dots]
    plane = Plane.around(works, [0.0, *(dot.loss for _, dot in dots)], Frame(height=230))
    parts = []
    for (rule, dot), work in zip(dots, works, strict=True):
        mark = marks.drawn(
            rule.specialisation, plane.x(work) + marks.aside(rule.specialisation), plane.y(dot.loss), filled=dot.inside
        )
        slower = ", slower than the default" if dot.slower else ""
        parts.append(closed(mark, f"{describe(dot.dims)}: {dot.loss:.1%}{slower}"))
    which = "all held-out problems" if all(rule.whole for rule, _ in dots) else "the worst held-out problems"
    caption = f"Loss of the selection against the fastest, at {which}; hollow: outside the tuned sizes"
    return _drawing(caption, named, plane, parts, marks, BYTES if by_bytes else DIMS, _percent)


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
    return _drawing(caption, named, plane, parts, _Marks([]), "seconds of the kernel's tuning", lambda v: f"{v:.3g}x")


def _steps(curve: Curve) -> Iterator[tuple[float, float]]:
    fastest = best = min(time_us for _, time_us in curve.points)
    best = curve.points[0][1]
    for seconds, time_us in curve.points:
        best = min(best, time_us)
        yield max(LEAST_S, seconds), best / fastest


class _Marks:
    """A shape and a colour for each name, in the order of the names."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(dict.fromkeys(names))

    def colour(self, name: str) -> str:
        return COLOURS[self.names.index(name) % len(COLOURS)]

    def aside(self, name: str) -> float:
        """Return how far beside its place a name's marks stand, so that those of one problem do not hide each other."""
        return (self.names.index(name) - (len(self.names) - 1) / 2) * min(5.0, 14 / len(self.names))

    def drawn(self, name: str, x: float, y: float, *, filled: bool) -> str:
        place = self.names.index(name)
        shapes: Sequence[Drawn] = (circle, *SHAPES)
        colour = self.colour(name)
        return f'{shapes[place % len(shapes)](x, y)} fill="{colour if filled else "none"}" stroke="{colour}"'

    @property
    def legend(self) -> list[tuple[str, str]]:
        return [(self.drawn(name, 0, 0, filled=True), name) for name in self.names if name]


def _drawing(
    caption: str,
    named: str,
    plane: Plane,
    parts: Sequence[str],
    marks: _Marks,
    horizontal: str,
    vertical: Callable[[float], str],
) -> Drawing:
    frame = plane.frame
    names, lines = legend(marks.legend, frame.left, frame.height + 6, frame.width - frame.right)
    height = frame.height + 16 * lines
    svg = (
        f'<svg viewBox="0 0 {frame.width} {height}" role="img" font-size="11" fill="currentColor">\n'
        f"<title>{escape(f'{named}: {caption}')}</title>\n"
        f"<desc>Over {escape(horizontal)}. The tables have all figures.</desc>\n"
        f"{plane.axes(horizontal, vertical)}\n" + "\n".join(parts) + f"\n{names}\n</svg>"
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
