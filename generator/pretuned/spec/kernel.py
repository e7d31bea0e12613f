"""`pretuned.kernel`: a kernel spec as a value of Python, for modules that declare kernels.

It has the document that a NAME.toml would have, and is read as one. So every key, check and message is the file's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from typing import Unpack

    from pretuned.spec.documents import KernelKeys

FUNCTIONS: Final = frozenset(  # where one may stand
    {"verify.reference", "verify.gpu_reference", "verify.inputs", "verify.compare"}
)
_DEEPEST: Final = 40  # tables within tables; a spec has six


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredKernel:
    """A kernel as a module declares it, in the file and line that it was made in.

    `document` is plain data, but for functions; `faults` has paths in it, and what is not plain data there.
    """

    name: str
    document: Mapping[str, Any] = field(compare=False)
    faults: tuple[tuple[str, str], ...] = ()
    file: str
    line: int

    def __repr__(self) -> str:
        return f"pretuned.kernel({self.name!r})"


def kernel(name: str, **document: Unpack[KernelKeys]) -> DeclaredKernel:
    """Declare a kernel: its name, and the keys of a kernel spec as keyword arguments.

    Keys, values and meaning are those of NAME.toml, with underscores for hyphens where a key has one. Tables are
    dicts, lists are lists or tuples, and None is a key that is left out. Numbers and arrays of NumPy are numbers and
    lists. `template` is the path of a file, or, where it has more than one line, the template itself. The functions of
    `verify` are given as in the file, `"reference.py:axpy"`, or as functions that a file of the folder defines at its
    top level. Paths are relative to the folder of the module that declares the kernel.

    Nothing is checked here: a build and every command check all kernels, and report all faults together; `checked` does
    it for one. What it was made of may change afterwards, a kernel does not.
    """
    faults: list[tuple[str, str]] = []
    if not isinstance(name, str):
        faults.append(("", f"is named by a value of type {type(name).__name__}; write a name in quotes"))
    frame = sys._getframe(1)  # noqa: SLF001 - which is how a value knows where it is declared
    return DeclaredKernel(
        name=name if isinstance(name, str) else "",
        document=_table(document, "", faults),
        faults=tuple(faults),
        file=frame.f_code.co_filename,
        line=frame.f_lineno,
    )


def _table(value: Mapping[Any, Any], path: str, faults: list[tuple[str, str]]) -> dict[str, Any]:
    """Return a table as plain data, without the keys that are None."""
    found = {}
    for key, item in value.items():
        where = f"{path}.{key}" if path else str(key)
        if not isinstance(key, str):
            faults.append((where, f"is a key of type {type(key).__name__}; write a text"))
        elif item is not None:
            found[str(key)] = _plain(item, where, faults)
    return found


def _plain(value: Any, path: str, faults: list[tuple[str, str]]) -> Any:  # noqa: ANN401 - what a spec holds
    """Return a value as plain data, and a copy; add to `faults` what cannot be."""
    if type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "tolist"):
        value = value.tolist()
    match value:
        case bool():
            return value
        case int() | float():
            return (int if isinstance(value, int) else float)(value)
        case str():
            if not _is_utf8(value):
                faults.append((path, "has half a surrogate pair, which no file can hold"))
            return str.__str__(value)  # of a member of an enumeration its value
        case Mapping() | list() | tuple() | range() if path.count(".") + path.count("[") > _DEEPEST:
            faults.append((path[:80], "is nested too deep"))
        case Mapping():
            return _table(value, path, faults)
        case list() | tuple() | range():
            return [_plain(item, f"{path}[{index}]", faults) for index, item in enumerate(value)]
        case _ if not (path in FUNCTIONS and callable(value)):
            faults.append((path, _unfit(value)))
            value = None  # the document is pickled on its way out of the module's process
    return value


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unfit(value: object) -> str:
    """Return what is wrong with a value that no TOML file could hold."""
    if isinstance(value, set | frozenset):
        return "is a set, which has no order; write a list, or sorted(...)"
    if callable(value):
        listed = ", ".join(sorted(FUNCTIONS))
        return f"is a function, and only {listed} may be one; write its result"
    if isinstance(value, Iterable):
        return f"is of type {type(value).__name__}; write list(...)"
    return f"is of type {type(value).__name__}; write a text, a number, a bool, a list or a dict"
