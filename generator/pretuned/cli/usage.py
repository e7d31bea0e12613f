"""`pretuned tune --from-usage`: of what has to be tuned, what programs have called, the most called first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pretuned.cli.project import UsageError, console
from pretuned.config import Project
from pretuned.errors import counted
from pretuned.record import usage
from pretuned.record.usage import Called, Gap, Unread
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Problem
from pretuned.tune.request import TuningRequest

_LISTED: Final = 8  # lines and sizes that are listed one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The calls of a project's kernels: by kernel and measured problem, and line by line for each kernel."""

    problems: Mapping[tuple[str, Problem], int]
    lines: Mapping[str, Sequence[Called]]


def read(path: Path, project: Project, specs: Mapping[str, KernelSpec]) -> Usage:
    """Return what was called of `specs`, and report what was passed over; raises UsageError where nothing is left."""
    packages = [project.import_name(module.module) for module in project.modules]
    answers = {name: usage.Answers(spec) for name, spec in specs.items()}
    problems: dict[tuple[str, Problem], int] = {}
    lines: dict[str, list[Called]] = {}
    unread: list[Unread] = []
    unknown: list[int] = []
    try:
        for called in usage.read(path):
            if isinstance(called, Unread):
                unread.append(called)
            elif called.kernel in specs and any(_is_same(package, called.package) for package in packages):
                problem = answers[called.kernel].of(called)
                if problem is None:
                    unknown.append(called.line)
                    continue
                key = called.kernel, problem
                problems[key] = problems.get(key, 0) + called.calls
                lines.setdefault(called.kernel, []).append(called)
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read: {error.strerror}") from None
    _report_passed_over(path, unread, unknown)
    if not problems:
        listed = ", ".join(specs)
        raise UsageError(
            f"run a program with PRETUNED_USAGE={path.name}, which adds its calls when it ends: '{path}' has no call "
            f"of {listed} in {' or '.join(packages)}"
        )
    return Usage(problems=problems, lines=lines)


def _is_same(package: str, called: str) -> bool:
    """Whether a package is the one that was called; a project's path may begin with folders that no import names."""
    return package == called or package.endswith(f".{called}")


def _report_passed_over(path: Path, unread: Sequence[Unread], unknown: Sequence[int]) -> None:
    for line in unread[:_LISTED]:
        console.info(f"{path.name}: passed over {line}")
    if len(unread) > _LISTED:
        console.info(f"{path.name}: passed over {counted(len(unread) - _LISTED, 'more line')} that cannot be read")
    if unknown:
        listed = ", ".join(map(str, unknown[:_LISTED])) + (", ..." if len(unknown) > _LISTED else "")
        console.info(
            f"{path.name}: passed over {counted(len(unknown), 'line')} for which the specs have no problem ({listed})"
        )


def narrowed(requests: Sequence[TuningRequest], called: Usage) -> list[TuningRequest]:
    """Return of `requests` what was called: the most called specialisation first, and its most called problem."""
    found: list[tuple[int, TuningRequest]] = []
    for request in requests:
        name = request.spec.name
        for specialisation in dict.fromkeys(problem.specialisation for problem in request.problems):
            calls = {
                problem: called.problems[name, problem]
                for problem in request.problems
                if problem.specialisation == specialisation and (name, problem) in called.problems
            }
            if calls:
                problems = tuple(sorted(calls, key=lambda problem: (-calls[problem], problem.dims)))
                found.append((sum(calls.values()), replace(request, problems=problems)))
    return [request for _, request in sorted(found, key=lambda one: -one[0])]


def report_gaps(called: Usage, specs: Mapping[str, KernelSpec]) -> None:
    """Report which sizes were called far from all measured ones, and what to write into the spec."""
    for name, lines in called.lines.items():
        for gap in usage.gaps(specs[name], lines):
            for line in _gap(specs[name], gap):
                console.info(line)


def _gap(spec: KernelSpec, gap: Gap) -> Iterator[str]:
    listed = [f"{size} ({counted(calls, 'call')})" for size, calls in gap.calls.items()]
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    yield (
        f"{spec.name}: {gap.dim}: called further than a factor of {usage.NEAR} from every measured size: "
        f"{', '.join(listed[:_LISTED])}{more}"
    )
    yield f"  to measure there, write into {spec.file}: {gap.dim} = {{ sizes = [{', '.join(map(str, gap.sizes))}] }}"
