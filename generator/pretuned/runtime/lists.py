"""Lists of arrays: taken apart before a call's arrays are looked at, and put together again in what it returns.

The arrays of a list `a` are arguments `a[0]`, `a[1]`, ... of which a call brings as many as the list has; those beyond
are arrays that it leaves out. Their addresses stand one behind the other among the values of a launch, and so are the
struct that the kernel takes.
"""

from __future__ import annotations

import math
import struct

from .adapters import on_gpu
from .adapters.adapter import kind_of
from .errors import ArgumentError, ArgumentTypeError, qualified
from .expressions import Integer
from .table import Array
from .types import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .adapters import ArrayView
    from .problem import Operands
    from .table import Foreign, Formula, Kernel, Scalar

BEYOND = (0,)  # stands for the shape of an array that a list does not have


class ArrayList(Array):
    """A list of at most `most` arrays, whose number is the dim `count`; `own` are the dims whose extents are theirs."""

    __slots__ = ("count", "members", "most", "own")

    def __init__(  # noqa: PLR0913 - a declaration
        self,
        name: str,
        role: str,
        dtype: str,
        text: str,
        shape: Formula,
        *,
        count: str,
        most: int,
        own: tuple[str, ...] = (),
        init: bool = False,
    ) -> None:
        super().__init__(name, role, dtype, text, shape, init=init)
        self.count, self.most, self.own = count, most, own
        self.members = tuple([Member(self, place) for place in range(most)])


class Member(Array):
    """An array of a list; all but the first are optional as arguments."""

    __slots__ = ("count", "own", "place", "whole")

    def __init__(self, listed: ArrayList, place: int) -> None:
        optional = place > 0 and listed.role != "out"
        head = f"{listed.name}[{place}]", listed.role, listed.dtype, listed.text, listed.shape
        super().__init__(*head, init=listed.init, optional=optional)
        self.count, self.own, self.place, self.whole = listed.count, listed.own, place, listed.name


def listed(kernel: Kernel, *call: Foreign) -> Foreign:
    """Run a call whose lists are given as such; the words that count their arrays are None."""
    arguments = [one for one in kernel.arguments if isinstance(one, Array)]
    arrays, rest = call[: len(arguments)], call[len(arguments) :]
    counts = _counts(kernel, arguments, arrays)
    flat: list[Foreign] = []
    for argument, given in zip(arguments, arrays, strict=True):
        several = (given,) if not argument.count else () if given is None else given
        flat += [*several, *(None,) * (len(argument.members or several) - len(several))]
    before = len(kernel.scalars)
    words = [counts.get(name, word) for name, word in zip(kernel.keywords, rest[before:-1], strict=True)]
    return kernel.run(*flat, *rest[:before], *words, rest[-1])


def _counts(kernel: Kernel, arguments: Sequence[Array], arrays: Sequence[Foreign]) -> dict[str, int]:
    """Return how many arrays lists have, by the dim that is their number; raises what is wrong with one."""
    found: dict[str, tuple[int, str]] = {}
    pairs = sorted(zip(arguments, arrays, strict=True), key=lambda pair: pair[0].role == "out")  # inputs first
    for argument, given in pairs:
        if not argument.count or (given is None and argument.role == "out"):
            continue
        where, most = f"{qualified(kernel.name)}: {argument.name}", len(argument.members)
        if not isinstance(given, (list, tuple)):
            one = "; write list() around it to pass its rows" if on_gpu(given) else ""
            kind = "one array" if on_gpu(given) else kind_of(given)
            raise ArgumentTypeError(f"{where}: expected a list of 1 to {most} arrays, found {kind}{one}")
        if not 1 <= len(given) <= most:
            several = "; pass the others by another call" if given else ""
            raise ArgumentError(f"{where}: expected 1 to {most} arrays, found {len(given)}{several}")
        for place, array in enumerate(given):
            if array is None:
                raise ArgumentTypeError(f"{where}[{place}]: expected an array, found None")
        count, first = found.setdefault(argument.count, (len(given), argument.name))
        if count != len(given):
            raise ArgumentError(f"{where}: expected {count} arrays as {first} has, found {len(given)}")
    return {name: count for name, (count, _) in found.items()}


def together(kernel: Kernel, results: Sequence[Foreign]) -> list[Foreign]:
    """Return the outputs of a call with each list as one."""
    found: list[Foreign] = []
    rest = list(results)
    for argument in kernel.arguments:
        if isinstance(argument, Array) and argument.role != "in":
            count = len(argument.members) or 1
            several, rest = rest[:count], rest[count:]
            found.append([one for one in several if one is not None] if argument.count else several[0])
    return found


def extents(place: tuple[Any, ...], given: Mapping[str, ArrayView]) -> tuple[int, ...]:
    """Return the extents that the arrays of a list have, whose sum is a dim; `place` is the dim's."""
    name, axis = place[0].removesuffix("[]"), place[1]
    found: list[int] = []
    while (member := f"{name}[{len(found)}]") in given:
        found.append(given[member].shape[axis])
    return tuple(found)


def note(kernel: Kernel, given: Mapping[str, ArrayView], known: Operands) -> None:
    """Put the extents of lists' arrays among what expressions read: of a dim `rows` as `rows[]`."""
    for name, place in kernel.dims.items():
        if place and place[0].endswith("[]"):
            known[f"{name}[]"] = tuple([Integer(one) for one in extents(place, given)])


def surroundings(array: Array, known: Operands) -> Operands | None:
    """Return what the shape of an array reads, if the call has it: of a list, the extents of its own."""
    if not isinstance(array, Member):
        return known
    if array.place >= known[array.count]:
        return None
    return {**known, **{name: known[f"{name}[]"][array.place] for name in array.own}}


def packed(scalar: Scalar, known: Operands) -> bytes:
    """Return the extents that a kernel is passed, in a multiple of 8 bytes."""
    found = known[f"{scalar.each}[]"]
    numbers = [*map(int, found), *(0,) * (scalar.most - len(found))]
    content = struct.pack(f"={scalar.most}{DTYPES[scalar.dtype].code}", *numbers)
    return content + bytes(-len(content) % 8)


def aligning(arrays: Sequence[Array], views: Sequence[ArrayView | None]) -> Callable[[str, int], bool]:
    """Return what says whether the address of an argument is a multiple of so many bytes; of a list, every address."""
    addresses: dict[str, int] = {}
    for array, seen in zip(arrays, views, strict=True):
        name = array.whole or array.name
        addresses[name] = math.gcd(addresses.get(name, 0), seen.address if seen else 0)
    return lambda name, nbytes: addresses[name] % nbytes == 0
