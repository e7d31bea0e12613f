"""The Hatch build hook `pretuned`: it only adapts Hatch to `pretuned.build.core`.

A wheel gets the generated package from a temporary folder, so that a build writes nothing into the source tree; an
editable install gets it in the source tree, since that is what it imports from. An sdist gets the specs and the lock,
so that a wheel can be built from it, and is never tuned for.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any, Final, NoReturn

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.plugin import hookimpl

from pretuned.build import core
from pretuned.build.place import place, recover, require_ours
from pretuned.config import Project, read_settings
from pretuned.diagnostics import Diagnostic, Reporter, Severity
from pretuned.errors import Error
from pretuned.files import TEMPORARY, scratch, storage_errors, termination_interrupts
from pretuned.frontends.hatch import Hatch, hook_path
from pretuned.frontends.registry import project_of, refuse_second
from pretuned.report.progress_log import reported

EDITABLE: Final = "editable"  # Hatch's name for that version of the wheel target


class _HatchReporter(Reporter):
    """Shows diagnostics in the way of the application that runs the hook: Hatch's own, or hatchling's."""

    def __init__(self, app: Any) -> None:  # noqa: ANN401 - an Application, which has no common type
        self._app = app

    def report(self, diagnostic: Diagnostic, /) -> None:
        show = self._app.display_info if diagnostic.severity is Severity.INFO else self._app.display_warning
        show(str(diagnostic))


class PretunedBuildHook(BuildHookInterface[BuilderConfig]):
    """Tunes where there is something to tune, and adds the generated packages to what Hatch builds."""

    PLUGIN_NAME = "pretuned"

    def dependencies(self) -> list[str]:
        """Return what the build must install first; runs before that, so neither CuPy nor NVRTC are here."""
        if self.target_name == "sdist":
            return []
        try:
            with storage_errors():
                return core.build_requirements(self._project(), read_settings())
        except Error as error:
            self._abort(error)

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the generated packages to a wheel or an editable install, and the specs and the lock to an sdist."""
        try:
            with storage_errors(), termination_interrupts():
                self._build(version, build_data)
        except Error as error:
            self._abort(error)

    def _build(self, version: str, build_data: dict[str, Any]) -> None:
        project = self._project()
        if version != EDITABLE:
            self._leave_out(project)
        if self.target_name == "sdist":
            # File by file: Hatch leaves out of its own collection what is listed so.
            files = core.sources(project)
            build_data["force_include"].update({str(f): f.relative_to(project.root).as_posix() for f in files})
        else:
            self._bake(project, version, build_data)

    def _bake(self, project: Project, version: str, build_data: dict[str, Any]) -> None:
        settings, reporter = read_settings(), _HatchReporter(self.app)
        with reported(settings.progress, reporter) as listen:
            baked = core.bake_project(project, settings, reporter, listen)
        if version == EDITABLE:
            for package in baked:
                place(package.files, project.root / package.module)
            return
        temporary = tempfile.mkdtemp(dir=scratch())
        weakref.finalize(self, shutil.rmtree, temporary, ignore_errors=True)  # Hatch reads it until the build ends
        for package in baked:
            folder = Path(temporary, package.module)
            place(package.files, folder)
            build_data["force_include"][str(folder)] = package.module  # a source path: Hatch maps src/ away itself

    def _leave_out(self, project: Project) -> None:
        """Keep packages that an editable install left in the source tree out of what Hatch collects by itself.

        So is what a killed bake left there, or another one is writing at this moment. A target's `exclude` goes before
        the build's, so the build's patterns come along.
        """
        inherited = list(self.build_config.build_config.get("exclude", []))
        patterns = self.build_config.target_config.setdefault("exclude", inherited)
        patterns.append(TEMPORARY)
        for module in project.modules:
            recover(project.root / module.module)
            require_ours(project.root / module.module)
            patterns.append(f"/{module.module}/")

    def _project(self) -> Project:
        own = self.PLUGIN_NAME in self.build_config.target_config.get("hooks", {})
        path, front_end, root = hook_path(self.PLUGIN_NAME, self.target_name if own else None), Hatch(), Path(self.root)
        refuse_second(root, front_end, path)
        return project_of(front_end, self.config, root, path=path)

    def _abort(self, error: Error) -> NoReturn:
        self.app.abort(str(error), code=error.exit_code)
        raise SystemExit(error.exit_code)  # where an application's abort returns


@hookimpl
def hatch_register_build_hook() -> type[PretunedBuildHook]:
    """Register the hook; the entry point in the group `hatch` names this module."""
    return PretunedBuildHook
