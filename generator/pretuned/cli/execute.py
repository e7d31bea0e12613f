"""`pretuned check --execute` and `--sanitize`: every configuration, for real, on the host device."""

from __future__ import annotations

import json
import math
import time
from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import Final

from pretuned.api.projects import specs_of
from pretuned.cli.chosen import chosen_problems
from pretuned.cli.progress import progress_line
from pretuned.cli.project import console, project_of
from pretuned.config import read_settings
from pretuned.errors import ExitCode, counted
from pretuned.report.execution import execution_json, finding_json, finding_lines, notes
from pretuned.report.text import columns
from pretuned.spec.model import KernelSpec
from pretuned.tune.execute import ExecutionProgress, execute
from pretuned.tune.findings import ExecutionReport
from pretuned.tune.modes import PLAIN, SANITIZERS

BUDGET_S: Final = 50.0  # where none is given
STEP_S: Final = 60.0  # budgets are suggested in minutes
MARGIN: Final = 1.3  # times what the rest seems to take


def run(options: Namespace) -> ExitCode:
    """Execute configurations, print what is wrong with them, then what was done; the status is SUCCESS or FOUND."""
    begun_s = time.perf_counter()
    budget_s = BUDGET_S if options.budget is None else options.budget
    project, settings = project_of(options), read_settings()
    specs = specs_of(project, options.kernel)
    chosen = chosen_problems(options.at, specs) if options.at else None
    if chosen is not None:
        specs = {name: spec for name, spec in specs.items() if name in chosen}
    modes = (*([PLAIN] if options.execute else []), *(SANITIZERS if options.sanitize else []))
    with progress_line(quiet=options.quiet or settings.progress != "auto") as line:

        def listen(progress: ExecutionProgress) -> None:
            if line is not None:
                text = f"{progress.kernel}, {progress.mode}: {progress.problem or 'compiling'}"
                line.show(text, progress.done, progress.configurations)

        reports = list(
            execute(
                specs,
                modes,
                cache_folder=settings.cache,
                sample=options.sample,
                chosen=chosen,
                budget_s=None if budget_s == math.inf else budget_s - (time.perf_counter() - begun_s),
                listen=listen,
            )
        )
    findings = [finding for report in reports for finding in report.findings]
    if options.json:
        data = {"executed": list(map(execution_json, reports)), "findings": list(map(finding_json, findings))}
        print(json.dumps(data, indent=2))
    else:
        for report in reports:
            _print(report, specs[report.kernel])
        print("\n".join(columns(list(_table(reports)), frozenset({2, 3, 4, 5}))))
        console.info(_summary(reports, time.perf_counter() - begun_s))
    return ExitCode.FOUND if findings else ExitCode.SUCCESS


def _print(report: ExecutionReport, spec: KernelSpec) -> None:
    for text in finding_lines(report, spec):
        print(text)
    if report.refused is not None:
        console.info(f"{report.kernel}, {report.mode}: not executed: {report.refused}")
        return
    done = f"{counted(report.executions, 'execution')}, {counted(len(report.findings), 'finding')}"
    if report.cut:
        problem, configuration = report.cut[0]
        what = f"{configuration} at {problem}" if str(configuration) else str(problem)
        done += f"; when the time was over, {counted(len(report.cut), 'execution')} cut off: {what}"
        done += "; ..." if len(report.cut) > 1 else ""
    console.info(f"{report.kernel}, {report.mode}: {done}")
    for note, remedy in notes(report):
        console.warning(note, place=f"{report.kernel}, {report.mode}", remedy=remedy)


def _table(reports: Iterable[ExecutionReport]) -> Iterable[tuple[str, ...]]:
    yield "kernel", "mode", "configurations", "executions", "seconds", "findings"
    for report in reports:
        done = (f"{report.configurations} of {report.total}", str(report.executions), f"{report.execute_s:.1f}")
        yield report.kernel, report.mode, *done, "GPU only" if report.refused else str(len(report.findings))


def _summary(reports: Sequence[ExecutionReport], seconds: float) -> str:
    """Return what was done in all, and what it takes to do the rest."""
    done, left = (sum(report.configurations for report in reports), sum(report.left for report in reports))
    total, sizes = sum(report.total for report in reports), max((report.sizes for report in reports), default=0)
    said = f"executed {done} of {counted(total, 'configuration')} at {counted(sizes, 'size')} in {seconds:.0f} s"
    if not left:
        unfinished = any(report.unfinished for report in reports)
        return f"{said}; `--budget none` executes them at further sizes" if unfinished and done else said
    wanted_s = MARGIN * seconds * (done + left) / max(1, done)
    return f"{said}; `--budget {STEP_S * -(-wanted_s // STEP_S):.0f}` executes the rest"
