"""What was measured as text: every problem, peers in sum, shares of ceilings, and which aims are met."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from figures import (
    ALIGNED,
    KINDS,
    OURS,
    RAGGED,
    TUNED,
    Measured,
    ceiling_us,
    fastest_us,
    geomean,
    is_right,
    kind,
    peers_of,
    ratio,
    remark,
    title,
)
from pretuned.report.text import columns

LARGE = 64_000_000  # bytes
BEHIND, WORST = 1.02, 1.15
SGEMM = 0.95


def problems(kernel: str, found: Sequence[Measured]) -> list[str]:
    """Return the table of a kernel: our time, its share of the ceiling, and the peers' times with ours by theirs."""
    peers = peers_of(found)
    head = (
        "problem",
        "sizes",
        "ours us",
        "of ceiling",
        *(word for peer in peers for word in (f"{peer} us", "ours/peer")),
        "ran",
    )
    rows = [head]
    for one in found:
        us, top = one["us"], ceiling_us(one)
        share = f"{top / us[OURS]:.3f}" if top and OURS in us else "-"
        cells = [title(one), kind(one), f"{us[OURS]:.2f}" if OURS in us else "-", share]
        for peer in peers:
            by = ratio(one, peer)
            cells += [f"{us[peer]:.2f}" if peer in us else "-", f"{by:.3f}" if by else "-"]
        rows.append((*cells, one.get("ran", "")))
    return [kernel, *columns(rows, frozenset(range(2, len(head) - 1))), *failures(found), *wrong(found)]


def failures(found: Iterable[Measured]) -> Iterator[str]:
    """Yield each error once, with where it was met first and how often."""
    met: dict[tuple[str, str], list[Measured]] = {}
    for one in found:
        for error in one["errors"].items():
            met.setdefault(error, []).append(one)
    for (name, text), cases in met.items():
        yield f"  FAILED at {len(cases)}, such as {title(cases[0])}, {kind(cases[0])}: {name}: {text}"


def wrong(found: Iterable[Measured]) -> Iterator[str]:
    """Yield who is farther from the result in float64 than the spec allows, and where the most."""
    met: dict[tuple[str, str], list[tuple[float, Measured]]] = {}
    for one in found:
        for name, off in one["off"].items():
            if word := remark(one, name):
                met.setdefault((word, name), []).append((off, one))
    for (word, name), pairs in met.items():
        off, at = max(pairs, key=lambda pair: pair[0])
        where = f"{title(at)}, {kind(at)}"
        yield f"  {word.upper()} at {len(pairs)}: {name} is off by {off:.3g} of the tolerance at {where}"


def summary(found: Sequence[Measured]) -> list[str]:
    """Return our time by each peer's, by kernel and kind of sizes."""
    head = ("kernel", "peer", "sizes", "problems", "geomean", "best", "worst", "over 1.02", "over 1.15", "worst at")
    rows = [head]
    for kernel, of_kernel in by_kernel(found):
        for peer in peers_of(of_kernel):
            for name in KINDS:
                ratios = [(by, one) for one in of_kernel if one["kind"] == name and (by := ratio(one, peer))]
                if ratios:
                    rows.append(line_of(kernel, peer, name, ratios))
    title_line = "our time over the peer's (below 1: ours is faster)"
    return [title_line, *columns(rows, frozenset(range(3, 9)))]


def line_of(kernel: str, peer: str, name: str, ratios: Sequence[tuple[float, Measured]]) -> tuple[str, ...]:
    only = [by for by, _ in ratios]
    worst, at = max(ratios, key=lambda pair: pair[0])
    counts = [f"{sum(by > limit for by in only)}" for limit in (BEHIND, WORST)]
    figures = [f"{len(only)}", f"{geomean(only):.3f}", f"{min(only):.3f}", f"{worst:.3f}", *counts]
    return (kernel, peer, name, *figures, f"{title(at)}{', misaligned' if at['shift'] else ''}")


def by_kernel(found: Sequence[Measured]) -> list[tuple[str, list[Measured]]]:
    names = dict.fromkeys(one["kernel"] for one in found)
    return [(name, [one for one in found if one["kernel"] == name]) for name in names]


# What is told apart where memory is the limit.
GROUPS: Mapping[str, Callable[[Measured], bool]] = {
    "aligned": lambda one: one["kind"] in {TUNED, ALIGNED} and not one["long"],
    "ragged": lambda one: one["kind"] == RAGGED and not one["shift"] and not one["long"],
    "misaligned": lambda one: bool(one["shift"]) and not one["long"],
    "long rows": lambda one: bool(one["long"]),
}


def large(found: Iterable[Measured]) -> list[tuple[float, Measured]]:
    """Return the shares of the ceiling at large sizes."""
    return [
        (top / one["us"][OURS], one)
        for one in found
        if one["bytes"] >= LARGE and OURS in one["us"] and (top := ceiling_us(one))
    ]


def shares(found: Sequence[Measured]) -> list[str]:
    """Return the shares of the measured ceiling at 64 MB and more."""
    head = ("kernel", "sizes", "problems", "geomean", "least", "aim", "below it", "least of the fastest", "least at")
    rows = [head]
    for kernel, of_kernel in by_kernel(found):
        for name, belongs in GROUPS.items():
            group = [(share, one) for share, one in large(of_kernel) if belongs(one)]
            if group:
                least, at = min(group, key=lambda pair: pair[0])
                below = sum(share < one["aim"] for share, one in group)
                mean = geomean([share for share, _ in group])
                strict = min(one_us / one["us"][OURS] for _, one in group if (one_us := fastest_us(one)))
                figures = (
                    f"{len(group)}",
                    f"{mean:.3f}",
                    f"{least:.3f}",
                    f"{at['aim']:.2f}",
                    f"{below}",
                    f"{strict:.3f}",
                )
                rows.append((kernel, name, *figures, title(at)))
    return [
        "share of the measured ceiling at 64 MB and more; the fastest may be a kernel that copies, not the driver",
        *columns(rows, frozenset(range(2, 8))),
    ]


def targets(found: Sequence[Measured]) -> list[str]:
    """Return which aims are met, with the figures."""
    lines = ["aims"]
    for kernel, of_kernel in by_kernel(found):
        bad = [one for one in of_kernel if OURS not in one["us"] or not is_right(one, OURS)]
        if bad:
            lines.append(f"MISSED: {kernel} fails or is wrong at {len(bad)}, such as {title(bad[0])}, {kind(bad[0])}")
        for peer in peers_of(of_kernel):
            pairs = [(by, one) for one in of_kernel if (by := ratio(one, peer))]
            if not pairs:
                continue
            mean, (worst, at) = geomean([by for by, _ in pairs]), max(pairs, key=lambda pair: pair[0])
            lines.append(
                f"{verdict(mean <= BEHIND and worst <= WORST)}: {kernel} beside {peer}: geomean {mean:.3f} over "
                f"{len(pairs)} problems, worst {worst:.3f} at {title(at)}, {kind(at)}"
            )
        for name, belongs in GROUPS.items():
            group = [(share / one["aim"], share, one) for share, one in large(of_kernel) if belongs(one)]
            if group:
                _, share, at = min(group, key=lambda three: three[0])
                met = verdict(share >= at["aim"])
                lines.append(f"{met}: {kernel}, {name}: {share:.3f} of the ceiling at {title(at)}, aim {at['aim']:.2f}")
    return [*lines, *sgemm(found)]


def sgemm(found: Sequence[Measured]) -> list[str]:
    """Return how the products stand beside cuBLAS: over tuned sizes, and at each ragged one."""
    lines = []
    for name in (TUNED, RAGGED):
        ratios = [
            by for one in found if one["kernel"] == "sgemm" and one["kind"] == name and (by := ratio(one, "torch"))
        ]
        if ratios and name == TUNED:
            share = 1 / geomean(ratios)
            lines.append(
                f"{verdict(share >= SGEMM)}: sgemm, {len(ratios)} tuned sizes: {share:.3f} of cuBLAS, aim {SGEMM}"
            )
        elif ratios:
            within = sum(by <= WORST for by in ratios)
            met = verdict(within == len(ratios))
            lines.append(f"{met}: sgemm within {WORST} of cuBLAS at {within} of {len(ratios)} ragged problems")
    return lines


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"
