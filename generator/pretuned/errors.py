"""The errors of pretuned: one base class, an exit code a class, and faults that are gathered, not raised one by one.

A failing candidate is data (see `pretuned.outcome`), never one of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Error(Exception):
    """Base of every error that a user can mend; the CLI prints it without a traceback and exits with `exit_code`."""

    exit_code = 1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Fault:
    """One thing wrong with an input file: where it stands and what to write instead."""

    file: str
    path: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.path, self.message) if part)


class FaultsError(Error):
    """Several faults of one kind, reported together."""

    heading = "invalid input"

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        count = "1 problem" if len(self.faults) == 1 else f"{len(self.faults)} problems"
        super().__init__("\n".join([f"{self.heading} ({count}):", *(f"  {fault}" for fault in self.faults)]))


class SpecError(FaultsError):
    """A kernel spec, its template or its reference is wrong."""

    exit_code = 2
    heading = "invalid kernel spec"


class ConfigError(FaultsError):
    """The project's table or an environment variable is wrong."""

    exit_code = 3
    heading = "invalid configuration"


class LockError(Error):
    """The lock cannot be read, is of a newer format, or does not fit what `locked` demands."""

    exit_code = 4


class DeviceError(Error):
    """There is no usable GPU, driver or compiler for what was asked."""

    exit_code = 5


class BakeError(Error):
    """The generated package cannot be written as asked."""

    exit_code = 6


def closest(name: str, known: Iterable[str]) -> str:
    """Return `"; did you mean 'x'?"` for the known name nearest to `name`, or an empty string."""
    matches = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean '{matches[0]}'?" if matches else ""
