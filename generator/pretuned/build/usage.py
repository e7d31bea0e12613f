"""What programs have called of a project's kernels: problems weigh by it, and `--from-usage` tunes nothing else.

A usage file stands in the project's table, or is named on the command line. What cannot be read of it, what the specs
have no problem for, and sizes that were called far from all measured ones are reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pretuned.config import Project
from pretuned.diagnostics import Diagnostic, Reporter
from pretuned.errors import counted
from pretuned.record import usage
from pretuned.record.usage import Called, Gap, Unread
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Problem
from pretuned.tune.request import TuningRequest

_LISTED: Final = 8  # lines and sizes that are listed one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The calls of a project's kernels.

    `measured` counts them by kernel and the spec's problem that answers for them, `called` by kernel and the problem
    itself, and `lines` has each kernel's lines. It is false where nothing was called.
    """

    measured: Mapping[tuple[str, Problem], int]
    called: Mapping[str, Mapping[Problem, int]]
    lines: Mapping[str, Sequence[Called]]

    def __bool__(self) -> bool:
        return bool(self.lines)


def read(path: Path, project: Project, specs: Mapping[str, KernelSpec], reporter: Reporter) -> Usage:
    """Return what was called of `specs`, and report what was passed over, and gaps; raises OSError."""
    packages = _packages(project)
    answers = {name: usage.Answers(spec) for name, spec in specs.items()}
    measured: Counter[tuple[str, Problem]] = Counter()
    exact: dict[str, Counter[Problem]] = {name: Counter() for name in specs}
    lines: dict[str, list[Called]] = {}
    unknown: list[int] = []
    said, unread = usage.read(path)
    for called in said:
        if called.kernel in specs and any(_is_same(package, called.package) for package in packages):
            answering = answers[called.kernel].of(called)
            if answering is None:
                unknown.extend(called.lines)
                continue
            measured[called.kernel, answering] += called.calls
            if (problem := answers[called.kernel].exact(called)) is not None:
                exact[called.kernel][problem] += called.calls
            lines.setdefault(called.kernel, []).append(called)
    _report_passed_over(path, unread, sorted(unknown), reporter)
    _report_gaps(lines, specs, reporter)
    return Usage(measured=measured, called=exact, lines=lines)


def of_table(project: Project, specs: Mapping[str, KernelSpec], reporter: Reporter) -> Usage | None:
    """Return the usage that the project's table names; None where that is of no use, which is reported."""
    if project.usage is None:
        return None
    try:
        found = read(project.usage, project, specs, reporter)
    except OSError as error:
        reporter.warning(
            f"cannot be read, so all problems weigh alike: {error.strerror}",
            place=project.usage.name,
            remedy="have a program write it with PRETUNED_USAGE, or remove `usage` from the table",
        )
        return None
    if not found:
        reporter.info(f"{project.usage.name}: {lacking(project, specs)}, whose problems weigh alike")
    return found or None


def calls_of_table(project: Project, specs: Mapping[str, KernelSpec]) -> Mapping[str, Mapping[Problem, int]] | None:
    """Return how often problems were called by the table's usage, by kernel; None without one that can be read."""
    try:
        return None if project.usage is None else read(project.usage, project, specs, _Silent()).called
    except OSError:
        return None


class _Silent(Reporter):
    """Reports nothing: a tuning reports what is passed over in a usage file."""

    def report(self, diagnostic: Diagnostic, /) -> None: ...


def lacking(project: Project, specs: Iterable[str]) -> str:
    """Return that a usage file has no call of kernels."""
    return f"no call of {', '.join(specs)} in {' or '.join(_packages(project))}"


def _packages(project: Project) -> list[str]:
    return [project.import_name(module.module) for module in project.modules]


def weighed(requests: Sequence[TuningRequest], called: Usage | None) -> list[TuningRequest]:
    """Return requests whose problems weigh by their calls."""
    if called is None:
        return list(requests)
    return [replace(request, calls=called.called.get(request.spec.name, {})) for request in requests]


def narrowed(requests: Sequence[TuningRequest], called: Usage) -> list[TuningRequest]:
    """Return of `requests` what was called: the most called specialisation first, and its most called problem.

    A specialisation that was called and lacks only its selection gets that.
    """
    found: list[tuple[int, TuningRequest]] = []
    for request in requests:
        name = request.spec.name
        asked = [*(problem.specialisation for problem in request.problems), *request.select]
        for specialisation in dict.fromkeys(asked):
            calls = {
                problem: count
                for (kernel, problem), count in called.measured.items()
                if kernel == name and problem.specialisation == specialisation
            }
            lacking = [problem for problem in request.problems if problem in calls]
            select = tuple(one for one in request.select if one == specialisation)
            if calls and (lacking or select):
                problems = tuple(sorted(lacking, key=lambda problem: (-calls[problem], problem.dims)))
                share = sum(calls[problem] for problem in problems or calls)
                found.append((share, replace(request, problems=problems, select=select)))
    return [request for _, request in sorted(found, key=lambda one: -one[0])]


def _is_same(package: str, called: str) -> bool:
    """Whether a package is the one that was called; a project's path may begin with folders that no import names."""
    return package == called or package.endswith(f".{called}")


def _report_passed_over(path: Path, unread: Sequence[Unread], unknown: Sequence[int], reporter: Reporter) -> None:
    for line in unread[:_LISTED]:
        reporter.info(f"{path.name}: passed over {line}")
    if len(unread) > _LISTED:
        reporter.info(f"{path.name}: passed over {counted(len(unread) - _LISTED, 'more line')} that cannot be read")
    if unknown:
        listed = ", ".join(map(str, unknown[:_LISTED])) + (", ..." if len(unknown) > _LISTED else "")
        reporter.info(
            f"{path.name}: passed over {counted(len(unknown), 'line')} for which the specs have no problem ({listed})"
        )


def _report_gaps(lines: Mapping[str, Sequence[Called]], specs: Mapping[str, KernelSpec], reporter: Reporter) -> None:
    """Report which sizes were called far from all measured ones, and what to write into the spec."""
    for name, called in lines.items():
        for gap in usage.gaps(specs[name], called):
            for line in _gap(specs[name], gap):
                reporter.info(line)


def _gap(spec: KernelSpec, gap: Gap) -> Iterator[str]:
    listed = [f"{size} ({counted(calls, 'call')})" for size, calls in gap.calls.items()]
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    yield (
        f"{spec.name}: {gap.dim}: called further than a factor of {usage.NEAR} from every measured size: "
        f"{', '.join(listed[:_LISTED])}{more}"
    )
    sizes = ", ".join(map(str, gap.sizes))
    if spec.free_dims[gap.dim].sizes:
        yield f"  to measure there, write into {spec.file}: {gap.dim} = {{ sizes = [{sizes}] }}"
    else:
        yield f"  to measure there, add [[problems]] to {spec.file}, so that {gap.dim} has the sizes {sizes}"
