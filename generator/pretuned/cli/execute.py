"""`pretuned check --execute` and `--sanitize`: every configuration, for real, on the host device."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterable

from pretuned.cli.project import console, project_of, specs_of
from pretuned.config import read_settings
from pretuned.errors import ExitCode
from pretuned.outcome import detail, kind
from pretuned.report.text import columns
from pretuned.spec.space import describe
from pretuned.tune.execute import PLAIN, SANITIZERS, Finding, Tally, exercise


def run(options: Namespace) -> ExitCode:
    """Execute configurations, print what is wrong with them, then what was done; the status is SUCCESS or FOUND."""
    project, settings = project_of(options), read_settings()
    specs = specs_of(project, options.kernel)
    ways = (*([PLAIN] if options.execute else []), *(SANITIZERS if options.sanitize else []))
    tallies = []
    for tally in exercise(specs, ways, cache_folder=settings.cache, sample=options.sample):
        tallies.append(tally)
        if not options.json:
            _tell(tally)
    findings = [finding for tally in tallies for finding in tally.findings]
    if options.json:
        print(json.dumps({"executed": [_json(tally) for tally in tallies], "findings": _listed(findings)}, indent=2))
    else:
        print("\n".join(columns(list(_table(tallies)), frozenset({2, 3, 4, 5, 6}))))
    return ExitCode.FOUND if findings else ExitCode.SUCCESS


def _tell(tally: Tally) -> None:
    for finding in tally.findings:
        problem = f"{finding.problem}" if finding.problem is not None else describe(finding.specialisation)
        print(f"{finding.kernel} at {problem}: {finding.configuration}\n  {finding.way}: {_said(finding)}")
    if tally.refused is not None:
        console.info(f"{tally.kernel}: not executed: {tally.refused}")
    else:
        skipped = f", {tally.legal_nowhere} configurations legal at no size tried" if tally.legal_nowhere else ""
        console.info(
            f"{tally.kernel}, {tally.way}: {tally.executions} executions, {len(tally.findings)} findings{skipped}"
        )


def _said(finding: Finding) -> str:
    return f"{kind(finding.failure)}: {detail(finding.failure)}"


def _table(tallies: Iterable[Tally]) -> Iterable[tuple[str, ...]]:
    yield "kernel", "way", "configurations", "executions", "compiling s", "executing s", "findings"
    for tally in tallies:
        done = (str(tally.configurations), str(tally.executions), f"{tally.compile_s:.1f}", f"{tally.execute_s:.1f}")
        yield tally.kernel, tally.way, *done, "GPU only" if tally.refused else str(len(tally.findings))


def _json(tally: Tally) -> dict[str, object]:
    return {
        "kernel": tally.kernel,
        "way": tally.way,
        "configurations": tally.configurations,
        "executions": tally.executions,
        "legal nowhere": tally.legal_nowhere,
        "seconds": {"compiling": round(tally.compile_s, 3), "executing": round(tally.execute_s, 3)},
        "refused": tally.refused,
    }


def _listed(findings: Iterable[Finding]) -> list[dict[str, object]]:
    return [
        {
            "kernel": finding.kernel,
            "way": finding.way,
            "specialisation": dict(finding.specialisation),
            "problem": None if finding.problem is None else dict(finding.problem.dims),
            "implementation": finding.configuration.implementation,
            "configuration": dict(finding.configuration.values),
            "outcome": kind(finding.failure),
            "detail": detail(finding.failure),
        }
        for finding in findings
    ]
