"""The fast lane: for each kernel and array library one function, written for just that call.

A lane does what a call needs and no more. It finds the plan by what the arrays that decide the problem look like, holds
all arrays against what the plan expects (type, shape, contiguity, alignment, overlap), packs the block and launches.
Loops, tuples and calls would cost more than all of that, so the lane is written out as source for the kernel's
arguments and compiled. No data stands in that source: arguments go by number. Whatever a lane does not know, or does
not like, it leaves to `slow`, which takes the call from its beginning: it runs it, or says what is wrong.

The beginning of the lane of a kernel with arrays out and x, which decides the problem, and one float, for CuPy:

    def call(a0, a1, s0, stream):
        try:
            plan = get(a1.size)
            kind = a1.dtype
            while plan[0] is not kind:
                plan = plan[1]
            _, _, known, function, t0, e0, rest = plan
            handle = current().ptr if stream is None else handle_of(stream, ordinal)
            if a0 is None and stream is None:
                a0 = empty(rest[3], t0)
            p0 = a0.data.ptr
            p1 = a1.data.ptr
            if (
                a0.dtype is t0
                and a0.size == e0
                ...
            ):
                block = known((p0, p1, s0))
                if block is not None:
                    function(handle, block[3], 0)
                    return a0
                note, pool, several, x0, n0, n1 = rest
                ...
"""

from __future__ import annotations

import struct
import sys

from . import PACKAGE
from .checks import arrays_of, call_scalars
from .plans import CALLED, POINTER, STREAM_AT, VALUES_AT
from .types import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from . import Foreign, Kernel
    from .arrays import View
    from .dialects import Dialect

    # What finds packed blocks, the function, what notes calls, the pool, None; or what finds none, and what launches
    # several last, with None between.
    Start = tuple[Foreign, Foreign, Foreign, Foreign, Foreign]

FALLS = (AttributeError, IndexError, KeyError, OverflowError, TypeError, struct.error)
KINDS = {"float": "(type({s}) is float or type({s}) is int)", "bool": "type({s}) is bool"}  # the others are integers


class Lane:
    """What the lanes of a kernel ask, in numbers; `ranks` are those of its arrays.

    With `direct` launches go by CuPy's own `launchKernel`, which raises that; a lane that meets it leaves the call to
    `slow`, which knows how to tell of it, and what to do in a thread that has no context yet.

    A *key* is the device, where there are several, then the extent of each array that decides the problem, then
    keywords. Under a key stands a chain of *entries*, one for each type of the first deciding array. An entry is what a
    lane unpacks: that type; the next entry or None; what finds packed blocks, and the function; of each other array
    type and extent, of the other deciding ones the type; what counts the calls, where they are counted; and the rest,
    which calls that come again have no need of: what notes a call, the pool, what launches several (see `Start`), the
    shape of each output, and the bytes of each array that is in a pair that must not overlap.
    """

    def __init__(
        self,
        kernel: Kernel,
        moduli: Sequence[int],
        ranks: Sequence[int],
        dialect: Dialect,
        *,
        several_gpus: bool,
        direct: type[Exception] | None = None,
    ) -> None:
        self.kernel, self.dialect, self.several_gpus, self._direct = kernel, dialect, several_gpus, direct
        self._arrays = arrays_of(kernel)
        self._scalars = call_scalars(kernel)
        self._moduli, self._ranks = moduli, ranks
        names = [array.name for array in self._arrays]
        deciding = {names.index(argument) for argument, _ in kernel.dims.values()}
        for name in kernel.types:
            typed = [i for i, array in enumerate(self._arrays) if array.dtype == name and array.role != "out"]
            if not deciding & set(typed):
                deciding.add(typed[0])
        self._deciding = sorted(deciding)
        self._lead = next((i for i, array in enumerate(self._arrays) if array.role != "out"), 0)
        self._typing = self._deciding[0] if self._deciding else self._lead
        self._others = [i for i in range(len(names)) if i not in deciding]
        self._outputs = [i for i, array in enumerate(self._arrays) if array.role == "out"]
        self._pairs = [
            (i, j)
            for i, written in enumerate(self._arrays)
            for j, other in enumerate(self._arrays)
            if written.role != "in" and i != j and (other.role == "in" or i < j)
        ]
        self._paired = sorted({i for pair in self._pairs for i in pair})

    def function(self, names: dict[str, Foreign], *, watched: bool, counted: bool) -> Callable[..., Foreign]:
        """Return the lane, compiled.

        `watched` looks at every call for overrides, `counted` counts the calls. `names` are what the source uses
        besides its dialect's names: get, or memos and active; launch, handle_of and slow.
        """
        text = self.source(watched=watched, counted=counted)
        file = f"<{PACKAGE}.{self.kernel.name}, {self.dialect.library}>"
        if (linecache := sys.modules.get("linecache")) is not None:  # so that tracebacks show it
            linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
        codes = [POINTER] * len(self._arrays) + [DTYPES[scalar.dtype].slot for scalar in self._scalars]
        space = {
            **self.dialect.names,
            "pack": struct.Struct(("=" if self._direct else CALLED) + "".join(codes)).pack_into,
            "falls": (*FALLS, *([self._direct] if self._direct else [])),
            "ordinal": 0,
            **names,
        }
        exec(compile(text, file, "exec"), space)  # noqa: S102 - the source above, which has no data in it
        made: Callable[..., Foreign] = space["call"]
        return made

    def remember(
        self,
        memo: dict[Foreign, Foreign],
        views: Sequence[View],
        keywords: tuple[Foreign, ...],
        ordinal: int,
        start: Start,
        counter: Foreign,
    ) -> None:
        """Put the entry of a problem into `memo`, from its arrays' views."""
        extents = [self.dialect.told(views[i][2]) for i in self._deciding]
        parts = [*([ordinal] if self.several_gpus else []), *extents, *keywords]
        key = parts[0] if len(parts) == 1 else tuple(parts)
        known, function, *rest = start
        entry: list[Foreign] = [known, function]
        for i in range(len(self._arrays)):
            if i != self._typing:
                entry.append(self.dialect.type_of(views[i][1]))
            if i in self._others:
                entry.append(self.dialect.told(views[i][2]))
        entry += [] if counter is None else [counter]
        rest += [*(views[i][2] for i in self._outputs), *(views[i][4] for i in self._paired)]
        kind = self.dialect.type_of(views[self._typing][1])
        behind = None
        for one in reversed([*_chained(memo.get(key))]):
            if one[0] is not kind:
                behind = (one[0], behind, *one[2:])
        memo[key] = (kind, behind, *entry, tuple(rest))

    # The source.

    def source(self, *, watched: bool, counted: bool) -> str:
        """Return the source of the lane."""
        arrays, scalars = _numbered("a", len(self._arrays)), _numbered("s", len(self._scalars))
        words = _numbered("k", len(self.kernel.keywords))
        values = [*_numbered("p", len(arrays)), *scalars]
        packed = _tuple(values if self._direct else ["handle", *values])
        results = [f"a{i}" for i, array in enumerate(self._arrays) if array.role != "in"]
        answer = f"return {results[0] if len(results) == 1 else _tuple(results)}"
        count = ["next(counter)"] if counted else []
        first, *further = self._conditions()
        lookup = self._lookup(words, watched=watched)
        return "\n".join(
            (
                f"def call({', '.join([*arrays, *scalars, *words, 'stream'])}):",
                "    try:",
                *_indented(2, lookup),
                *_indented(2, self._unpacking(counted=counted)),
                "        if (",
                f"            {first}",
                *(f"            and {condition}" for condition in further),
                "        ):",
                f"            block = known({packed})",
                "            if block is not None:",
                *_indented(4, self._launching([*count, answer])),
                f"            {', '.join(self._rest())} = rest",
                *(f"            q{i} = p{i} + n{i}" for i in sorted({i for i, _ in self._pairs})),
                f"            if {' and '.join(self._of_values()) or 'True'}:",
                "                if several is None:",
                "                    block = pool.pop()",
                f"                    pack(block[0], {self._packing(values)})",
                *_indented(5, self._launching(["pool.append(block)", f"note({packed})", *count, answer])),
                f"                elif several(handle, {_tuple(values)}, stream is None):",
                *_indented(5, [*count, answer]),
                "    except falls:",
                "        pass",
                f"    return slow({_tuple(arrays)}, {_tuple(scalars)}, {_tuple(words)}, stream)",
                "",
            )
        )

    def _lookup(self, words: Sequence[str], *, watched: bool) -> Iterator[str]:
        if self.several_gpus:
            yield f"ordinal = {self._ask(self.dialect.device, self._lead)}"
        key = ["ordinal"] if self.several_gpus else []
        key += [*(self._ask(self._extent(i)[0], i) for i in self._deciding), *words]
        getter = "memos[active()].get" if watched else "get"
        yield f"plan = {getter}({key[0] if len(key) == 1 else _tuple(key)})"
        yield f"kind = {self._ask(self.dialect.dtype, self._typing)}"
        yield "while plan[0] is not kind:"  # a TypeError where there is none
        yield "    plan = plan[1]"

    def _unpacking(self, *, counted: bool) -> Iterator[str]:
        names = ["_", "_", "known", "function"]
        for i in range(len(self._arrays)):
            names += [f"t{i}"] if i != self._typing else []
            names += [f"e{i}"] if i in self._others else []
        names += ["counter"] if counted else []
        yield f"{', '.join([*names, 'rest'])} = plan"
        yield f"handle = {self.dialect.stream} if stream is None else handle_of(stream, ordinal)"
        at_home = f" and {self.dialect.current_device} == ordinal" if self.several_gpus else ""
        for place, i in enumerate(self._outputs, 3):
            yield f"if a{i} is None and stream is None{at_home}:"
            yield f"    a{i} = empty(rest[{place}], t{i})"
        yield from (f"p{i} = {self._ask(self.dialect.address, i)}" for i in range(len(self._arrays)))

    def _conditions(self) -> Iterator[str]:
        dialect = self.dialect
        if self.several_gpus:
            yield f"{dialect.current_device} == ordinal"
        for i in range(len(self._arrays)):
            extent, rank = self._extent(i)
            if i != self._typing:
                yield f"{self._ask(dialect.dtype, i)} is t{i}"
            if i in self._others:
                yield f"{self._ask(extent, i)} == e{i}"
            asked = [rank, dialect.contiguous, dialect.each]
            yield from (self._ask(expression, i) for expression in asked if expression)
            if self.several_gpus and i != self._lead:
                yield f"{self._ask(dialect.device, i)} == ordinal"
        yield from self._numbers(floating=False)
        if not self._arrays:
            yield "True"

    def _numbers(self, *, floating: bool) -> Iterator[str]:
        """Yield that numbers are of the types that are passed as they are."""
        for index, scalar in enumerate(self._scalars):
            dtype = DTYPES[scalar.dtype]
            if dtype.floating is floating:
                yield KINDS.get(dtype.kind, "type({s}) is int").format(s=f"s{index}")

    def _rest(self) -> list[str]:
        return ["note", "pool", "several", *(f"x{i}" for i in self._outputs), *(f"n{i}" for i in self._paired)]

    def _of_values(self) -> Iterator[str]:
        """Yield what was looked at where a call comes again with the same values: alignment, overlap, real numbers.

        A packed block is found by whatever number equals the one that it holds, which is the one that would be packed.
        """
        aligned = [f"p{i} % {modulus}" for i, modulus in enumerate(self._moduli) if modulus > 1]
        if aligned:
            yield f"not ({' or '.join(aligned)})"
        yield from (f"(q{i} <= p{j} or p{j} + n{j} <= p{i})" for i, j in self._pairs)
        yield from self._numbers(floating=True)

    def _packing(self, values: Sequence[str]) -> str:
        return ", ".join([str(VALUES_AT) if self._direct else f"{STREAM_AT}, handle", *values])

    def _launching(self, done: Sequence[str]) -> Iterator[str]:
        if self._direct:
            yield "function(handle, block[3], 0)"
            yield from done
        else:
            yield "if not launch(block[1], function, block[2], None):"
            yield from _indented(1, done)

    def _extent(self, index: int) -> tuple[str, str]:
        return self.dialect.extent(self._ranks[index])

    def _ask(self, expression: str, index: int) -> str:
        return expression.format(a=f"a{index}")


def _chained(entry: Foreign) -> Iterator[Foreign]:
    while entry is not None:
        yield entry
        entry = entry[1]


def _numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{index}" for index in range(count)]


def _indented(depth: int, lines: Sequence[str] | Iterator[str]) -> Iterator[str]:
    return (f"{'    ' * depth}{line}" for line in lines)


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"
