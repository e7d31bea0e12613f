"""What environment variables say about a build, as frozen `Settings`; nothing else here reads the environment."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final, Literal, Self, cast, get_args

import platformdirs

from pretuned.config.project import Effort, Mode, Project, bad_effort, bad_mode
from pretuned.config.toml import spelled
from pretuned.errors import ConfigError, Fault

Progress = Literal["auto", "plain", "off"]

BACKEND_GROUP: Final = "pretuned.backends"  # of entry points
_TUNE_ON: Final = re.compile(r"([a-z][a-z0-9_]*)(?::([0-9]{1,4}))?")
_backends: Final = {"cuda", "host"}


def name_backend(name: str) -> None:
    """Have `name` be one that `Place.parse` knows; see `pretuned.backends.register`."""
    _backends.add(name)


def backend_names() -> list[str]:
    """Return the names of all backends, those of installed packages included."""
    return sorted(_backends | _installed())


def is_backend(name: str) -> bool:
    """Return whether a backend has this name, and so has its device in rows. GPUs have names of their own."""
    return name in _backends or (bool(_TUNE_ON.fullmatch(name)) and name in _installed())


@cache
def _installed() -> frozenset[str]:
    return frozenset(entry_points(group=BACKEND_GROUP).names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A device to tune on: the backend's name, and the number of one of its devices, of GPUs CUDA's ordinal.

    `every`: nobody named one, so that tuning may use all devices of the machine; `index` is then the first.
    """

    backend: str = "cuda"
    index: int = 0
    every: bool = False

    def __str__(self) -> str:
        return f"{self.backend}:{self.index}" if self.index else self.backend

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return what `auto`, `cuda:1` or `host` means; raises ValueError for other texts."""
        if text in {"", "auto"}:
            return cls(every=True)
        match = _TUNE_ON.fullmatch(text)
        if match is None or not is_backend(match[1]):
            others = [f"'{name}'" for name in backend_names() if name != "cuda"]
            known = ", ".join(["'auto'", "'cuda'", "'cuda:1'", *others[:-1]]) + f" or {others[-1]}"
            raise ValueError(f"is {spelled(text)}; expected {known}")
        return cls(backend=match[1], index=int(match[2] or 0))


GPU: Final = Place()  # the first one
GPUS: Final = Place(every=True)


def place_of(project: Project, place: Place) -> Place:
    """Return where a project is tuned: at the place that was named, else at that of its table."""
    return Place.parse(project.devices) if place.every and project.devices != "all" else place


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the environment says: None leaves it to the table. `device` is what to tune on.

    `progress` says how a tuning shows it: on a terminal a display and elsewhere lines (`auto`), lines, or nothing.
    """

    mode: Mode | None = None
    device: Place = GPUS
    budget_s: float | None = None
    effort: Effort | None = None
    cache: Path | None  # None: there is no folder for it
    progress: Progress = "auto"


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Read `PRETUNED_MODE`, `_TUNE_ON`, `_BUDGET`, `_CACHE_DIR`, `_PROGRESS` and `_EFFORT`; empty ones count as unset.

    Raises ConfigError with every bad value, each under the variable's name, and with every name that is one of these
    misspelt: a build in mode locked that is not would ship something else in silence.
    """
    found = os.environ if environ is None else environ
    values = {name: found.get(name, "").strip() for name in _VARIABLES}
    faults = [
        Fault(file="", path=name, message=message)
        for name, judge in _VARIABLES.items()
        if values[name] and (message := judge(values[name]))
    ]
    faults += [
        Fault(file="", path=name, message=f"there is no such variable; did you mean '{meant}'?")
        for name in sorted(found)
        if name.startswith(_PREFIX) and name not in _VARIABLES and (meant := _meant(name)) is not None
    ]
    if faults:
        raise ConfigError(faults)
    mode, tune_on, budget, cache, progress, effort = values.values()
    return Settings(
        mode=cast("Mode", mode) if mode else None,
        device=Place.parse(tune_on),
        budget_s=float(budget) if budget else None,
        cache=Path(cache).expanduser().absolute() if cache else _user_cache(),
        progress=cast("Progress", progress) if progress else "auto",
        effort=cast("Effort", effort) if effort else None,
    )


def _meant(name: str) -> str | None:
    """Return the variable that a name misspells, or None for one of run time, or of somebody else's."""
    from difflib import get_close_matches  # noqa: PLC0415 - slow to import, and needed for unknown names alone

    known = {variable.removeprefix(_PREFIX): variable for variable in _VARIABLES}
    near = get_close_matches(name.removeprefix(_PREFIX).upper(), known, n=1, cutoff=_NEAR)
    return known[near[0]] if near else None


def _user_cache() -> Path | None:
    """Return the platform's folder, or None for a user without a home: a number in a container, say."""
    try:
        return platformdirs.user_cache_path("pretuned")
    except RuntimeError:
        return None


def cxx() -> str:
    """Return the C++ compiler that CXX names, without options (`ccache g++` gives the last word), or nothing."""
    words = os.environ.get("CXX", "").split()
    return words[-1] if words and not words[-1].startswith("-") else ""


def _judge_mode(value: str) -> str:
    return "" if value in get_args(Mode) else bad_mode(value)


def _judge_tune_on(value: str) -> str:
    try:
        Place.parse(value)
    except ValueError as error:
        return str(error)
    return ""


def _judge_budget(value: str) -> str:
    return (
        ""
        if re.fullmatch(r"\d+(\.\d*)?|\.\d+", value, re.ASCII)
        else f"is {spelled(value)}; expected seconds, such as '60'"
    )


def _judge_cache(value: str) -> str:
    try:
        is_file = stat.S_ISREG(Path(value).expanduser().stat().st_mode)
    except RuntimeError:
        return f"{spelled(value)}: there is no such user; expected a folder"
    except OSError as error:
        too_long = error.errno == errno.ENAMETOOLONG
        return f"has {len(value)} characters, too many for a path; expected a folder" if too_long else ""
    except ValueError as error:
        return f"is {spelled(value)} ({error}); expected a folder"
    return f"'{value}' is a file; expected a folder" if is_file else ""


def _judge_progress(value: str) -> str:
    return "" if value in get_args(Progress) else f"is {spelled(value)}; expected 'auto', 'plain' or 'off'"


def _judge_effort(value: str) -> str:
    return "" if value in get_args(Effort) else bad_effort(value)


_PREFIX: Final = "PRETUNED_"
_NEAR: Final = 0.8  # of `difflib`: a letter of five, and no variable of run time is as near to one of these
_VARIABLES: Final = {
    "PRETUNED_MODE": _judge_mode,
    "PRETUNED_TUNE_ON": _judge_tune_on,
    "PRETUNED_BUDGET": _judge_budget,
    "PRETUNED_CACHE_DIR": _judge_cache,
    "PRETUNED_PROGRESS": _judge_progress,
    "PRETUNED_EFFORT": _judge_effort,
}


def overlay(project: Project, settings: Settings) -> Project:
    """Return the project with the environment's mode, budget and effort in place of the table's."""
    return replace(
        project,
        mode=settings.mode or project.mode,
        budget_s=project.budget_s if settings.budget_s is None else settings.budget_s,
        effort=settings.effort or project.effort,
    )
