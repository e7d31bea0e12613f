"""What tunings cost, by a device that is recorded: `python benchmarks/tuning_price.py [--seeds 3] [--out FOLDER]`.

The whole tuning runs, over recorded times, and seconds are counted instead of spent: of launches, verification,
references, and of 16 compile workers. Prints for each space the seconds by stage, the launches, and what share of the
optimum its winners have (geometric mean over rows): the mean over the seeds, and the worst. Each seed has other noise,
and has the search through a large space begin otherwise, which decides much of what it finds.

`--efforts` prints for each effort what it takes, that share, how much faster winners are than defaults, and after how
many calls the tuning is paid back; `--bundled` adds recorded bundled kernels, at their tuned sizes. `--unverified`
has candidates screened without being verified first, which shows what cheaper verification could save at most.

`--starts` prints how far the seconds lie apart, for searches that begin otherwise.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from pretuned.config import Place
from pretuned.record.cache import Cache
from pretuned.record.rows import Row
from pretuned.report.gains import Gains
from pretuned.report.text import columns
from pretuned.strategies.hybrid import Hybrid
from pretuned.tune.request import GPU_PROFILE, PROFILES, TuningDevice, TuningRequest
from pretuned.tune.spending import Spending
from pretuned.tune.tuner import Tuner
from pretuned.tune.workbench import Clock, Workbench
from pricing import spaces
from pricing.device import H100, PricedBinaries, PricedRunner, VirtualTime

HEAD = ("space", "seconds", "compilers", "screening", "verifying", "races", "launches", "share", "worst")


STARTS = ("space", "seconds", "least", "most", "share", "worst")
EFFORTS = ("space", "effort", "seconds", "share", "faster", "calls to pay back", "thorough is expected to add")


@dataclass(frozen=True, kw_only=True)
class Priced:
    """What one tuning took, and what it found: shares of the optimum, and the rows."""

    seconds: float
    stages: dict
    launches: int
    shares: tuple
    rows: tuple
    gains: Gains

    @property
    def share(self):
        return math.exp(statistics.fmean(map(math.log, self.shares)))


def tuned(space, seed, profile=GPU_PROFILE, *, budget_s=None, verified=True, **given):
    """Tune a space from nothing in virtual seconds, within a budget of so many."""
    time, spending = VirtualTime(), Spending()
    runner = PricedRunner(space, time, seed, verified=verified)
    with time.everywhere(), Cache(None) as cache:
        binaries = PricedBinaries(cache, spending, time, space.seconds_to_compile)
        bench = Workbench(
            runner=runner,
            device=TuningDevice(record=H100, driver="580", place=Place(), effort=profile),
            binaries=binaries,
            cache=cache,
            spending=spending,
            listen=lambda _event: None,
            clock=Clock(budget_s),
            **given,
        )
        with spending.whole():
            found = list(Tuner(bench).tune([TuningRequest(spec=space.spec, problems=space.problems)]))
    rows = tuple(one for one in found if isinstance(one, Row))
    gains = Gains.of(rows, spending)
    taken_us = [space.time_us(row.winner.configuration, row.problem) for row in rows]
    shares = tuple(space.best_us(row.problem) / time_us for row, time_us in zip(rows, taken_us, strict=True))
    return Priced(
        seconds=time.now_s,
        stages=dict(spending.seconds),
        launches=runner.launches,
        shares=shares,
        rows=rows,
        gains=gains,
    )


@contextmanager
def begun_by(seed):
    """Have searches draw their first configurations by another seed than the usual one."""
    with patch.dict(Hybrid.__init__.__kwdefaults__, seed=seed):
        yield


def line(space, runs):
    """The cells of a space, over its seeds."""

    def mean(*names):
        return f"{statistics.fmean(sum(run.stages.get(name, 0.0) for name in names) for run in runs):.1f}"

    return (
        space.name,
        f"{statistics.fmean(run.seconds for run in runs):.1f}",
        mean("waiting for compilers"),
        mean("screening"),
        mean("verifying", "checking"),
        mean("racing", "duelling"),
        f"{statistics.fmean(run.launches for run in runs):.0f}",
        f"{statistics.fmean(run.share for run in runs):.4f}",
        f"{min(run.share for run in runs):.4f}",
    )


def starts_line(space, runs):
    """The cells of a space, over searches that begin otherwise."""
    seconds, shares = [run.seconds for run in runs], [run.share for run in runs]
    times = (f"{one:.1f}" for one in (statistics.fmean(seconds), min(seconds), max(seconds)))
    return (space.name, *times, f"{statistics.fmean(shares):.4f}", f"{min(shares):.4f}")


def effort_line(space, effort, runs):
    """The cells of a space tuned with an effort, over its seeds."""
    calls = [run.gains.calls for run in runs if run.gains.calls]
    return (
        space.name,
        effort,
        f"{statistics.fmean(run.seconds for run in runs):.1f}",
        f"{statistics.fmean(run.share for run in runs):.4f}",
        f"{statistics.fmean(run.gains.faster for run in runs):.2f}x",
        f"{statistics.fmean(calls):,.0f}" if calls else "never",
        f"{statistics.fmean(run.gains.expected for run in runs):.2%}",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", nargs="*", default=[""], help="spaces whose names hold any of these")
    parser.add_argument("--efforts", nargs="*", choices=PROFILES, help="a table of these efforts")
    parser.add_argument("--bundled", action="store_true")
    parser.add_argument("--unverified", action="store_true")
    parser.add_argument("--starts", action="store_true", help="a table of the least and most seconds")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    head = STARTS if options.starts else EFFORTS if options.efforts else HEAD
    table = [head]
    with tempfile.TemporaryDirectory() as folder:
        wanted = [
            *spaces.large(Path(folder)),
            spaces.hochgraf(),
            *(spaces.bundled(Path(folder)) if options.bundled else []),
        ]
        for space in (one for one in wanted if any(part in one.name for part in options.only)):
            seeds = range(options.first, options.first + options.seeds)
            for effort in options.efforts or ["default"]:
                runs = []
                for seed in seeds:
                    with begun_by(seed):
                        runs.append(tuned(space, seed, PROFILES[effort], verified=not options.unverified))
                if options.starts:
                    table.append(starts_line(space, runs))
                else:
                    table.append(effort_line(space, effort, runs) if options.efforts else line(space, runs))
                print(*columns([head, table[-1]], frozenset(range(2, 9))), sep="\n", flush=True)
    if options.out:
        made = [f"python {' '.join(sys.argv)}", f"virtual seconds, {options.seeds} seeds from {options.first} on"]
        text = "\n".join([*made, *columns(table, frozenset(range(2 if options.efforts else 1, 9)))]) + "\n"
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
