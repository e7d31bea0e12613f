"""What the host's compiler says of a source, in one line: the error that explains the others, in the words of CUDA."""

from __future__ import annotations

import re
from typing import Final

from pretuned.render import NAME

# What `host_text` writes behind a source, by the file names that errors in it have: what calls its kernels, and what
# declares them once more as C functions, which C++ functions of the same name are not.
ENTRIES: Final = "entries"
LINKAGE: Final = "linkage"

_ERROR: Final = re.compile(r"\b(?:error|undefined reference)\b")
_UNKNOWN: Final = re.compile(r"not declared|does not name a type|undeclared|unknown type")
_BEHIND: Final = re.compile(rf"(?:{ENTRIES}|{LINKAGE}):|[^:]*\b(?:parameters|execution)\.h:")
_QUOTED: Final = re.compile(r"['\u2018](?:void )?(\w+)")
_NOTE: Final = re.compile(rf"^({NAME}:\d+:\d+): note: (?:['\u2018]([\w:]+)['\u2019] declared here)?", re.MULTILINE)


def first_error(log: str) -> str:
    """Return the error of a compiler's log that explains the others: an unknown name, or else the first.

    Where the source itself has none, but its kernel is not one that a launch finds, what to write instead.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.search(line)]
    own = [line for line in errors if not _BEHIND.match(line)]
    if own or not errors:
        return next(filter(_UNKNOWN.search, own), next(iter(own or lines), ""))
    return _of_a_kernel(errors[0], log[log.index(errors[0]) :])


def _of_a_kernel(error: str, log: str) -> str:
    """Return an error in what stands behind a source as one of the source; `log` begins with it."""
    name, note = _QUOTED.search(error), _NOTE.search(log)
    place = f"{note[1] if note else NAME}: error:"
    if name and error.startswith(LINKAGE) and "linkage" in error.partition("error:")[2]:
        return f"{place} write `extern \"C\" __global__ void {name[1]}(...)`: no launch finds '{name[1]}' without it"
    if name and note and note[2] and _UNKNOWN.search(error):
        return f"{place} '{name[1]}' is in a namespace: write `using {note[2]};` behind that for the host device"
    if "overloaded function" in error:
        return f"{place} another function has the name of a kernel: give it its own for the host device"
    return error
