"""Folders that are public functions as well: `pretuned.tune(...)` calls what `pretuned.api` has under that name.

Importing a module of a folder binds the folder to its name in `pretuned`, at any time. So the folder itself is what is
called, whether it was imported before or not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, Final

_HOMES: Final = {"tune": "pretuned.api.tuning", "bake": "pretuned.api.baking", "report": "pretuned.api.reporting"}


class Verb(ModuleType):
    """A folder that is called as the function of its name is; `inspect` finds the signature."""

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        name = self.__name__.rpartition(".")[2]
        function: Callable[..., Any] = getattr(import_module(_HOMES[name]), name)
        return function

    def __call__(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - the function's own
        """Call the function."""
        return self.__wrapped__(*arguments, **named)


def be_called(folder: str) -> None:
    """Have the package `folder`, which imports this, be one."""
    sys.modules[folder].__class__ = Verb
