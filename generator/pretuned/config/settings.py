"""What environment variables say about a build, as frozen `Settings`; nothing else here reads the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, cast, get_args

import platformdirs

from pretuned.config.project import Mode, Project, bad_mode, shown
from pretuned.errors import ConfigError, Fault

_TUNE_ON: Final = re.compile(r"auto|host|cuda(:[0-9]{1,4})?")
HOST: Final = "host"

Where = int | Literal["host"]  # to tune on: a GPU, by CUDA's ordinal, or the host device


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the environment says: None leaves it to the table. `device` is what to tune on."""

    mode: Mode | None = None
    device: Where = 0
    budget_s: float | None = None
    cache: Path


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Read `PRETUNED_MODE`, `_TUNE_ON`, `_BUDGET` and `_CACHE_DIR`; empty ones count as unset.

    Raises ConfigError with every bad value, each under the variable's name.
    """
    found = os.environ if environ is None else environ
    values = {name: found.get(name, "").strip() for name in _VARIABLES}
    faults = [
        Fault(file="", path=name, message=message)
        for name, judge in _VARIABLES.items()
        if values[name] and (message := judge(values[name]))
    ]
    if faults:
        raise ConfigError(faults)
    mode, tune_on, budget, cache = values.values()
    return Settings(
        mode=cast("Mode", mode) if mode else None,
        device=where(tune_on),
        budget_s=float(budget) if budget else None,
        cache=Path(cache).expanduser().absolute() if cache else platformdirs.user_cache_path("pretuned"),
    )


def cxx() -> str:
    """Return the C++ compiler that CXX names, without options (`ccache g++` gives the last word), or nothing."""
    words = os.environ.get("CXX", "").split()
    return words[-1] if words and not words[-1].startswith("-") else ""


def _judge_mode(value: str) -> str:
    return "" if value in get_args(Mode) else bad_mode(value)


def where(text: str) -> Where:
    """Return what `auto`, `cuda:1` or `host` means; raises ValueError for other texts."""
    if message := text and judge_tune_on(text):
        raise ValueError(message)
    return HOST if text == HOST else int(text.partition(":")[2] or 0)


def judge_tune_on(value: str) -> str:
    """Return what is wrong with a device to tune on, or nothing."""
    return "" if _TUNE_ON.fullmatch(value) else f"is {shown(value)}; expected 'auto', 'cuda', 'cuda:1' or 'host'"


def _judge_budget(value: str) -> str:
    return (
        ""
        if re.fullmatch(r"\d+(\.\d*)?|\.\d+", value, re.ASCII)
        else f"is {shown(value)}; expected seconds, such as '60'"
    )


def _judge_cache(value: str) -> str:
    return f"'{value}' is a file; expected a folder" if Path(value).expanduser().is_file() else ""


_VARIABLES: Final = {
    "PRETUNED_MODE": _judge_mode,
    "PRETUNED_TUNE_ON": judge_tune_on,
    "PRETUNED_BUDGET": _judge_budget,
    "PRETUNED_CACHE_DIR": _judge_cache,
}


def overlay(project: Project, settings: Settings) -> Project:
    """Return the project with the environment's mode and budget in place of the table's."""
    return replace(
        project,
        mode=settings.mode or project.mode,
        budget_s=project.budget_s if settings.budget_s is None else settings.budget_s,
    )
