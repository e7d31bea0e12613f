"""The fast lane: for each kernel and array library one function, written for just that call.

A lane does what a call needs and no more. It finds the plan by what the arrays that decide the problem look like, holds
all arrays against what the plan expects (type, shape, contiguity, alignment, overlap), packs the block and launches.
Loops, tuples and calls would cost more than all of that, so the lane is written out as source for the kernel's
arguments and compiled. No data stands in that source: arguments go by number. Whatever a lane does not know, or does
not like, it leaves to `slow`, which takes the call from its beginning: it runs it, or says what is wrong.

The beginning of the lane of a kernel with arrays out and x, which decides the problem, and one float, for CuPy:

    def call(a0, a1, s0, stream):
        try:
            t1 = a1.dtype
            e1 = a1.size
            plan = get((t1, e1))
            if plan is not None:
                pool, function, several, t0, e0, x0, b0_1, c0_1 = plan
                handle = current().ptr if stream is None else handle_of(stream, ordinal)
                if a0 is None and stream is None:
                    a0 = empty(x0, t0)
                p0 = a0.data.ptr
                p1 = a1.data.ptr
                if (type(a1) is ndarray
                        and a0.dtype is t0
                        ...
"""

from __future__ import annotations

import linecache
import struct

from . import PACKAGE, Array
from .plans import CALLED, CODES, POINTER, STREAM_AT, call_scalars

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from . import Foreign, Kernel
    from .arrays import View
    from .dialects import Dialect

FALLS = (AttributeError, IndexError, KeyError, OverflowError, TypeError, struct.error)
KINDS = {"d": "type({s}) is float", "f": "type({s}) is float", "?": "type({s}) is bool"}  # the others are integers
FLOAT_TOO = "(type({s}) is float or type({s}) is int)"


class Lane:
    """What the lanes of a kernel ask, in numbers; `ranks` are those of its arrays.

    A *key* is the device, where there are several, then type and extent of each array that decides the problem, then
    keywords. An *entry* is what a lane unpacks: pool, function and None, or None, None and what launches `several`; for
    each other array its type and extent; for each output its shape; for each pair that must not overlap the bounds
    between which the difference of their addresses must not lie; and what counts the calls, where they are counted.
    """

    def __init__(
        self, kernel: Kernel, moduli: Sequence[int], ranks: Sequence[int], dialect: Dialect, *, several_gpus: bool
    ) -> None:
        self.kernel, self.dialect, self.several_gpus = kernel, dialect, several_gpus
        self._arrays = [argument for argument in kernel.arguments if isinstance(argument, Array)]
        self._scalars = call_scalars(kernel)
        self._moduli, self._ranks = moduli, ranks
        names = [array.name for array in self._arrays]
        deciding = {names.index(argument) for argument, _ in kernel.dims.values()}
        for name in kernel.types:
            typed = [i for i, array in enumerate(self._arrays) if array.dtype == name and array.role != "out"]
            if not deciding & set(typed):
                deciding.add(typed[0])
        self._deciding = sorted(deciding)
        self._first = next((i for i, array in enumerate(self._arrays) if array.role != "out"), 0)
        self._others = [i for i in range(len(names)) if i not in deciding]
        self._outputs = [i for i, array in enumerate(self._arrays) if array.role == "out"]
        self._pairs = [
            (i, j)
            for i, written in enumerate(self._arrays)
            for j, other in enumerate(self._arrays)
            if written.role != "in" and i != j and (other.role == "in" or i < j)
        ]

    def function(self, names: dict[str, Foreign], *, watched: bool, counted: bool) -> Callable[..., Foreign]:
        """Return the lane, compiled.

        `watched` looks at every call for overrides, `counted` counts the calls. `names` are what the source uses
        besides its dialect's names: get, or memos and active; launch, handle_of and slow.
        """
        text = self.source(watched=watched, counted=counted)
        file = f"<{PACKAGE}.{self.kernel.name}, {self.dialect.library}>"
        linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file  # for tracebacks
        codes = [POINTER] * len(self._arrays) + [CODES[scalar.dtype] for scalar in self._scalars]
        space = {
            **self.dialect.names,
            "pack": struct.Struct(CALLED + "".join(codes)).pack_into,
            "falls": FALLS,
            "ordinal": 0,
            **names,
        }
        exec(compile(text, file, "exec"), space)  # noqa: S102 - the source above, which has no data in it
        made: Callable[..., Foreign] = space["call"]
        return made

    def key(self, views: Sequence[View], keywords: tuple[Foreign, ...], ordinal: int) -> Foreign:
        """Return the key of a problem from its arrays' views."""
        parts: list[Foreign] = [ordinal] if self.several_gpus else []
        for i in self._deciding:
            parts += [self.dialect.type_of(views[i][1]), self.dialect.told(views[i][2])]
        return (*parts, *keywords)

    def entry(self, views: Sequence[View], start: tuple[Foreign, Foreign, Foreign], counter: Foreign) -> Foreign:
        """Return the entry of a problem from its arrays' views; `start` are pool, function and several."""
        parts: list[Foreign] = [*start]
        for i in self._others:
            parts += [self.dialect.type_of(views[i][1]), self.dialect.told(views[i][2])]
        parts += [views[i][2] for i in self._outputs]
        for i, j in self._pairs:
            parts += [-views[i][4], views[j][4]]
        return (*parts, *([] if counter is None else [counter]))

    # The source.

    def source(self, *, watched: bool, counted: bool) -> str:
        """Return the source of the lane."""
        arrays, scalars = _numbered("a", len(self._arrays)), _numbered("s", len(self._scalars))
        words = _numbered("k", len(self.kernel.keywords))
        values = [*_numbered("p", len(arrays)), *scalars]
        results = [f"a{i}" for i, array in enumerate(self._arrays) if array.role != "in"]
        answer = f"return {results[0] if len(results) == 1 else _tuple(results)}"
        count = ["next(counter)"] if counted else []
        first, *further = self._conditions()
        return "\n".join(
            (
                f"def call({', '.join([*arrays, *scalars, *words, 'stream'])}):",
                "    try:",
                *_indented(2, self._lookup(words, watched=watched)),
                "        if plan is not None:",
                *_indented(3, self._unpacking(counted=counted)),
                f"            if ({first}",
                *(f"                    and {condition}" for condition in further),
                "            ):",
                "                if several is None:",
                "                    block = pool.pop()",
                f"                    pack(block[0], {STREAM_AT}, handle, {', '.join(values)})",
                "                    if not launch(block[1], function, block[2], None):",
                "                        pool.append(block)",
                *_indented(6, [*count, answer]),
                f"                elif several(handle, {_tuple(values)}):",
                *_indented(5, [*count, answer]),
                "    except falls:",
                "        pass",
                f"    return slow({_tuple(arrays)}, {_tuple(scalars)}, {_tuple(words)}, stream)",
                "",
            )
        )

    def _lookup(self, words: Sequence[str], *, watched: bool) -> Iterator[str]:
        key = []
        if self.several_gpus:
            yield f"ordinal = {self._ask(self.dialect.device, self._first)}"
            key.append("ordinal")
        for i in self._deciding:
            yield f"t{i} = {self._ask(self.dialect.dtype, i)}"
            yield f"e{i} = {self._ask(self._extent(i)[0], i)}"
            key += [f"t{i}", f"e{i}"]
        yield f"plan = {'memos[active()].get' if watched else 'get'}({_tuple([*key, *words])})"

    def _unpacking(self, *, counted: bool) -> Iterator[str]:
        names = ["pool", "function", "several", *(f"{letter}{i}" for i in self._others for letter in "te")]
        names += [f"x{i}" for i in self._outputs]
        names += [f"{letter}{i}_{j}" for i, j in self._pairs for letter in "bc"]
        names += ["counter"] if counted else []
        yield f"{', '.join(names)} = plan"
        yield f"handle = {self.dialect.stream} if stream is None else handle_of(stream, ordinal)"
        at_home = f" and {self.dialect.current_device} == ordinal" if self.several_gpus else ""
        for i in self._outputs:
            yield f"if a{i} is None and stream is None{at_home}:"
            yield f"    a{i} = empty(x{i}, t{i})"
        yield from (f"p{i} = {self._ask(self.dialect.address, i)}" for i in range(len(self._arrays)))

    def _conditions(self) -> Iterator[str]:
        dialect = self.dialect
        yield (
            self._ask(dialect.first, self._first)
            if dialect.first
            else f"{dialect.current_device} == ordinal"
            if (self.several_gpus)
            else "True"
        )
        if self.several_gpus and dialect.first:
            yield f"{dialect.current_device} == ordinal"
        for i in range(len(self._arrays)):
            extent, rank = self._extent(i)
            if i in self._others:
                yield f"{self._ask(dialect.dtype, i)} is t{i}"
                yield f"{self._ask(extent, i)} == e{i}"
            asked = [rank, dialect.contiguous, dialect.each]
            yield from (self._ask(expression, i) for expression in asked if expression)
            if self.several_gpus and i != self._first:
                yield f"{self._ask(dialect.device, i)} == ordinal"
        yield from self._alignment()
        yield from (f"not b{i}_{j} < p{i} - p{j} < c{i}_{j}" for i, j in self._pairs)
        for index, scalar in enumerate(self._scalars):
            kind = KINDS.get(CODES[scalar.dtype][0], "type({s}) is int")
            yield (FLOAT_TOO if "float" in kind else kind).format(s=f"s{index}")

    def _alignment(self) -> Iterator[str]:
        """Yield what makes every address a multiple of its modulus; powers of two are asked at once, of the largest."""
        binary = {i: m for i, m in enumerate(self._moduli) if m > 1 and not m & (m - 1)}
        if binary:
            yield f"not ({' | '.join(f'p{i}' for i in binary)}) & {max(binary.values()) - 1}"
        yield from (f"not p{i} % {m}" for i, m in enumerate(self._moduli) if m > 1 and i not in binary)

    def _extent(self, index: int) -> tuple[str, str]:
        return self.dialect.extent(self._ranks[index])

    def _ask(self, expression: str, index: int) -> str:
        return expression.format(a=f"a{index}")


def _numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{index}" for index in range(count)]


def _indented(depth: int, lines: Sequence[str] | Iterator[str]) -> Iterator[str]:
    return (f"{'    ' * depth}{line}" for line in lines)


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"
