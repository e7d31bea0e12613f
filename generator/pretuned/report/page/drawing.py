"""What plots are drawn with: axes, markers that shapes tell apart without colours, and numbers at round distances.

Text and axes have the page's colour, and the markers' colours keep a contrast of 3 to 1 on light and on dark pages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final

# About as far from white as from black, so that they are seen on both.
COLOURS: Final = ("#c2410c", "#00806a", "#a33f8c", "#2472b8", "#7d6b00", "#6b5fc7")
UNITS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
FARTHEST: Final = 1e15  # what is drawn farther out stands at the edge: no measurement is there
Drawn = Callable[[float, float], str]  # an SVG element without its end, at a place


def circle(x: float, y: float, radius: float = 4.5) -> str:
    """Return the begin of a circle."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}"'


def _path(*corners: tuple[float, float]) -> Drawn:
    left, top = corners[0]
    # Steps from corner to corner, which are the same for every mark, are shorter than places.
    steps = "l" + " ".join(f"{x - px:g} {y - py:g}" for (px, py), (x, y) in pairwise(corners)) + "z"

    def drawn(x: float, y: float) -> str:
        return f'<path d="M{x + left:.1f} {y + top:.1f}{steps}"'

    return drawn


SHAPES: Final = (
    _path((-4, -4), (4, -4), (4, 4), (-4, 4)),
    _path((0, -5), (5, 4), (-5, 4)),
    _path((0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)),
    _path((0, 5), (5, -4), (-5, -4)),
    _path((-5, -2), (-2, -5), (5, 2), (2, 5)),
    _path((5, -2), (2, -5), (-5, 2), (-2, 5)),
)


def closed(begun: str, title: str) -> str:
    """Return an element that is begun, with a title that browsers show where it is pointed at."""
    return f"{begun}><title>{escape(title)}</title></{begun[1:].split(maxsplit=1)[0]}>"


def step(top: float) -> float:
    """Return a round distance of which four to eight fit into `top`."""
    power: float = 10.0 ** math.floor(math.log10(top / 4))
    return max(factor * power for factor in (1, 2, 2.5, 5) if factor * power <= top / 4)


def short(value: float) -> str:
    """Return a number with its unit's letter: 64M for 64,000,000."""
    size, letter = next(pair for pair in UNITS if value >= pair[0] or pair[0] == 1.0)
    return f"{value / size:.4g}{letter}"


@dataclass(frozen=True, slots=True)
class Frame:
    """The place of a plot's content, in units of the drawing, about one CSS pixel on a phone."""

    width: int = 360
    height: int = 210
    left: int = 44
    right: int = 10
    top: int = 10
    bottom: int = 38


@dataclass(frozen=True, slots=True)
class Plane:
    """Where values stand: across on a logarithmic axis from `least` to `most`, up on a linear one from low to high."""

    frame: Frame
    least: float
    most: float
    low: float
    high: float

    @classmethod
    def around(cls, xs: Sequence[float], ys: Sequence[float], frame: Frame) -> Plane:
        """Return the plane that has all of these, with something to spare. Neither may be empty; `xs` are above 0."""
        low, high = max(-FARTHEST, min(ys)), min(FARTHEST, max(ys))
        margin = 0.06 * (high - low) or 0.06 * abs(high) or 1.0
        return cls(frame, min(xs) / 1.5, max(xs) * 1.5, low - margin if low else 0.0, high + margin)

    def x(self, value: float) -> float:
        """Return the place of a value on the horizontal axis."""
        share = math.log(value / self.least) / math.log(self.most / self.least)
        return self.frame.left + share * (self.frame.width - self.frame.left - self.frame.right)

    def y(self, value: float) -> float:
        """Return the place of a value on the vertical axis."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.frame.height - self.frame.bottom - share * (self.frame.height - self.frame.top - self.frame.bottom)

    def axes(self, horizontal: str, vertical: Callable[[float], str]) -> str:
        """Return grid and numbers; `horizontal` names the axis, `vertical` writes a value of the other one."""
        frame = self.frame
        bottom = frame.height - frame.bottom
        grid, levels, powers = list[str](), list[str](), list[str]()
        for value in self._levels():
            y = self.y(value)
            grid.append(f"M{frame.left} {y:.1f}H{frame.width - frame.right}")
            levels.append(f'<text x="{frame.left - 5}" y="{y + 4:.1f}">{vertical(value)}</text>')
        for value in self._powers():
            x = self.x(value)
            grid.append(f"M{x:.1f} {frame.top}V{bottom}")
            powers.append(f'<text x="{x:.1f}" y="{bottom + 14}">{short(value)}</text>')
        middle = (frame.left + frame.width - frame.right) / 2
        powers.append(f'<text x="{middle:.0f}" y="{frame.height - 7}">{escape(horizontal)}</text>')
        return "\n".join(
            [
                f'<path d="{"".join(grid)}" stroke="currentColor" stroke-opacity="0.25"/>',
                f'<g text-anchor="end">{"".join(levels)}</g>',
                f'<g text-anchor="middle">{"".join(powers)}</g>',
            ]
        )

    def _levels(self) -> Iterator[float]:
        distance = step(self.high - self.low)
        for place in range(math.ceil(self.low / distance - 1e-9), math.floor(self.high / distance + 1e-9) + 1):
            yield place * distance

    def _powers(self) -> Iterator[float]:
        """Yield powers of ten, six at most; where there are fewer than two, their doubles and fivefolds too."""
        first, last = math.floor(math.log10(self.least)), math.floor(math.log10(self.most))
        every = max(1, math.ceil((last - first) / 6))
        powers = [10.0**power for power in range(first, last + 1, every) if 10.0**power >= self.least]
        factors = (1.0,) if len(powers) > 1 else (1.0, 2.0, 5.0)
        for power in range(first, last + 1, every):
            yield from (value for factor in factors if self.least <= (value := factor * 10.0**power) <= self.most)


def legend(entries: Sequence[tuple[str, str]], left: int, y: float, width: int) -> tuple[str, int]:
    """Return marks with their names, begun as `left` and broken at `width`, and how many lines they take.

    An entry is an element's begin at the origin, and its name.
    """
    parts, x, line = list[str](), float(left), 0
    for begun, name in entries:
        needed = 22 + 6.4 * len(name)
        if x > left and x + needed > width:
            x, line = float(left), line + 1
        parts.append(
            f'<g transform="translate({x + 5:.0f} {y + 16 * line:.0f})">{begun}/>'
            f'<text x="9" y="4">{escape(name)}</text></g>'
        )
        x += needed
    return "\n".join(parts), line + 1 if entries else 0
