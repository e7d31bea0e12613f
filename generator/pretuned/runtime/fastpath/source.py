"""The source of the fast path: for each kernel and array library one function, written out for just that call.

It finds the problem's entry by what the arrays that decide the problem look like, compares all arrays with what the
entry expects (type, shape, contiguity, alignment, overlap), packs the block and launches. Loops, tuples and calls would
cost more than all of that, so the function is written out for the kernel's arguments and compiled. No data stands in
the source: arguments go by number. Whatever the function does not know, or cannot use, it leaves to `slow`, which takes
the call from its beginning: it runs it, or reports what is wrong.

The beginning of the source for a kernel with arrays out and x, which decides the problem, and one float, for CuPy:

    def call(a0, a1, s0, stream):
        try:
            entry = get(a1.size)
            kind = a1.dtype
            while entry[0] is not kind:
                entry = entry[1]
            _, _, known, function, t0, e0, rest = entry
            handle = current().ptr if stream is None else handle_of(stream, ordinal)
            if a0 is None and stream is None:
                a0 = rest[3]()
            elif not (a0.dtype is t0 and a0.size == e0 and ...):
                raise TypeError
            p0 = a0.data.ptr
            p1 = a1.data.ptr
            if a1._c_contiguous and ...:
                block = known((p0, p1, s0))
                if block is not None:
                    function(handle, block.address, 0)
                    return a0
                note, pool, several, x0, n0, n1 = rest
"""

from __future__ import annotations

import struct
import sys

from ..arrays import leading_input
from ..blocks import STREAM_AT, VALUES_AT
from ..checks import types_of
from ..driver import DriverError
from ..plans import POINTER, called
from ..scalars import packer, type_of
from ..table import PACKAGE
from ..types import DTYPES
from .arguments import deciding, results_of
from .numbers import Numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..adapters import Expressions
    from ..table import Foreign, Kernel

FALLS = (AttributeError, IndexError, KeyError, OverflowError, RuntimeError, TypeError, struct.error)


class FastPathSource:
    """What the fast path of a kernel asks, by number; `ranks` are those of its arrays, all or what its lists have.

    With `direct` it launches by CuPy's own `launchKernel`, which raises that exception; a call that meets it is left to
    `slow`, which knows how to report it, and what to do in a thread that has no context yet.

    A *key* is the device, where there are several, then the extent of each array that decides the problem, then the
    strides of each array whose rows may lie apart (None if they do not), then keywords. Under a key stands a chain of
    *entries*, one for each type of the first deciding array. The slots of an entry, as the function unpacks them
    (`slots`; the sample above has five kinds of them):

    1. `kind`: the type of the first deciding array.
    2. `next`: the next entry of the chain, or None.
    3. `known`: finds the packed block of a call that came before with the same addresses and numbers.
    4. `function`: launches by CuPy, or the entry point's handle for the driver.
    5. `t0`, `e0`, ...: of each other array the type, and of those that do not decide the problem the extent.
    6. `c0`, ..., `bytes0`, ...: of each number whose type is that of arrays, what it may be, and what makes it bytes
       (see `Numbers`).
    7. `counter`: counts the calls; only where they are counted.
    8. `rest`: what calls that come again have no need of, a tuple with slots of its own (`rest`):
        1. `note`: notes a call, so that it is packed when it comes again.
        2. `pool`: blocks to pack other calls into.
        3. `several`: launches where there is more than one launch, zeros or scratch; else None.
        4. `pack`: packs a call, where numbers are of the arrays' types or tensor maps are passed; else one function
           does for all entries.
        5. `x0`, ...: makes each output.
        6. `n0`, ...: the bytes of each array that is in a pair that must not overlap.
        7. `m0_1`, `l0_1`, `h0_1`, ...: of such a pair whose rows may lie apart, at which distances they interleave.
    """

    def __init__(
        self,
        kernel: Kernel,
        moduli: Sequence[int],
        ranks: Mapping[int, int],
        expressions: Expressions,
        *,
        several_gpus: bool,
        counted: bool,
        direct: type[Exception] | None = None,
    ) -> None:
        self.kernel, self.expressions, self.several_gpus = kernel, expressions, several_gpus
        self.counted, self._direct, self._moduli, self._ranks = counted, direct, moduli, ranks
        self._arrays, self._numbers, self.there = kernel.arrays, Numbers(kernel), sorted(ranks)
        self.deciding = deciding(kernel, self.there)
        apart = "strides_of" in expressions.names
        self.apart = [i for i, array in enumerate(self._arrays) if array.strides and apart]
        self._lead = leading_input(self._arrays)
        self.typing = self.deciding[0] if self.deciding else self._lead
        self._first = sorted({*self.deciding, *self.apart, self.typing, *([self._lead] if several_gpus else [])})
        self.others = [i for i in self.there if i not in self.deciding]
        self.outputs = [i for i in self.there if self._arrays[i].role == "out"]
        self._pairs = [
            (i, j)
            for i in self.there
            for j in self.there
            if self._arrays[i].role != "in" and i != j and (self._arrays[j].role == "in" or i < j)
        ]
        self.interleaved = [pair for pair in self._pairs if {*pair} <= {*self.apart}]
        self.paired = sorted({i for pair in self._pairs for i in pair})
        self.slots = ["kind", "next", "known", "function"]
        for i in self.there:
            self.slots += [f"t{i}"] if i != self.typing else []
            self.slots += [f"e{i}"] if i in self.others else []
        self.slots += [*self._numbers.slots, *(["counter"] if counted else []), "rest"]
        self._typed = self._numbers.typed or kernel.mapped
        self.rest = ["note", "pool", "several", *(["pack"] if self._typed else [])]
        self.rest += [*(f"x{i}" for i in self.outputs), *(f"n{i}" for i in self.paired)]
        self.rest += [f"{letter}{i}_{j}" for i, j in self.interleaved for letter in "mlh"]

    def function(self, library: str, names: dict[str, Foreign], *, watched: bool) -> Callable[..., Foreign]:
        """Return the function, compiled.

        `watched` looks at every call for overrides. `names` are what the source uses besides the names of its
        expressions: get, or memos and active; launch, handle_of and slow.
        """
        text = self.text(watched=watched)
        file = f"<{PACKAGE}.{self.kernel.name}, {library}>"
        if (linecache := sys.modules.get("linecache")) is not None:  # so that tracebacks show it
            linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
        space = {
            "__name__": __name__,  # by which warnings pass over the frames of this package
            **self.expressions.names,
            **({} if self._typed else {"pack": self.packing([scalar.dtype for scalar in self.kernel.scalars])}),
            "falls": (
                *FALLS,
                *([self._direct] if self._direct else []),
                *([DriverError] if self.kernel.mapped else []),
            ),
            "ordinal": 0,
            **self._numbers.names,
            **names,
        }
        exec(compile(text, file, "exec"), space)  # noqa: S102 - the source above, which has no data in it
        made: Callable[..., Foreign] = space["call"]
        return made

    def packing(self, numbers: Sequence[str]) -> Callable[..., None]:
        """Return what packs a call whose numbers are of these types."""
        head, before = ("=", 0) if self._direct else called(self.kernel)
        types = [type_of(self.kernel, dtype) for dtype in numbers]
        codes = [POINTER] * len(self._arrays) + [found.slot for found in types]
        return packer(head + "".join(codes), dict(enumerate(types, before + len(self._arrays))))

    def of_numbers(self, numbers: Sequence[str]) -> dict[str, Foreign]:
        """Return the slots of an entry whose numbers are of these types."""
        return self._numbers.of_entry(numbers)

    def text(self, *, watched: bool) -> str:
        """Return the source."""
        arrays, scalars = _numbered("a", len(self._arrays)), _numbered("s", len(self.kernel.scalars))
        words = _numbered("k", len(self.kernel.keywords))
        places = [f"p{i}" if i in self.there else "0" for i in range(len(arrays))]
        values = [*places, *self._numbers.values]
        packed = _tuple(values if self._direct else ["handle", *values])
        results = results_of(self.kernel, self.there)
        answer = f"return {results[0] if len(results) == 1 else _tuple(results)}"
        count = ["next(counter)"] if self.counted else []
        return "\n".join(
            (
                f"def call({', '.join([*arrays, *scalars, *words, 'stream'])}):",
                "    try:",
                *_indented(2, self._admitting()),
                *_indented(2, self._lookup(words, watched=watched)),
                *_indented(2, self._unpacking()),
                *_indented(2, self._outputs()),
                *_indented(2, self._addresses()),
                f"        if {' and '.join(self._conditions()) or 'True'}:",
                f"            block = known({packed})",
                "            if block is not None:",
                *_indented(4, self._launching([*count, answer])),
                f"            {', '.join(self.rest)} = rest",
                *(f"            q{i} = p{i} + n{i}" for i in sorted({i for i, _ in self._pairs})),
                f"            if {' and '.join(self._of_values()) or 'True'}:",
                "                if several is None:",
                "                    block = pool.pop()",
                f"                    pack(block.memory, {self._packing(values)})",
                *_indented(5, self._launching(["pool.append(block)", f"note({packed})", *count, answer])),
                f"                elif several(handle, {_tuple(values)}, stream is None):",
                *_indented(5, [*count, answer]),
                "    except falls:",
                "        pass",
                f"    return slow({_tuple(arrays)}, {_tuple(scalars)}, {_tuple(words)}, stream)",
                "",
            )
        )

    def _admitting(self) -> Iterator[str]:
        """Yield what leaves a call to the slow path as it came, before an output is made for it."""
        ask, asked = self.expressions, [self.expressions.once] if self.expressions.once else []
        for i in self.there if ask.before else ():
            absent = f"a{i} is None or " if i in self.outputs or self._may_lack(i) else ""
            asked.append(f"({absent}{ask.before.format(a=f'a{i}')})")
        if asked:
            yield f"if not ({' and '.join(asked)}):"
            yield "    raise TypeError"

    def _lookup(self, words: Sequence[str], *, watched: bool) -> Iterator[str]:
        yield from self._asking(self._first)
        if self.several_gpus:
            yield f"ordinal = {self._ask(self.expressions.device, self._lead)}"
        key = ["ordinal"] if self.several_gpus else []
        key += [self._ask(self._extent(i)[0], i) for i in self.deciding]
        key += [*(self._distances(i) for i in self.apart), *words]
        getter = "memos[active()].get" if watched else "get"
        yield f"entry = {getter}({key[0] if len(key) == 1 else _tuple(key)})"
        yield f"kind = {self._ask(self.expressions.dtype, self.typing)}"
        yield "while entry[0] is not kind:"  # a TypeError where there is none
        yield "    entry = entry[1]"

    def _asking(self, places: Sequence[int]) -> Iterator[str]:
        for i in places if self.expressions.facts else ():
            asked = (self.expressions.facts if i == self._lead else self.expressions.beside).format(a=f"a{i}")
            given = self._arrays[i].role != "out" and not self._may_lack(i)
            yield f"f{i} = {asked}" if given else f"f{i} = None if a{i} is None else {asked}"

    def _distances(self, i: int) -> str:
        """Return what asks the strides of an array whose rows may lie apart; None where it is contiguous."""
        given = "" if i == self._lead else f"a{i} is None or "  # the slow path reports what has to be there
        return f"None if {given}{self._ask(self.expressions.contiguous, i)} else strides_of(a{i})"

    def _unpacking(self) -> Iterator[str]:
        yield f"{', '.join(['_', '_', *self.slots[2:]])} = entry"
        yield f"handle = {self.expressions.stream} if stream is None else handle_of(stream, ordinal)"
        if self.several_gpus:
            yield f"if {self.expressions.current_device} != ordinal:"
            yield "    raise TypeError"
        yield from self._numbers.made_bytes()

    def _outputs(self) -> Iterator[str]:
        """Yield what makes the outputs that are missing, and what looks at the others."""
        for i in self.outputs:
            yield f"if a{i} is None and stream is None:"
            yield f"    a{i} = rest[{self.rest.index(f'x{i}')}]()"
            yield from self._asking([i])
            elsewise = "if" if self.expressions.facts else "elif"
            yield f"{elsewise} not ({' and '.join(self._of_array(i)) or 'True'}):"
            yield "    raise TypeError"

    def _addresses(self) -> Iterator[str]:
        yield from self._asking([i for i in self.there if i not in {*self.outputs, *self._first}])
        for i in self.there:
            absent = f"0 if a{i} is None else " if self._may_lack(i) else ""
            yield f"p{i} = {absent}{self._ask(self.expressions.address, i)}"

    def _conditions(self) -> Iterator[str]:
        for i in self.there:
            if i in self.outputs:
                continue
            conditions = list(self._of_array(i))
            if self._may_lack(i):  # whether it is there is in the key
                conditions = [f"(a{i} is None or ({' and '.join(conditions)}))"]
            yield from conditions
        yield from self._numbers.conditions(floating=False)
        words = enumerate(self.kernel.keywords.values())
        yield from (f"type(k{place}) is int" for place, allowed in words if not allowed)  # a size, and not True

    def _of_array(self, i: int) -> Iterator[str]:
        """Yield what an array has to be, as its entry has it."""
        ask, (extent, rank) = self.expressions, self._extent(i)
        if i != self.typing:
            yield f"{self._ask(ask.dtype, i)} is t{i}"
        if i in self.others:
            yield f"{self._ask(extent, i)} == e{i}"
        on_gpu, written = "" if self.several_gpus else ask.on_gpu, ask.written if self._arrays[i].role != "in" else ""
        asked = [rank, "" if i in self.apart else ask.contiguous, on_gpu, ask.each, written]
        yield from (self._ask(expression, i) for expression in asked if expression)
        kinds = {DTYPES[name].kind for name in types_of(self.kernel, self._arrays[i].dtype)}
        if ask.lazy and (i in self.apart or "complex" in kinds):
            yield f"not ({self._ask(ask.lazy, i)})"
        if self.several_gpus and i != self._lead:
            yield f"{self._ask(ask.device, i)} == ordinal"

    def _of_values(self) -> Iterator[str]:
        """Yield what a call that comes again with the same values need not check: alignment, overlap, real numbers.

        A packed block is found by any number that equals the one that it holds, which is the one that would be packed.
        """
        aligned = [f"p{i} % {self._moduli[i]}" for i in self.there if self._moduli[i] > 1]
        if aligned:
            yield f"not ({' or '.join(aligned)})"
        for i, j in self._pairs:
            whole = f"p{i} == p{j} or " if self._arrays[j].name in self._arrays[i].in_place else ""
            between = f" or l{i}_{j} <= (p{j} - p{i}) % m{i}_{j} <= h{i}_{j}" if (i, j) in self.interleaved else ""
            yield f"({whole}q{i} <= p{j} or p{j} + n{j} <= p{i}{between})"
        yield from self._numbers.conditions(floating=True)

    def _packing(self, values: Sequence[str]) -> str:
        if self._direct:
            return ", ".join([str(VALUES_AT), *values])
        head = ["*block.head"] if self.kernel.attributed else []
        return ", ".join([f"{STREAM_AT}, handle", *head, *values])

    def _launching(self, done: Sequence[str]) -> Iterator[str]:
        if self._direct:
            yield "function(handle, block.address, 0)"
            yield from done
        else:
            yield "if not launch(block.configuration, function, block.addresses, None):"
            yield from _indented(1, done)

    def _may_lack(self, index: int) -> bool:
        return self._arrays[index].optional and not self._arrays[index].whole  # those of a list are there, or not asked

    def _extent(self, index: int) -> tuple[str, str]:
        of_any_rank = self._arrays[index].trailing is not None
        return (self.expressions.shape, "") if of_any_rank else self.expressions.extent(self._ranks[index])

    def extent_of(self, index: int, shape: tuple[int, ...]) -> Foreign:
        """Return what the function finds as the extent of an array of a shape."""
        return tuple(shape) if self._arrays[index].trailing is not None else self.expressions.extent_of(shape)

    def _ask(self, expression: str, index: int) -> str:
        return expression.format(a=f"{'f' if self.expressions.facts else 'a'}{index}")


def _numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{index}" for index in range(count)]


def _indented(depth: int, lines: Sequence[str] | Iterator[str]) -> Iterator[str]:
    return (f"{'    ' * depth}{line}" for line in lines)


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"
