"""The numbers of a call in the source of the fast path: of which types they may be, and how they are packed.

A number of one type is compared with what that may be; one that is of an integer type or of a floating one, as the
arrays are, with what its entry says. Structs and complex numbers are turned into their bytes first: as keys these are
exact, where -0.0 == 0.0 is not, and NaN is no key at all.
"""

from __future__ import annotations

from ..checks import types_of
from ..scalars import type_of
from ..types import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..table import Foreign, Kernel

KINDS = {  # the others are integers
    "bool": "type({s}) is bool",
    "complex": "(type({s}) is complex or type({s}) is float or type({s}) is int)",
    "float": "(type({s}) is float or type({s}) is int)",
}
PYTHON = {  # the same, as sets
    "bool": frozenset({bool}),
    "complex": frozenset({complex, float, int}),
    "float": frozenset({float, int}),
}
AS_BYTES = frozenset({"struct", "complex"})


class Numbers:
    """The numbers that calls of a kernel bring, by their place among each other.

    `slots` are those of an entry, which `of_entry` fills: `c0`, ... what a number may be, and `bytes0`, ... what makes
    it bytes, of each for which that depends on the arrays' types. `names` are those that the source uses for the rest.
    `values` are what is packed, `typed` whether that depends on the arrays' types.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._kinds = [sorted({self._kind(name) for name in types_of(kernel, one.dtype)}) for one in kernel.scalars]
        as_bytes = [i for i, kinds in enumerate(self._kinds) if AS_BYTES & {*kinds}]
        fixed = {i for i, one in enumerate(kernel.scalars) if one.dtype in {*DTYPES, *kernel.structs}}
        self._as_bytes = as_bytes
        self.typed = len(fixed) < len(self._kinds)
        self.slots = [f"c{i}" for i, kinds in enumerate(self._kinds) if len(kinds) > 1]
        self.slots += [f"bytes{i}" for i in as_bytes if i not in fixed]
        self.names: dict[str, Foreign] = {
            f"bytes{i}": type_of(kernel, kernel.scalars[i].dtype).code_of for i in as_bytes if i in fixed
        }
        self.values = [f"{'b' if i in as_bytes else 's'}{i}" for i in range(len(self._kinds))]

    def of_entry(self, numbers: Sequence[str]) -> dict[str, Foreign]:
        """Return the slots of an entry whose numbers are of these types."""
        found: dict[str, Foreign] = {}
        for i, dtype in enumerate(numbers):
            kind = self._kind(dtype)
            found[f"c{i}"] = PYTHON.get(kind, frozenset({int}))
            found[f"bytes{i}"] = type_of(self._kernel, dtype).code_of if kind in AS_BYTES else _itself
        return found

    def _kind(self, dtype: str) -> str:
        """Return float, complex, bool, int or struct."""
        return type_of(self._kernel, dtype).kind.removeprefix("u")

    def made_bytes(self) -> Iterator[str]:
        """Yield the lines that make numbers bytes; None cannot be packed, and the slow path reports what it was."""
        for i in self._as_bytes:
            known = "" if self._kinds[i] == ["struct"] else f" if {self._plain(i)} else None"
            yield f"b{i} = bytes{i}(s{i}){known}"

    def conditions(self, *, floating: bool) -> Iterator[str]:
        """Yield that numbers are of the types that are passed as they are."""
        for i, kinds in enumerate(self._kinds):
            if (kinds == ["float"]) is floating and i not in self._as_bytes:
                yield self._plain(i)

    def _plain(self, index: int) -> str:
        """Return that a number is of a type that is passed as it is."""
        kinds = self._kinds[index]
        text = f"type({{s}}) in c{index}" if len(kinds) > 1 else KINDS.get(kinds[0], "type({s}) is int")
        return text.format(s=f"s{index}")


def floats(kernel: Kernel, numbers: Sequence[str], before: int) -> list[int]:
    """Return the places of real numbers of these types, behind `before` other values."""
    return [place for place, dtype in enumerate(numbers, before) if type_of(kernel, dtype).kind == "float"]


def _itself(value: Foreign) -> Foreign:
    return value
