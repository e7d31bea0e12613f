"""`pretuned check --execute` and `--sanitize`: every configuration, for real, on the host device."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterable

from pretuned.cli.project import console, project_of, specs_of
from pretuned.config import read_settings
from pretuned.errors import ExitCode, counted
from pretuned.outcome import detail, kind
from pretuned.remedies import remedy
from pretuned.report.text import columns
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import describe
from pretuned.tune.execute import PLAIN, SANITIZERS, ExecutionReport, Finding, execute


def run(options: Namespace) -> ExitCode:
    """Execute configurations, print what is wrong with them, then what was done; the status is SUCCESS or FOUND."""
    project, settings = project_of(options), read_settings()
    specs = specs_of(project, options.kernel)
    modes = (*([PLAIN] if options.execute else []), *(SANITIZERS if options.sanitize else []))
    reports = []
    for report in execute(specs, modes, cache_folder=settings.cache, sample=options.sample):
        reports.append(report)
        if not options.json:
            _print(report, specs[report.kernel])
    findings = [finding for report in reports for finding in report.findings]
    if options.json:
        print(json.dumps({"executed": [_json(report) for report in reports], "findings": _listed(findings)}, indent=2))
    else:
        print("\n".join(columns(list(_table(reports)), frozenset({2, 3, 4, 5, 6}))))
    return ExitCode.FOUND if findings else ExitCode.SUCCESS


def _print(report: ExecutionReport, spec: KernelSpec) -> None:
    advised = {""}  # each remedy once
    for finding in report.findings:
        problem = describe(finding.specialisation) if finding.problem is None else str(finding.problem)
        at = f" at {problem}" if problem else ""
        print(f"{finding.kernel}{at}: {finding.configuration}\n  {finding.mode}: {_said(finding)}")
        if (advice := remedy(finding.failure, spec)) not in advised:
            advised.add(advice)
            print(f"  {advice}")
    if report.refused is not None:
        console.info(f"{report.kernel}: not executed: {report.refused}")
    else:
        done = f"{counted(report.executions, 'execution')}, {counted(len(report.findings), 'finding')}"
        console.info(f"{report.kernel}, {report.mode}: {done}")
        if report.legal_nowhere:
            skipped = f"{counted(report.legal_nowhere, 'configuration')} not executed: legal at no size that was tried"
            console.warning(skipped, place=f"{report.kernel}, {report.mode}", remedy="add sizes to the spec's dims")


def _said(finding: Finding) -> str:
    return f"{kind(finding.failure)}: {detail(finding.failure)}"


def _table(reports: Iterable[ExecutionReport]) -> Iterable[tuple[str, ...]]:
    yield "kernel", "way", "configurations", "executions", "compiling s", "executing s", "findings"
    for report in reports:
        done = (
            str(report.configurations),
            str(report.executions),
            f"{report.compile_s:.1f}",
            f"{report.execute_s:.1f}",
        )
        yield report.kernel, report.mode, *done, "GPU only" if report.refused else str(len(report.findings))


def _json(report: ExecutionReport) -> dict[str, object]:
    return {
        "kernel": report.kernel,
        "way": report.mode,
        "configurations": report.configurations,
        "executions": report.executions,
        "legal nowhere": report.legal_nowhere,
        "seconds": {"compiling": round(report.compile_s, 3), "executing": round(report.execute_s, 3)},
        "refused": report.refused,
    }


def _listed(findings: Iterable[Finding]) -> list[dict[str, object]]:
    return [
        {
            "kernel": finding.kernel,
            "way": finding.mode,
            "specialisation": dict(finding.specialisation),
            "problem": None if finding.problem is None else dict(finding.problem.dims),
            "implementation": finding.configuration.implementation,
            "configuration": dict(finding.configuration.values),
            "outcome": kind(finding.failure),
            "detail": detail(finding.failure),
        }
        for finding in findings
    ]
