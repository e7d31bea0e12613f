"""A small project that faults are tried on, the commands in it, and what must hold of it afterwards."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import hatchling.build
from table import HUNG, LEFT, OTHER, ROOT, TRACEBACK

import pretuned.backend
import pretuned.cli.parser
import pretuned.frontends.hatch_hook
import pretuned.frontends.setuptools_command
import pretuned.tune.session
from pretuned import cli
from pretuned.compile import host

LIMIT_S = 240.0  # for a command; the slowest takes 20 s here
GOES_S = 5.0  # for children to be gone
STATUSES = frozenset({0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 130})
LOCK = "pretuned.lock.host.json"
MODULE = "src/tiny/tuned"
TUNE = ("tune", "--on", "host")
BAKE = ("bake", "--on", "host")
HATCHLING, SETUPTOOLS_BACKEND = hatchling.build.__name__, pretuned.backend.__name__
host.version()  # asked for once, and not by every fork
KERNELS = ROOT / "generator" / "pretuned" / "init" / "kernel"

HATCH = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "tiny"
version = "1"
requires-python = ">=3.11"

[tool.hatch.build.hooks.pretuned]
module = "src/tiny/tuned"
cubins = false
"""
SETUPTOOLS = """
[build-system]
requires = ["setuptools"]
build-backend = "pretuned.backend"

[project]
name = "tiny"
version = "1"
requires-python = ">=3.11"

[tool.pretuned]
module = "src/tiny/tuned"
cubins = false
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a command ended; `status` is None where it had to be killed after LIMIT_S."""

    status: int | None
    output: str

    def _setuptools_says_so(self) -> bool:
        """Return whether setuptools ended with a message: its status for every error is 1."""
        return self.status == 1 and "\nerror: " in self.output and "Traceback" not in self.output

    def failures(self) -> Iterator[tuple[str, str]]:
        """Yield what no command may do, whatever goes wrong."""
        said = self.output.strip().replace("\n", " | ")[-300:]
        if self.status is None:
            yield HUNG, f"no end within {LIMIT_S:g} s: {said}"
        frames = re.findall(r'^  File "(.*?)", line', self.output.partition("Traceback")[2], re.MULTILINE)
        if frames:  # the last one that is not Python's own
            last = [frame for frame in frames if "/lib/python" not in frame or "site-packages" in frame][-1:]
            if last and "/generator/pretuned/" in last[0]:
                yield TRACEBACK, said
        elif self.status is not None and self.status not in STATUSES and not self._setuptools_says_so():
            yield OTHER, f"status {self.status}: {said}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A command that runs: the process, which leads a session, and the file that it prints to."""

    pid: int
    output: Path

    def ended(self, limit_s: float = 0.0) -> int | None:
        """Return the status once it has ended, or None after `limit_s`."""
        end = time.monotonic() + limit_s
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() >= end:
                return None
            time.sleep(0.01)

    def end(self) -> Done:
        """Wait for it."""
        status = self.ended(LIMIT_S)
        if status is None:
            self.kill()
        return Done(status=status, output=self.output.read_text(encoding="utf-8", errors="replace"))

    def kill(self) -> None:
        """Kill it, and nothing that it has started."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _become(arguments: tuple[str, ...], environment: dict[str, str], folder: Path, output: Path) -> NoReturn:
    """Go on as the command, in a fresh fork, and end the process."""
    code: object = 1
    try:
        atexit._clear()
        weakref.finalize._registry.clear()  # of what this process has to clean up, the parent does it
        weakref.finalize._registered_with_atexit = False
        os.setsid()
        handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(handle, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None  # which this process has asked for already
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        if arguments[0] == "wheel":
            sys.argv = [arguments[0]]
            Path("dist").mkdir(exist_ok=True)
            importlib.import_module(arguments[1]).build_wheel("dist")
            code = 0
        else:
            cli.main(arguments)
    except SystemExit as end:
        code = end.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            atexit._run_exitfuncs()
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


class Area:
    """A project in `root`/project with its own cache and folder for temporary files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project, self.cache, self.temporary = (root / name for name in ("project", "cache", "tmp"))
        self.lock, self.package = self.project / LOCK, self.project / MODULE

    def create(self, table: str = HATCH) -> None:
        """Write the sources."""
        for folder in (self.project / "src" / "tiny", self.project / "kernels", self.cache, self.temporary):
            folder.mkdir(parents=True)
        (self.project / "pyproject.toml").write_text(table, encoding="utf-8")
        (self.project / "src" / "tiny" / "__init__.py").touch()
        spec = (KERNELS / "axpy.toml").read_text(encoding="utf-8")
        spec = spec.replace("[4096, 1048576, 16777216]", "[1024, 16384]").replace("[128, 256, 512, 1024]", "[128, 256]")
        spec = spec.replace("[1, 2, 4, 8]", "[1, 2]").replace('["float32", "float16"]', '["float32"]')
        spec = spec.replace("rtol = { float32 = 1e-6, float16 = 1e-3 }", "rtol = { float32 = 1e-6 }")
        (self.project / "kernels" / "axpy.toml").write_text(spec, encoding="utf-8")
        shutil.copy(KERNELS / "axpy.cu.jinja", self.project / "kernels")
        reference = (KERNELS / "reference.py.in").read_text(encoding="utf-8")
        (self.project / "kernels" / "reference.py").write_text(reference, encoding="utf-8")

    def copy(self, root: Path) -> Area:
        """Return a copy of it all."""
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self.root, root, symlinks=True)
        return Area(root)

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of commands."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PRETUNED", "FAULT", "CXX"))}
        own = {"PRETUNED_CACHE_DIR": str(self.cache), "TMPDIR": str(self.temporary), "SOURCE_DATE_EPOCH": "1700000000"}
        own["CUDA_VISIBLE_DEVICES"] = ""  # a GPU would be tuned on, with another result each time
        return {**kept, **own, "COLUMNS": "200", "PYTHONDONTWRITEBYTECODE": "1", **(extra or {})}

    def start(
        self, *arguments: str, extra: Mapping[str, str] | None = None, first: Callable[[], None] = lambda: None
    ) -> Running:
        """Start `pretuned ARGUMENTS`, or `wheel BACKEND`, in a fork of this process that has imported all of it."""
        output = self.root / f"output-{time.monotonic_ns()}"
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            first()
            _become(arguments, self.environment(extra), self.project, output)
        return Running(pid=pid, output=output)

    def run(
        self, *arguments: str, extra: Mapping[str, str] | None = None, first: Callable[[], None] = lambda: None
    ) -> Done:
        """Run a command to its end; `first` is called in its process."""
        return self.start(*arguments, extra=extra, first=first).end()

    def litter(self) -> Iterator[tuple[str, str]]:
        """Yield what lies where nothing of ours may be: temporaries in the project, folders in TMPDIR."""
        for file in [*self.project.rglob("*.writing-*"), *self.temporary.glob("pretuned-*/")]:
            yield LEFT, str(file.relative_to(self.root))

    def children(self) -> Iterator[tuple[str, str]]:
        """Yield the processes of this area that do not end."""
        end = time.monotonic() + GOES_S
        while (found := list(self._processes())) and time.monotonic() < end:
            time.sleep(0.05)
        for pid, command in found:
            yield HUNG, f"process {pid} stays: {command[:100]}"
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _processes(self) -> Iterator[tuple[int, str]]:
        mark = f"PRETUNED_CACHE_DIR={self.cache}\0".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes():
                    state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                    if state != "Z":
                        yield int(folder.name), (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()


def content(path: Path) -> str:
    """Return a digest of a file's or a folder's content, or an empty text where there is none."""
    if not os.access(path, os.R_OK):
        return "not to be read" if path.exists() else ""
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    files = sorted(file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    digests = [(file.relative_to(path).as_posix(), hashlib.sha256(file.read_bytes()).hexdigest()) for file in files]
    return hashlib.sha256(repr(digests).encode()).hexdigest() if files else ""
