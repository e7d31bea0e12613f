"""The errors of pretuned: one base class, and one exit code per class. Faults are collected and raised together.

A failing candidate is data (see `pretuned.outcome`), never one of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from collections.abc import Iterable


class ExitCode(IntEnum):
    """The exit statuses of the command line; the documentation's table is made of their `meaning`s."""

    meaning: str

    def __new__(cls, number: int, meaning: str) -> Self:  # noqa: D102 - Python's
        code = int.__new__(cls, number)
        code._value_ = number
        code.meaning = meaning
        return code

    SUCCESS = 0, "done; `check`: the lock is fresh"
    FAILURE = 1, "a bug in pretuned: please report the traceback"
    INPUT = 2, "the command line or a kernel spec is wrong"
    CONFIGURATION = 3, "the project's table or an environment variable is wrong"
    LOCK = 4, "the lock is not fresh (`check`, mode `locked`), cannot be read, or has no rows"
    DEVICE = 5, "there is no usable GPU, driver or compiler for what was asked"
    BAKE = 6, "the generated package cannot be written as asked"
    TUNING = 7, "a kernel cannot be tuned: its default or its reference is wrong"
    FOUND = 8, "`check --execute`, `check --sanitize`, `bake --check` or `inspect` has found something wrong"
    DRIFTED = 9, "`check --drift`: a winner is slower than its default, or fails"
    STORAGE = 10, "a file cannot be read or written: a full disk, a missing permission; what was there is as it was"
    INTERRUPTED = 130, "ended by Ctrl-C or SIGTERM; what was measured is kept"  # the status that shells give to it
    UNREAD = 141, "whoever reads the output has ended first, as `head` does"  # as shells say it


class Error(Exception):
    """Base of every error that a user can mend; the CLI prints it without a traceback and exits with `exit_code`."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAILURE


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Fault:
    """One thing wrong with an input file: where it stands and what to write instead."""

    file: str
    path: str
    message: str

    def __str__(self) -> str:
        parts = self.file, _cut(self.path, 200), _cut(self.message, 2_000)
        return ": ".join(part for part in parts if part)


def _cut(text: str, most: int) -> str:
    """Return a text that quotes what somebody wrote without end: its begin."""
    return text if len(text) <= most else f"{text[:most]}..."


class FaultsError(Error):
    """Several faults of one kind, reported together."""

    heading = "invalid input"

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        count = counted(len(self.faults), "problem")
        super().__init__("\n".join([f"{self.heading} ({count}):", *(f"  {fault}" for fault in self.faults)]))


class SpecError(FaultsError):
    """A kernel spec, its template or its reference is wrong."""

    exit_code = ExitCode.INPUT
    heading = "invalid kernel spec"


class UsageError(Error):
    """What is asked for is not there, or two parts of it exclude each other."""

    exit_code = ExitCode.INPUT


class ConfigError(FaultsError):
    """The project's table or an environment variable is wrong."""

    exit_code = ExitCode.CONFIGURATION
    heading = "invalid configuration"


class LockError(Error):
    """The lock cannot be read, is of a newer format, or does not fit what `locked` demands."""

    exit_code = ExitCode.LOCK


class DeviceError(Error):
    """There is no usable GPU, driver or compiler for what was asked."""

    exit_code = ExitCode.DEVICE


class BakeError(Error):
    """The generated package cannot be written as asked."""

    exit_code = ExitCode.BAKE


class StorageError(Error):
    """A file or folder cannot be read or written: a full disk, a missing permission, a path that leads nowhere."""

    exit_code = ExitCode.STORAGE


def counted(count: int, noun: str) -> str:
    """Return `1 row` or `2 rows`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
