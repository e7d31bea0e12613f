"""Share of the optimum against seconds of tuning, as a plot and a table of what `benchmarks/pareto.py --write` wrote.

The plot is inline SVG without scripts, in the page's own colours. Shapes tell the ways apart without colours, each
marker has its figures as a title, and the table below has all of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from pretuned.report.page.drawing import COLOURS, SHAPES, Drawn, Frame, Plane, circle, closed, legend

RESULT: Final = Path(__file__).parents[2] / "benchmarks" / "results" / "pareto_hochgraf.json"
FRAME: Final = Frame(width=640, height=310, left=52, right=12, top=14)
HEADING: Final = "Share of the optimum against seconds of tuning"
COLUMNS: Final = {
    "way": "way",
    "asked": "asked for",
    "seconds": "seconds",
    "share": "share",
    "worst_seed": "worst seed",
    "worst_input": "worst input",
    "inputs": "inputs reached",
}
FORMATS: Final = dict.fromkeys(COLUMNS, "{}") | {
    "seconds": "{:.1f}",
    "inputs": "{:g}",
    **dict.fromkeys(("share", "worst_seed", "worst_input"), "{:.4f}"),
}

Point = Mapping[str, Any]


def front() -> str:
    """Return the plot and the table, as HTML in Markdown."""
    data = json.loads(RESULT.read_text(encoding="utf-8"))
    points: list[Point] = data["points"]
    return (
        f'<figure class="kernel-plot">\n{svg(points)}\n'
        f"<figcaption>Hochgraf's GEMM, 106 configurations at 64 inputs, times recorded on an H100, virtual seconds: "
        f"<code>{escape(data['command'])}</code></figcaption>\n"
        f"<details><summary>All {len(points)} points in figures</summary>\n{table(points)}\n</details>\n</figure>\n"
    )


def svg(points: Sequence[Point]) -> str:
    """Return the plot: seconds on a logarithmic axis, a line for each way."""
    ways = list(dict.fromkeys(point["way"] for point in points))
    plane = Plane.around([point["seconds"] for point in points], [point["share"] for point in points], FRAME)
    parts = [plane.axes("seconds of tuning (virtual)", lambda value: f"{value:.2f}")]
    shapes: list[Drawn] = [circle, *SHAPES]
    entries = []
    for way, shape, colour in zip(ways, shapes, COLOURS, strict=False):
        own = sorted((point for point in points if point["way"] == way), key=lambda point: point["seconds"])
        places = [(plane.x(point["seconds"]), plane.y(point["share"])) for point in own]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        marks = (closed(f'{shape(*at)} fill="{colour}"', _said(point)) for at, point in zip(places, own, strict=True))
        parts.append("\n".join(marks))
        entries.append((f'{shape(0, 0)} fill="{colour}"', way))
    parts.append(legend(entries, FRAME.left, FRAME.height + 12, FRAME.width - FRAME.right)[0])
    described = f"{HEADING}, by {', '.join(ways)}. The table below has all figures."
    return (
        f'<svg viewBox="0 0 {FRAME.width} {FRAME.height + 26}" role="img" font-size="12" fill="currentColor" '
        f'xmlns="http://www.w3.org/2000/svg">\n<title>{HEADING}</title>\n<desc>{escape(described)}</desc>\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


def _said(point: Point) -> str:
    return f"{point['way']}, {point['asked']}: {point['share']:.4f} after {point['seconds']:.1f} s"


def table(points: Sequence[Point]) -> str:
    """Return all figures."""
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{escape(FORMATS[key].format(point[key]))}</td>" for key in COLUMNS) + "</tr>"
        for point in points
    )
    heads = "".join(f"<th>{name}</th>" for name in COLUMNS.values())
    return (
        f'<div class="table-wrapper"><table class="docutils"><thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n'
        "</tbody></table></div>"
    )
