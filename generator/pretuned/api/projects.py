"""What each function begins with: the project's table, its specs, and where diagnostics go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pretuned.backends import lock_path
from pretuned.build.core import load_specs
from pretuned.config import Place, Project, Settings, read_settings
from pretuned.diagnostics import Diagnostic, Reporter
from pretuned.errors import UsageError
from pretuned.frontends.registry import load_project
from pretuned.runtime.text import no_such
from pretuned.spec.declarations import names_of
from pretuned.spec.model import KernelSpec

Report = Callable[[Diagnostic], None]


class CallingReporter(Reporter):
    """Hands each diagnostic to a function."""

    def __init__(self, call: Report) -> None:
        self._call = call

    def report(self, diagnostic: Diagnostic, /) -> None:
        """Call it."""
        self._call(diagnostic)


def ignore(_heard: object) -> None:
    """Hear of a diagnostic or an event, and do nothing."""


def opened(project: str | Path, on: Place | str | None = None) -> tuple[Project, Settings]:
    """Return a project, and the settings with `on` in place of PRETUNED_TUNE_ON; a backend may have a lock of its own.

    Raises ConfigError, and UsageError for a place that there is not.
    """
    found, settings = load_project(Path(project).resolve()), read_settings()
    try:
        place = Place.parse(on) if isinstance(on, str) else on
    except ValueError as error:
        raise UsageError(f"on: {error}") from None
    if place is not None:
        settings = replace(settings, device=place)
    return replace(found, lock=lock_path(found.lock, settings.device.backend)), settings


def specs_of(project: Project, kernels: Sequence[str] | None = None) -> dict[str, KernelSpec]:
    """Return the project's specs by name; raises SpecError or UsageError.

    With `kernels`, only these are returned and read: faults of others are not theirs.
    """
    if kernels:
        known = {name: None for module in project.modules for name in names_of(module.kernels, module.declarations)}
        for name in kernels:
            if known and name not in known:
                raise UsageError(no_such("kernel", name, known))
    return {name: spec for specs in load_specs(project, kernels or None).values() for name, spec in specs.items()}
