"""Plots and tables of the bundled kernels beside their peers, as HTML, from `benchmarks/results/kernels_*.json`.

A plot is inline SVG without scripts. Text and axes have the page's colour, and the markers' colours keep their contrast
on light and dark pages. Shapes tell the contestants apart without colours, and what is filled tells tuned sizes from
others. Each marker has its figures as a title; the table below a plot has all of them, for those who do not see it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from figures import (
    OURS,
    TUNED,
    Measured,
    ceiling_us,
    geomean,
    is_right,
    kind,
    peers_of,
    ratio,
    remark,
    specialisation,
    title,
)
from pretuned.report.page.drawing import COLOURS, SHAPES, Drawn, circle, closed, short, step

RESULTS: Final = Path(__file__).parents[2] / "benchmarks" / "results"
WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 44
MOST = 1.4  # times the ceiling; what is above it, out of L2, stands at the edge
HEADLINES: Final = {
    "copy": "share of a copy of as many bytes",
    "read": "share of reading as many bytes",
    "flops": "TFLOP/s",
}


@dataclass(frozen=True, slots=True)
class Run:
    """A file of results: what it was measured with, and the measurements."""

    provenance: Mapping[str, Any]
    measurements: Sequence[Measured]

    @property
    def origin(self) -> str:
        """Return the device, the versions, the date and the command, in a line."""
        of = self.provenance
        peers = ", ".join(f"{name} {of[key]}" for key, name in LIBRARIES.items() if key in of)
        return f"{of['device']}, driver {of['driver']}, {peers}, {of['date']}: <code>{escape(of['command'])}</code>"


LIBRARIES: Final = {
    "torch": "PyTorch",
    "triton": "Triton",
    "cupy-cuda13x": "CuPy",
    "cupy-cuda12x": "CuPy",
    "liger-kernel": "Liger",
}


def runs(folder: Path = RESULTS) -> dict[Path, Run]:
    """Return the results that there are, by file."""
    found = {}
    for file in sorted(folder.glob("kernels_*.json")):
        data = json.loads(file.read_text(encoding="utf-8"))
        found[file] = Run(data["provenance"], data["measurements"])
    return found


def html(kernel: str, run: Run, only: Sequence[str] = ()) -> str:
    """Return a figure of one kernel for each of its specialisations, or for those of `only`; empty without data."""
    found = [one for one in run.measurements if one["kernel"] == kernel and OURS in one["us"]]
    wanted = only or list(dict.fromkeys(map(specialisation, found)))[:2]
    parts = [_figure(kernel, run, name, [o for o in found if specialisation(o) == name]) for name in wanted]
    return "\n".join(part for part in parts if part)


def _figure(kernel: str, run: Run, name: str, found: Sequence[Measured]) -> str:
    if not found:
        return ""
    device = run.provenance["device"]
    heading = f"{kernel}{f', {name}' if name else ''}, on an {device}"
    return (
        f'<figure class="kernel-plot">\n{svg(heading, found)}\n'
        f"<figcaption>{escape(heading)}. Filled: sizes that were tuned; hollow: others, mostly ragged or misaligned. "
        f"Device time, with cold caches. {run.origin}</figcaption>\n"
        f"{summary(found)}\n<details><summary>All {len(found)} problems in figures</summary>\n"
        f"{table(found)}\n</details>\n</figure>"
    )


@dataclass(frozen=True, slots=True)
class Scales:
    """Where values stand in a plot: work on a logarithmic axis, speed on a linear one."""

    least: float
    most: float
    top: float

    def x(self, value: float) -> float:
        """Return the place of so much work."""
        share = math.log(value / self.least) / max(math.log(self.most / self.least), 1e-9)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Return the place of a speed."""
        return HEIGHT - BOTTOM - min(value / self.top, 1.0) * (HEIGHT - TOP - BOTTOM)


def work(one: Measured) -> float:
    """Return what the horizontal axis shows: bytes, or operations where those are the limit."""
    return float(one["flops"] if one["bound"] == "flops" else one["bytes"])


def speed(one: Measured, name: str) -> float | None:
    """Return what the vertical axis shows: a share of the ceiling, or TFLOP/s; None without a right result."""
    if not is_right(one, name):
        return None
    if one["bound"] == "flops":
        return float(one["flops"] / one["us"][name] * 1e-6)
    ceiling = ceiling_us(one)
    return None if ceiling is None else float(ceiling / one["us"][name])


def svg(heading: str, found: Sequence[Measured]) -> str:
    """Return the plot: the peers' markers first, ours above them."""
    names = [*peers_of(found), OURS]
    points = [(one, name, value) for name in names for one in found if (value := speed(one, name)) is not None]
    flops = found[0]["bound"] == "flops"
    highest = max((value for _, _, value in points), default=1.0)
    top = 1.05 * (highest if flops else min(max(highest, 1.0), MOST))
    scales = Scales(min(map(work, found)) / 1.3, max(map(work, found)) * 1.3, top)
    marks = "\n".join(_mark(scales, one, name, value, names) for one, name, value in points)
    axes = f"{HEADLINES[found[0]['bound']]} over {'operations' if flops else 'bytes'}"
    described = f"{axes}, for {', '.join(reversed(names))}."
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 22}" role="img" style="width:100%;max-width:{WIDTH}px;height:auto" '
        f'font-size="12" fill="currentColor" xmlns="http://www.w3.org/2000/svg">\n'
        f"<title>{escape(heading)}</title>\n<desc>{escape(described)} The table below has all figures.</desc>\n"
        f"{_axes(scales, found[0]['bound'])}\n{marks}\n{_legend(names)}\n</svg>"
    )


def _colour(name: str, names: Sequence[str]) -> str:
    return "currentColor" if name == OURS else COLOURS[names.index(name) % len(COLOURS)]


def _shape(name: str, names: Sequence[str]) -> Drawn:
    return circle if name == OURS else SHAPES[names.index(name) % len(SHAPES)]


def _mark(scales: Scales, one: Measured, name: str, value: float, names: Sequence[str]) -> str:
    colour = _colour(name, names)
    fill = colour if one["kind"] == TUNED else "none"
    text = f"{name}: {title(one)}, {kind(one)}: {one['us'][name]:.2f} us, {value:.3g}"
    shape = _shape(name, names)(scales.x(work(one)), scales.y(value))
    paint = f'fill="{fill}" stroke="{colour}" stroke-width="1.4"'
    return closed(f"{shape} {paint}", text)


def _legend(names: Sequence[str]) -> str:
    parts, x = [], LEFT
    for name in (OURS, *(name for name in names if name != OURS)):
        colour, shape = _colour(name, names), _shape(name, names)(x, HEIGHT + 12)
        parts.append(
            f'{shape} fill="{colour}" stroke="{colour}"/><text x="{x + 10}" y="{HEIGHT + 16}">{escape(name)}</text>'
        )
        x += 26 + 7 * len(name)
    return "\n".join(parts)


def _axes(scales: Scales, bound: str) -> str:
    lines = ['<g stroke="currentColor" stroke-opacity="0.25">']
    texts = []
    distance = step(scales.top)
    for i in range(int(scales.top / distance) + 1):
        y = scales.y(i * distance)
        lines.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        texts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{i * distance:.3g}</text>')
    for power in range(math.ceil(math.log10(scales.least)), math.floor(math.log10(scales.most)) + 1):
        x = scales.x(10.0**power)
        lines.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        texts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{short(10.0**power)}</text>')
    unit = "operations" if bound == "flops" else "bytes read and written"
    texts.append(f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">{unit}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    texts.append(
        f'<text transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle">{HEADLINES[bound]}</text>'
    )
    return "\n".join([*lines, "</g>", *texts])


def summary(found: Sequence[Measured]) -> str:
    """Return the table of the peers: our time by theirs, over tuned sizes and over others."""
    rows = [("our time by that of", "tuned sizes", "others", "worst", "at")]
    for peer in peers_of(found):
        ratios = [(by, one) for one in found if (by := ratio(one, peer)) is not None]
        if ratios:
            parts = [[by for by, one in ratios if (one["kind"] == TUNED) == tuned] for tuned in (True, False)]
            worst, at = max(ratios, key=lambda pair: pair[0])
            means = (f"{geomean(part):.3f}" if part else "" for part in parts)
            rows.append((peer, *means, f"{worst:.3f}", f"{title(at)}, {kind(at)}"))
    return _table(rows)


def table(found: Sequence[Measured]) -> str:
    """Return the table of all problems: our time and what it reaches, and the peers' times."""
    peers = peers_of(found)
    last = "TFLOP/s" if found[0]["bound"] == "flops" else "of the ceiling"
    rows = [("problem", "sizes", "ours, us", last, *(f"{peer}, us" for peer in peers))]
    for one in sorted(found, key=work):
        reached = speed(one, OURS)
        ours = f"{one['us'][OURS]:.2f}", f"{reached:.3g}" if reached is not None else ""
        rows.append((title(one), kind(one), *ours, *(_time(one, peer) for peer in peers)))
    return _table(rows)


def _time(one: Measured, peer: str) -> str:
    if peer not in one["us"]:
        return "failed" if peer in one["errors"] else ""
    word = remark(one, peer)
    return f"{one['us'][peer]:.2f}{f' ({word})' if word else ''}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    def lines() -> Iterator[str]:
        yield '<div class="table-wrapper"><table class="docutils"><thead><tr>'
        yield "".join(f"<th>{escape(cell)}</th>" for cell in rows[0]) + "</tr></thead><tbody>"
        for row in rows[1:]:
            yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        yield "</tbody></table></div>"

    return "\n".join(lines())
