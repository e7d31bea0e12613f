"""Diagnostics: what a user should know about a build or a command, with a severity, a place and a remedy.

A stage reports them to a `Reporter`, which each front end and the command line bring: Hatch shows them in its own
colours, setuptools logs them, the command line prints them to stderr. What stops a command is an `Error` instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Severity(StrEnum):
    """How much a diagnostic matters."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding: the file, kernel or device that it is about, what was found, and what to do about it."""

    severity: Severity = Severity.INFO
    place: str = ""
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        """Return one line, which begins with the severity of a warning or an error."""
        severity = "" if self.severity is Severity.INFO else str(self.severity)
        said = ": ".join(part for part in (severity, self.place, self.text) if part)
        return f"{said}; {self.remedy}" if self.remedy else said


class Reporter(Protocol):
    """Where diagnostics go. A class that inherits this one writes `report`, and gets the other two."""

    def report(self, diagnostic: Diagnostic, /) -> None:
        """Show a diagnostic to the user."""
        ...

    def info(self, text: str, *, place: str = "", remedy: str = "") -> None:
        """Report something that is as it should be."""
        self.report(Diagnostic(place=place, text=text, remedy=remedy))

    def warning(self, text: str, *, place: str = "", remedy: str = "") -> None:
        """Report something that the user should look at."""
        self.report(Diagnostic(severity=Severity.WARNING, place=place, text=text, remedy=remedy))
