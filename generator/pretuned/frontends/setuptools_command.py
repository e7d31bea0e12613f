"""The `build` sub-command of setuptools that bakes: it only adapts setuptools to `pretuned.build.core`.

A wheel gets the generated package through the build folder, so that a build writes nothing into the sources; an
editable install, lenient or strict, gets it in the source tree. What such an install left there is nothing that
setuptools collects by itself: neither a wheel nor an sdist takes it over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Final

from setuptools import Command
from setuptools.errors import SetupError

from pretuned.build import core
from pretuned.build.place import place, recover, require_ours
from pretuned.config import Project, read_settings
from pretuned.config.project import import_path
from pretuned.config.toml import FILE, read_toml, text_at
from pretuned.diagnostics import Diagnostic, Reporter, Severity
from pretuned.errors import DeviceError, Error
from pretuned.files import TEMPORARY, storage_errors, termination_interrupts
from pretuned.frontends.registry import load_project
from pretuned.frontends.setuptools import BACKEND
from pretuned.report.progress_log import reported

NAME: Final = "build_pretuned"
_LOG: Final = logging.getLogger(__name__)

_LEVELS: Final = {Severity.INFO: logging.INFO, Severity.WARNING: logging.WARNING, Severity.ERROR: logging.ERROR}

GetClass = Callable[[str], Any]  # setuptools has no types


class _LogReporter(Reporter):
    """Logs diagnostics where `announce` sends its texts; what that takes for a level varies between versions."""

    def report(self, diagnostic: Diagnostic, /) -> None:
        _LOG.log(_LEVELS[diagnostic.severity], "%s", diagnostic)


def adapted(get_class: GetClass) -> GetClass:
    """Return a distribution's `get_command_class` that knows the sub-command, and whose `build` runs it last."""

    def get_command_class(command: str) -> Any:  # noqa: ANN401 - a class of setuptools
        match command:
            case "build_pretuned":
                return BuildPretuned
            case "build":
                return _building(get_class(command))
            case "build_py":
                return _collecting(get_class(command))
            case _:
                return get_class(command)

    return get_command_class


class BuildPretuned(Command):  # type: ignore[misc] # setuptools has no types
    """Bakes the generated packages of `[tool.pretuned]`; see setuptools' `SubCommand` for what each method is for."""

    description = "tune the project's kernels where there is something to tune, and bake the winners into a package"
    user_options: ClassVar[list[tuple[str, str | None, str]]] = [
        ("build-lib=", "d", "the folder of what is installed later"),
    ]

    def initialize_options(self) -> None:
        """Begin with nothing set."""
        self.build_lib: str | None = None
        self.editable_mode = False

    def finalize_options(self) -> None:
        """Take the build folder over from `build_py`: what is baked is data and Python."""
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self) -> None:
        """Bake, and write the packages; raises SetupError with our message for whatever a user can mend."""
        project = project_of(self.distribution)
        with _errors_of_setuptools(project), storage_errors(), termination_interrupts():
            self._refuse_strays(project)
            settings, reporter = read_settings(), _LogReporter()
            with reported(settings.progress, reporter) as listen:
                packages = core.bake_project(project, settings, reporter, listen)
            for baked in packages:
                place(baked.files, self._folder(project, baked.module))

    def get_source_files(self) -> list[str]:
        """Return what an sdist needs: specs, templates, headers and the lock."""
        project = project_of(self.distribution)
        return [str(file.relative_to(project.root)) for file in core.sources(project)]

    def get_outputs(self) -> list[str]:
        """Return the baked files by their places in the build folder, wherever they really are."""
        return [output for output, _ in self._files()]

    def get_output_mapping(self) -> dict[str, str]:
        """Return for an editable install the baked files' places in the source tree."""
        return dict(self._files()) if self.editable_mode else {}

    def _files(self) -> Iterator[tuple[str, str]]:
        """Yield the place in the build folder and the real one, relative to the project, of every baked file."""
        project = project_of(self.distribution)
        for module in project.modules:
            built, folder = self._built(module.module), self._folder(project, module.module)
            for file in sorted(folder.rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    inside = file.relative_to(folder)
                    yield str(built / inside), str(Path(module.module, inside) if self.editable_mode else file)

    def _folder(self, project: Project, module: str) -> Path:
        return project.root / module if self.editable_mode else self._built(module)

    def _built(self, module: str) -> Path:
        return Path(str(self.build_lib), import_path(module, self.distribution.package_dir or {}))

    def _refuse_strays(self, project: Project) -> None:
        """Raise SetupError for a module inside no package that setuptools builds: nobody could import it."""
        known = list(self.distribution.packages or ())
        for module in project.modules:
            recover(project.root / module.module)
            require_ours(project.root / module.module)
            parent = ".".join(import_path(module.module, self.distribution.package_dir or {}).parts[:-1])
            if parent and parent not in known:
                raise SetupError(
                    f"pyproject.toml: tool.pretuned: the module '{module.module}' would be installed into '{parent}', "
                    f"which is not one of the packages that setuptools builds here ({', '.join(known) or 'none'}); "
                    "correct `module`, or what [tool.setuptools] says of packages"
                )


def project_of(distribution: Any) -> Project:  # noqa: ANN401 - a Distribution, which has no types
    """Return the project that a distribution is made of; raises SetupError for a table with faults."""
    try:
        return load_project(Path(distribution.src_root or "").absolute())
    except Error as error:
        raise SetupError(str(error)) from None


@contextmanager
def _errors_of_setuptools(project: Project) -> Iterator[None]:
    try:
        yield
    except DeviceError as error:
        ours = text_at(read_toml(project.root / FILE), "build-system.build-backend") == BACKEND
        hint = "" if ours else f'; with `build-backend = "{BACKEND}"` a build asks for what it needs by itself'
        raise SetupError(f"{error}{hint}") from None
    except Error as error:
        raise SetupError(str(error)) from None


@cache
def _building(base: Any) -> Any:  # noqa: ANN401 - a class of setuptools
    """Return `base`, a `build`, with the sub-command behind its own."""

    class Build(base):  # type: ignore[misc] # setuptools has no types
        sub_commands: ClassVar[list[Any]] = [*base.sub_commands, (NAME, None)]

    return Build


@cache
def _collecting(base: Any) -> Any:  # noqa: ANN401 - a class of setuptools
    """Return `base`, a `build_py`, that passes over what is baked."""

    class BuildPy(base):  # type: ignore[misc] # setuptools has no types
        def finalize_options(self) -> None:
            super().finalize_options()
            modules = project_of(self.distribution).modules
            paths = [import_path(m.module, self.distribution.package_dir or {}) for m in modules]
            self._baked = [".".join(path.parts) for path in paths]
            self._folders = [PurePosixPath(module.module) for module in modules]
            self.packages: list[str] = [name for name in self.packages or () if not self._is_baked(name)]

        def find_data_files(self, package: str, src_dir: str) -> list[str]:
            files: Iterable[str] = super().find_data_files(package, src_dir)
            return [file for file in files if not self._lies_inside(file)]

        def _is_baked(self, package: str) -> bool:
            return any(package == name or package.startswith(f"{name}.") for name in self._baked)

        def _lies_inside(self, file: str) -> bool:
            path = Path(file).as_posix()
            temporary = any(fnmatch(part, TEMPORARY) for part in PurePosixPath(path).parts)
            return temporary or any(PurePosixPath(path).is_relative_to(folder) for folder in self._folders)

    return BuildPy
