"""Usage files: which problems programs have called how often, as generated packages write them for PRETUNED_USAGE.

There is one JSON object per line. Every process adds its lines when it ends, so that a problem may stand on many of
them: lines that differ in their number of calls alone are read once. What can write the file can write anything into
it: a line is read whole or passed over, and what is passed over is reported with its number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pretuned.config.toml import INT64_MAX
from pretuned.render import digest
from pretuned.runtime.nearest import MeasuredSizes
from pretuned.runtime.records import Value
from pretuned.spec import space
from pretuned.spec.model import KernelSpec
from pretuned.spec.sizes import sizes_of
from pretuned.spec.space import Pairs, Problem

FORMAT: Final = 1
NEAR: Final = 1.5  # by what factor a called size may differ from a measured one
_LINE_BYTES: Final = 1 << 16
_CALLS: Final = re.compile(rb', "calls": ([1-9][0-9]{0,17})\}\s*$')  # as generated packages end a line


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """What `lines` say: `kernel` of `package` was called `calls` times; `dims` holds constant dims too."""

    lines: Sequence[int]
    package: str
    kernel: str
    specialisation: Mapping[str, Value]
    dims: Mapping[str, int]
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A line that cannot be read, and why."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Sizes of a dim that were called far from all measured ones, with their calls, the most called first.

    `sizes` are the measured ones with the fewest of those, the most called first, that leave none far.
    """

    dim: str
    calls: Mapping[int, int]
    sizes: tuple[int, ...]


def read(path: Path) -> tuple[list[Called], list[Unread]]:
    """Return what the lines of a usage file say, each of them once, and those that cannot be read; raises OSError."""
    said: dict[bytes, tuple[list[int], dict[str, Any]]] = {}  # by a line without its calls
    unread: list[Unread] = []
    with path.open("rb") as file:
        number = 0
        while line := file.readline(_LINE_BYTES):
            number += 1
            if len(line) == _LINE_BYTES and not line.endswith(b"\n"):
                while (rest := file.readline(_LINE_BYTES)) and not rest.endswith(b"\n"):
                    pass
                unread.append(Unread(line=number, reason="too long"))
            elif line.strip():
                found = _CALLS.search(line)
                key = line[: found.start()] if found else b"%d" % number  # what ends otherwise is read by itself
                if found and key in said:
                    said[key][0].append(number)
                    said[key][1]["calls"] += int(found[1])
                elif isinstance(data := _parsed(line), str):
                    unread.append(Unread(line=number, reason=data))
                else:
                    said[key] = [number], data
    return [Called(lines=lines, **data) for lines, data in said.values()], unread


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_specialisation(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(one, bool | int | str) for one in value.values())


def _are_sizes(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_count, value.values()))


def _is_number_of_calls(value: object) -> bool:
    return _is_count(value) and value != 0


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= INT64_MAX


_KEYS: Final[Mapping[str, Callable[[object], bool]]] = {
    "package": _is_text,
    "kernel": _is_text,
    "specialisation": _is_specialisation,
    "dims": _are_sizes,
    "calls": _is_number_of_calls,
}


def _parsed(line: bytes) -> dict[str, Any] | str:
    """Return what a line says, or why it cannot be read."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return "is not JSON, or is cut off"
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        return f"is not of format {FORMAT}"
    if wrong := [name for name, is_sound in _KEYS.items() if not is_sound(data.get(name))]:
        return f"`{wrong[0]}` is missing, or of the wrong kind"
    return {name: data[name] for name in _KEYS}


def digest_of(calls: Mapping[Problem, int]) -> str:
    """Return the digest of how often the problems of a specialisation were called; empty where none was."""
    return digest(sorted([problem.dims, count] for problem, count in calls.items())) if calls else ""


class Answers:
    """Which problem was called, and which of those that a spec has measured answers for it."""

    def __init__(self, spec: KernelSpec) -> None:
        self._spec = spec
        # By text, in which true is not 1.
        self._problems = {
            repr(one): {_sizes(problem): problem for problem in space.problems(spec, one)}
            for one in space.specialisations(spec)
        }
        self._measured = {one: MeasuredSizes(problems) for one, problems in self._problems.items() if problems}
        self._read: dict[str, tuple[Pairs, str]] = {}
        self._order = sorted(spec.free_dims)

    def exact(self, called: Called) -> Problem | None:
        """Return the problem itself; None where the spec admits no such call, or where it leaves nothing to do."""
        if called.dims.keys() != self._spec.dims.keys() or not all(called.dims.values()):
            return None
        specialisation, text = self._specialisation(called)
        if text not in self._problems:
            return None
        problem = Problem(
            specialisation=specialisation, dims=tuple([(name, called.dims[name]) for name in self._order])
        )
        return problem if space.admitted(self._spec, problem) else None

    def of(self, called: Called) -> Problem | None:
        """Return the measured problem, as calls find their row; None where the spec has none for such a call."""
        if called.dims.keys() != self._spec.dims.keys():
            return None
        _, text = self._specialisation(called)
        if text not in self._measured:
            return None
        sizes = tuple([called.dims[name] for name in self._order])
        return self._problems[text][self._measured[text].nearest(sizes)]

    def _specialisation(self, called: Called) -> tuple[Pairs, str]:
        """Return the specialisation of a call, and its text; the few that there are come again and again."""
        constant = {name: called.dims[name] for name in self._spec.constant_dims}
        key = f"{called.specialisation} {constant}"
        if key not in self._read:
            found = space.pairs({**space.tuned(self._spec, called.specialisation), **constant})
            self._read[key] = found, repr(found)
        return self._read[key]


def _sizes(problem: Problem) -> tuple[int, ...]:
    return tuple(int(size) for _, size in problem.dims)


def gaps(spec: KernelSpec, calls: Iterable[Called]) -> Iterator[Gap]:
    """Yield a gap for each dim of which some called size differs from all measured ones by more than `NEAR`."""
    read = [(called, space.tuned(spec, called.specialisation)) for called in calls]
    specialisations = {repr(one): one for _, one in read}
    for name in spec.free_dims:
        measured = {text: sizes_of(spec, name, one) for text, one in specialisations.items()}
        far: dict[int, int] = {}
        for called, specialisation in read:
            size = called.dims[name]
            if size and not _is_near(size, measured[repr(specialisation)]):  # an empty call costs nothing
                far[size] = far.get(size, 0) + called.calls
        ordered = sorted(far, key=lambda size: (-far[size], size))
        added: list[int] = []
        for size in ordered:
            if not _is_near(size, added):
                added.append(size)
        if far:
            sizes = tuple(sorted({*sizes_of(spec, name), *added}))
            yield Gap(dim=name, calls={size: far[size] for size in ordered}, sizes=sizes)


def _is_near(size: int, sizes: Iterable[int]) -> bool:
    return any(max(size, other) <= NEAR * min(size, other) for other in sizes)
