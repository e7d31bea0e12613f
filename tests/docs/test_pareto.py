"""Share of the optimum against seconds: what the benchmark counts, and what the page plots of it."""

from __future__ import annotations

import json
import math
import re
from xml.etree import ElementTree as ET

import pareto
import pareto_plot as plotted

POINTS = json.loads(plotted.RESULT.read_text(encoding="utf-8"))["points"]


def test_every_point_is_a_marker_of_the_plot_and_a_row_of_the_table():
    root = ET.fromstring(plotted.svg(POINTS))
    name = "{http://www.w3.org/2000/svg}"
    titles = [title.text for title in root.iter(f"{name}title")][1:]
    assert sorted(titles) == sorted(
        f"{one['way']}, {one['asked']}: {one['share']:.4f} after {one['seconds']:.1f} s" for one in POINTS
    )
    assert plotted.table(POINTS).count("<tr>") == 1 + len(POINTS)
    x, y, width, height = map(float, root.attrib["viewBox"].split())
    for path in root.iter(f"{name}path"):
        for at_x, at_y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.attrib["d"]):
            assert x - 6 <= float(at_x) <= width + 6
            assert y - 6 <= float(at_y) <= height + 6


def test_the_table_and_the_plot_are_of_one_run():
    text = (plotted.RESULT.with_suffix(".txt")).read_text(encoding="utf-8")
    for one in POINTS:
        row = re.escape(f"{one['asked']}") + rf"\s+{one['seconds']:.1f}\s+{one['share']:.4f}\s"
        assert re.search(rf"^{re.escape(one['way'])}\s+{row}", text, re.MULTILINE), one


def test_more_draws_cost_more_seconds_and_find_better_ones():
    few, all_of_them = (pareto.by_draws(count, 7) for count in (2, 106))
    assert few[0] < all_of_them[0]
    means = [math.exp(sum(map(math.log, shares)) / len(shares)) for _, shares, _ in (few, all_of_them)]
    assert means[0] < means[1]
    assert means[1] > 0.97  # all candidates, of which noise may prefer another one than the best


def test_a_tuning_within_a_small_budget_settles_some_rows_and_is_counted_beside_the_draws():
    seconds, shares, settled = pareto.by_tuning("hybrid", 0.5, 7)
    assert 0.4 < seconds < 2.0
    assert 0 < settled < len(shares)
    assert all(0 < share <= 1 for share in shares)


def test_where_nothing_was_settled_the_nearest_row_counts_and_else_the_default():
    space = pareto.spaces.hochgraf()
    default = pareto.default_at(space.spec, space.problems[0])
    first, *_, last = space.problems
    assert pareto.ran(space, last, {}) == default
    listed = [
        one
        for name, found in space.spec.all_implementations.items()
        for one in pareto.combinations(name, found)
        if one != default
    ]
    legal = {pareto.legal(space.spec, last, one, pareto.FACTS): one for one in listed}
    assert pareto.ran(space, last, {first: legal[True]}) == legal[True]
    assert pareto.ran(space, last, {first: legal[False]}) == default
    assert pareto.ran(space, last, {first: legal[True], last: default}) == default
