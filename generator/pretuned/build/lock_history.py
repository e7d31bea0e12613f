"""The past of a lock, as Git has it: its commits, and the file at each of them. Git is asked, and never changed."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pretuned.report.figures.changes import MOST_COMMITS, LockVersion

_ASK_S: Final = 20.0  # a repository may be large, or on a slow disk


class GitError(Exception):
    """What Git could not be asked; the message says why, for people."""


def versions_of(lock: Path) -> list[LockVersion]:
    """Return the newest commits of a lock, those that a history tells and the one before; the newest comes first.

    Raises GitError where there are none.
    """
    listed = _git(lock, "log", "-n", str(MOST_COMMITS + 1), "--format=%H%x1f%cs%x1f%s", "--", lock.name)
    if not listed.strip():
        raise GitError(f"Git has no commit of {lock.name}")
    return list(_versions(lock, listed))


def committed(lock: Path) -> Mapping[str, Any]:
    """Return the lock as the last commit has it; raises GitError where it has none."""
    return _document(lock, "HEAD")


def _versions(lock: Path, listed: str) -> Iterator[LockVersion]:
    for line in listed.splitlines():
        commit, date, subject = line.split("\x1f", 2)
        try:
            document = _document(lock, commit)
        except GitError:  # a commit that removed the file
            document = {}
        yield LockVersion(commit=commit, date=date, subject=subject, document=document)


def _document(lock: Path, commit: str) -> Mapping[str, Any]:
    text = _git(lock, "cat-file", "blob", f"{commit}:./{lock.name}")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _git(lock: Path, *arguments: str) -> str:
    program = shutil.which("git")
    if program is None:
        raise GitError("Git is not installed")
    options = ("--no-pager", "--literal-pathspecs", "-c", "core.fsmonitor=false")
    command = [program, "-C", str(lock.parent), *options, *arguments]
    try:
        answer = subprocess.run(command, capture_output=True, timeout=_ASK_S, check=False)  # noqa: S603 - Git's own
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitError(f"Git did not answer: {error}") from None
    if answer.returncode:
        said = answer.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise GitError(f"Git has no history of {lock.name} ({said})")
    return answer.stdout.decode(errors="replace")
