"""The reader of a command line: what it cannot read is reported in one line, which says what to write instead."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Final, NoReturn

from pretuned.errors import UsageError
from pretuned.runtime.text import closest, no_such

_CHOICE: Final = re.compile(
    r"(?:argument (?P<what>[^:]*): )?invalid choice: '(?P<given>.*)' \(choose from (?P<known>.*)\)",
    re.DOTALL,
)

_REQUIRED: Final = "the following arguments are required: "


class Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse prints its usage, which hides the error below it, and exits."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse found, with the nearest name, or with the command that lists the options."""
        if choice := _CHOICE.fullmatch(message):
            what, given, known = (
                (choice["what"] or "value").lower(),
                choice["given"],
                re.findall(r"[\w-]+", choice["known"]),
            )
            if what.startswith("-"):
                raise UsageError(f"{what}: is '{given}'; expected {', '.join(known[:-1])} or {known[-1]}")
            raise UsageError(no_such(what, given, known))
        text = message.removeprefix("argument ")
        if text.startswith(_REQUIRED):
            name = text.removeprefix(_REQUIRED)
            known = [str(choice) for action in self._actions if action.dest == name for choice in action.choices or ()]
            text = f"{self.prog} needs {' or '.join(known) or name}"
        raise UsageError(text if ";" in text else f"{text}; see `{self.prog} --help`")

    def refuse(self, extra: Sequence[str]) -> NoReturn:
        """Raise that this command has no such option, or takes no such argument."""
        first = extra[0]
        if not first.startswith("-"):
            raise UsageError(f"`{self.prog}` takes no '{first}' there; see `{self.prog} --help`")
        name = first.partition("=")[0]
        near = closest(name, re.findall(r"--[a-z0-9-]+", self.format_usage()))
        raise UsageError(f"`{self.prog}` has no option {name}{near or f'; see `{self.prog} --help`'}")


def read(root: Parser, arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options; raises UsageError. A command's own reader is its default `reader`."""
    options, extra = root.parse_known_args(arguments)
    if extra:
        reader: Parser = getattr(options, "reader", root)
        reader.refuse(extra)
    return options
