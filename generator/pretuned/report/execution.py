"""Executions on the host device in words and as JSON: what was wrong, equal things once, and what was left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pretuned.errors import counted
from pretuned.remedies import remedy
from pretuned.spec.space import Configuration, Pairs, Problem, describe
from pretuned.tune.modes import FAR_S

if TYPE_CHECKING:
    from pretuned.spec.model import KernelSpec
    from pretuned.tune.findings import ExecutionReport, Finding

SHOWN: Final = 3  # of problems, and of configurations
_NUMBERS: Final = re.compile(r"-?\b(?:\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?|nan|inf)\b")
_LISTS: Final = re.compile(r"[\s#,.()\[\]+-]+")  # of numbers, whatever their length


def finding_lines(report: ExecutionReport, spec: KernelSpec) -> Iterator[str]:
    """Yield two lines for each kind of thing that is wrong: where, of which configurations; and what.

    Findings are of one kind where their texts differ in numbers only. A likely cause follows, each once.
    """
    advised = {""}
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in report.findings:
        alike.setdefault((finding.outcome, _kind(finding.detail)), []).append(finding)
    for (outcome, _), found in alike.items():
        where = _where(report, found, report.uncompiled if outcome == "compile error" else 0)
        yield f"{where}\n  {report.mode}: {outcome}: {found[0].detail}"
        if further := [finding for finding in found if finding.detail != found[0].detail]:
            count, places = counted(len(further), "finding"), _in_brief([finding.problem for finding in further])
            yield f"  {count} like this, with other numbers{places} (`--json` lists all)"
        advices = (remedy(finding.failure, spec) for finding in found if finding.failure is not None)
        advice = next(filter(None, advices), "")
        if advice not in advised:
            advised.add(advice)
            yield f"  {advice}"
    if report.uncompiled and report.findings:
        compiled = report.total - report.uncompiled - len(report.nowhere)
        yield f"  the first {compiled} fail alike, so the other {report.uncompiled} were not compiled"


def _kind(detail: str) -> str:
    return _LISTS.sub("#", _NUMBERS.sub("#", detail))


def _in_brief(problems: Iterable[Problem | None]) -> str:
    distinct = list(dict.fromkeys(str(problem) for problem in problems if problem is not None))
    return f", at {'; '.join(distinct[:SHOWN])}{'; ...' if len(distinct) > SHOWN else ''}" if any(distinct) else ""


def _where(report: ExecutionReport, found: Sequence[Finding], uncompiled: int) -> str:
    """Return `kernel at PROBLEM: CONFIGURATION`, or how many there are, in brief."""
    problems = list(dict.fromkeys(f.problem for f in found if f.problem is not None))
    keys = _configurations(found)
    if problems:
        further = f" and {counted(len(problems) - 1, 'other problem')}" if len(problems) > 1 else ""
        at = f" at {problems[0]}{further}" if str(problems[0]) else ""
    else:
        only = found[0].specialisation if len(keys) + uncompiled <= 1 else ()
        at = f" at {describe(only)}" if only else ""
    if len(keys) + uncompiled <= 1:
        return f"{report.kernel}{at}" + (f": {keys[0][1]}" if keys and str(keys[0][1]) else "")
    shown = "; ".join(dict.fromkeys(str(configuration) for _, configuration in keys[:SHOWN]))
    more = "; ..." if len(keys) + uncompiled > SHOWN else ""
    return f"{report.kernel}{at}: {counted(len(keys) + uncompiled, 'configuration')}: {shown}{more}"


def _configurations(found: Iterable[Finding]) -> list[tuple[Pairs, Configuration]]:
    return list(dict.fromkeys((f.specialisation, f.configuration) for f in found if f.configuration is not None))


def notes(report: ExecutionReport) -> Iterator[tuple[str, str]]:
    """Yield what was left out and why, with what to do about it, or nothing."""
    reasons: dict[str, list[tuple[Pairs, Configuration]]] = {}
    for specialisation, configuration, reason in report.nowhere:
        reasons.setdefault(reason, []).append((specialisation, configuration))
    for reason, keys in reasons.items():
        yield f"{_listed(keys)} not executed: {reason}", _other_sizes(report)
    if report.configurations and report.gpu_only:
        text = next(iter(report.gpu_only.values()))
        yield f"{_listed(list(report.gpu_only))} not executed: {text}", ""
    if report.slow:
        yield f"{counted(report.slow, 'configuration')} not finished within {FAR_S:g} s over far arrays", ""
    for note in report.notes:
        yield note, ""


def _other_sizes(report: ExecutionReport) -> str:
    return "choose another size with `--at`" if report.by_hand else "choose a size with `--at NAME=SIZE,...`"


def _listed(keys: Sequence[tuple[Pairs, Configuration]]) -> str:
    """Return `2 configurations (block=128 with T=float16; block=256 with T=float16)`."""
    named = [f"{c} with {describe(s)}" if s else str(c) for s, c in keys[:SHOWN]]
    return f"{counted(len(keys), 'configuration')} ({'; '.join(named)}{'; ...' if len(keys) > SHOWN else ''})"


def execution_json(report: ExecutionReport) -> dict[str, object]:
    """Return a report as plain data, without its findings."""
    return {
        "kernel": report.kernel,
        "mode": report.mode,
        "configurations": report.configurations,
        "of": report.total,
        "executions": report.executions,
        "not reached": report.left,
        "not compiled": report.uncompiled,
        "legal nowhere": [
            {"specialisation": dict(s), "configuration": dict(c.values), "reason": reason}
            for s, c, reason in report.nowhere
        ],
        "seconds": round(report.execute_s, 3),
        "refused": report.refused,
        "notes": report.notes,
    }


def finding_json(finding: Finding) -> dict[str, object]:
    """Return a finding as plain data."""
    configuration = finding.configuration
    return {
        "kernel": finding.kernel,
        "mode": finding.mode,
        "specialisation": dict(finding.specialisation),
        "problem": None if finding.problem is None else dict(finding.problem.dims),
        "implementation": None if configuration is None else configuration.implementation,
        "configuration": None if configuration is None else dict(configuration.values),
        "outcome": finding.outcome,
        "detail": finding.detail,
    }
