"""`compile.options`: nothing that pretuned sets itself, and nothing twice with two values.

NVRTC takes the last of two values with a warning that nobody reads: with `-arch=sm_80` a binary for sm_80 would be
shipped as one for sm_90.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pretuned.spec.check.names import PathFault

_ARCHITECTURE: Final = re.compile(r"-+(arch|gpu-architecture|gencode|generate-code|gpu-code|code)\b")
_OWN: Final = "every device's own architecture is compiled for (`arch-specific = true` asks for sm_90a)"
_VALUED: Final = re.compile(r"-+(?P<name>[A-Za-z][\w-]*)(?:=|\s+)(?P<value>.*)", re.DOTALL)
_LISTED: Final = re.compile(r"-+([DUIX]|define-macro|undefine-macro|ptxas-options|diag-|relocatable)")  # add up


def option_faults(options: Sequence[str]) -> Iterator[PathFault]:
    """Yield the faults of `compile.options`, which are written as in the spec."""
    first: dict[str, str] = {}
    for index, option in enumerate(options):
        path = f"compile.options[{index}]"
        if _ARCHITECTURE.match(option):
            yield path, f"'{option}': remove it; {_OWN}"
            continue
        found = _VALUED.match(option)
        if found is None or _LISTED.match(option):
            continue
        name = found["name"]
        if first.setdefault(name, option) != option:
            yield path, f"'{option}' contradicts '{first[name]}', and the compiler would take the last; remove one"
