"""What a sanitizer says of a candidate, in one line: read from what the process printed before it ended."""

from __future__ import annotations

import re
from typing import Final

from pretuned.render import NAME

_UNDEFINED: Final = re.compile(rf"({re.escape(NAME)}:\d+)(?::\d+)?: runtime error: (.+)")
_ADDRESS: Final = re.compile(r"ERROR: AddressSanitizer: ([\w-]+)")
_ACCESS: Final = re.compile(r"^(READ|WRITE) of size (\d+)", re.MULTILINE)
_FRAME: Final = re.compile(rf"^\s*#\d+ .*?({re.escape(NAME)}:\d+)", re.MULTILINE)
_VARIABLE: Final = re.compile(r"is located (\d+) bytes (.*?)(?:global )?variable '([\w.]+)'")
_ARRAY: Final = re.compile(r"^kernel: array (\d+) (.+)$", re.MULTILINE)
_FAULT: Final = re.compile(r"^kernel: access (\w+)$", re.MULTILINE)
_PLACE: Final = re.compile(r"^kernel: (?!array|access)(.+) in (block .+)$", re.MULTILINE)


def crash_report(output: str) -> str | None:
    """Return what a process printed of its end, as `what, at which line, where (block, thread)`; None for nothing.

    The sanitizers are GCC's and Clang's: their reports differ in details that are left out here.
    """
    place = _PLACE.search(output)
    where = f" ({place[2]})" if place else ""
    array = _ARRAY.search(output)
    around = f"{int(array[1]):,} {array[2]}" if array else ""
    if match := _UNDEFINED.search(output):
        return f"undefined behaviour: {match[2].strip()}: {match[1]}{where}"
    if match := _ADDRESS.search(output):
        access, frame = _ACCESS.search(output), _FRAME.search(output)
        what = f"{access[1].lower()} of {access[2]} bytes" if access else match[1]
        variable = _VARIABLE.search(output)
        if around:
            what += f", {around}"
        elif variable:
            what += f", {variable[1]} bytes {variable[2].strip()} '{variable[3].rpartition('::')[2]}'"
        return f"out of bounds: {what}{f': {frame[1]}' if frame else ''}{where}"
    if around and (fault := _FAULT.search(output)):
        return f"{fault[1]} {around}{where}"
    if place:
        return f"{place[1]}{where}"
    return None
