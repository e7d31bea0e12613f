"""`pretuned.report`: what a project's lock says, for people who look at plots and for programs."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pretuned.api.projects import CallingReporter, Report, ignore, opened, specs_of
from pretuned.build.freshness import Freshness
from pretuned.build.lock_history import GitError, committed, versions_of
from pretuned.config import GPU, Place, Project, Settings
from pretuned.config.toml import read_toml
from pretuned.diagnostics import Reporter
from pretuned.errors import ConfigError, Error, UsageError
from pretuned.files import storage_errors, write_whole
from pretuned.record import lock as lockfile
from pretuned.record.cache import FILE, Cache, Subject
from pretuned.record.courses import Course, course_of, held_out_of
from pretuned.record.lock import Lock
from pretuned.report.figures.changes import LockDocument, LockVersion
from pretuned.report.figures.losses import HeldOuts
from pretuned.report.figures.parameters import CACHE, MeasuredSpace
from pretuned.report.project import GatheredProject, ProjectReport, report_of
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import count, specialisations

PYPROJECT: Final = "pyproject.toml"
MOST_RENDERED: Final = 5_000  # candidates of a kernel: each is rendered, to find what the cache has of it


def report(
    project: str | Path = ".",
    *,
    lock: str | Path | None = None,
    against: str | Path | None = None,
    on: Place | str | None = None,
    out: str | Path | None = None,
    report: Report = ignore,
) -> ProjectReport:
    """Return the figures of a project's lock, and write them as a page.

    Specs, Git and the user cache add what they have; a report is made without any of them too.

    Args:
        project: The folder of pyproject.toml.
        lock: Another lock file than the project's.
        against: A lock file to compare with. Default: the project's lock in Git's last commit, where there is one.
        on: `"host"`: the host device's lock. By default that of the GPUs.
        out: An HTML file to write: one that needs no network and no other file.
        report: Called with each `pretuned.Diagnostic`: what the report has to do without.

    Raises:
        ConfigError: The project's table or an environment variable is wrong.
        UsageError: There is no such lock.
        LockError: A lock cannot be read.
        StorageError: The file cannot be written.
    """
    named, other = (None if file is None else Path(file) for file in (lock, against))
    found = gathered(Path(project), named, other, on, CallingReporter(report))
    made = report_of(found)
    if out is not None:
        from pretuned.report.page.html import page  # noqa: PLC0415 - templates are loaded for a page alone

        with storage_errors("the page cannot be written", Path(out)):
            write_whole(Path(out), page(made).encode())
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the user cache adds."""

    held_out: HeldOuts
    courses: tuple[Course, ...] = ()
    measured: tuple[MeasuredSpace, ...] = ()


def gathered(
    folder: Path, lock_file: Path | None, against: Path | None, on: Place | str | None, reporter: Reporter
) -> GatheredProject:
    """Return what a report is made from; raises what `report` raises, and reports what it has to do without."""
    project, settings = _opened(folder, lock_file, on)
    path = lock_file if lock_file is not None or project is None else project.lock
    if path is None or (lock_file is not None and not path.is_file()):
        raise UsageError(f"there is no lock '{path}'")
    path = path.resolve()
    lock = lockfile.read(path)
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    specs, note = _specs(project)
    if note and project is not None:
        reporter.warning(f"the report has no states and no bytes: {note}")
    states, missing = _states(lock, specs)
    known = _remembered(settings.cache if settings is not None else None, lock, specs)
    versions, past = _versions(path)
    before, before_name = _before(path, against)
    return GatheredProject(
        title=_title(folder if project is None else project.root),
        name=path.name,
        text=text,
        lock=lock,
        specs=specs,
        note=note,
        states=states,
        missing=missing,
        held_out=known.held_out,
        courses=known.courses,
        measured=known.measured,
        versions=versions,
        past=past,
        before=before,
        before_name=before_name,
        document=json.loads(text) if text else {},
    )


def _opened(
    folder: Path, lock_file: Path | None, on: Place | str | None
) -> tuple[Project, Settings] | tuple[None, None]:
    """Return the project and the settings; neither where only a lock is named, and no project is here."""
    try:
        return opened(folder, GPU if on is None else on)
    except ConfigError:
        if lock_file is None or (folder / PYPROJECT).is_file():
            raise
        return None, None


def _title(root: Path) -> str:
    """Return the project's name by its pyproject.toml, else its folder's."""
    try:
        named = read_toml(root / PYPROJECT).get("project", {}).get("name")
    except (ConfigError, AttributeError):
        named = None
    return named if isinstance(named, str) else root.resolve().name


def _specs(project: Project | None) -> tuple[Mapping[str, KernelSpec], str]:
    if project is None:
        return {}, "no project is here, whose specs would say it"
    try:
        return specs_of(project), ""
    except Error as error:
        return {}, str(error).partition("\n")[0]


def _states(
    lock: Lock, specs: Mapping[str, KernelSpec]
) -> tuple[dict[lockfile.Key, tuple[str, str]], Counter[tuple[str, str]]]:
    """Return what of the lock is not fresh, and how many rows are missing, by kernel and device."""
    states: dict[lockfile.Key, tuple[str, str]] = {}
    missing: Counter[tuple[str, str]] = Counter()
    for one in Freshness(specs).unfresh(lock, lock.devices) if specs else ():
        if one.state is None:
            missing[one.kernel, one.device] += 1
        else:
            states[one.key] = one.word, one.reason
    return states, missing


def _remembered(folder: Path | None, lock: Lock, specs: Mapping[str, KernelSpec]) -> _Known:
    """Return what the user cache has of the lock's kernels."""
    if folder is None or not (folder / FILE).is_file():
        return _Known(held_out={})
    with Cache(folder) as cache:
        subjects = {one.subject for one in cache.holdings()}
        held_out = {
            rule.key: problems
            for rule in lock.selections
            if rule.certificate is not None
            and (subject := Subject(kernel=rule.kernel, device=rule.device)) in subjects
            and (problems := held_out_of(cache, subject, rule.specialisation, rule.certificate))
        }
        pairs = sorted({(row.kernel, row.device) for row in lock.rows})
        of_cache = [(kernel, device) for kernel, device in pairs if Subject(kernel=kernel, device=device) in subjects]
        courses = [course_of(cache, kernel, device) for kernel, device in of_cache]
        measured = [
            space
            for kernel, device in of_cache
            if kernel in specs and _is_small(specs[kernel])
            for space in _measured(cache, lock, specs[kernel], device)
        ]
    return _Known(
        held_out=held_out, courses=tuple(course for course in courses if course is not None), measured=tuple(measured)
    )


def _is_small(spec: KernelSpec) -> bool:
    candidates = sum(count(one) for one in spec.all_implementations.values())
    return candidates * sum(1 for _ in specialisations(spec)) <= MOST_RENDERED


def _measured(cache: Cache, lock: Lock, spec: KernelSpec, device: str) -> Iterator[MeasuredSpace]:
    """Yield what the cache has of a kernel's candidates at the lock's problems, by specialisation."""
    from pretuned.exchange.export import remembered  # noqa: PLC0415 - it imports NumPy, which most commands do without

    rows = [row for row in lock.rows if (row.kernel, row.device) == (spec.name, device)]
    found = list(remembered(rows, lock.devices[device], spec, cache))
    for specialisation in dict.fromkeys(row.specialisation for row in rows):
        yield MeasuredSpace(
            kernel=spec.name,
            device=device,
            specialisation=specialisation,
            times=tuple(
                (row.problem.dims, one.configuration, one.time_us)
                for row, one in found
                if row.specialisation == specialisation and one.time_us < math.inf
            ),
            source=CACHE,
        )


def _versions(path: Path) -> tuple[list[LockVersion], str]:
    try:
        return versions_of(path), ""
    except GitError as error:
        return [], str(error)


def _before(path: Path, against: Path | None) -> tuple[LockDocument | None, str]:
    """Return the lock to compare with, and its name; raises UsageError or LockError for one that is named."""
    if against is not None:
        if not against.is_file():
            raise UsageError(f"there is no lock '{against}'")
        lockfile.read(against)
        return json.loads(against.read_text(encoding="utf-8")), against.name
    try:
        return committed(path), "Git's last commit"
    except GitError:
        return None, ""
