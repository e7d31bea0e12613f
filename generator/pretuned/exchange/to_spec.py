"""A kernel spec from a T1 file and its kernel: the files to write, and what T1 does not say.

A T1 file describes one problem, and its kernel reads parameters as macros. The shapes of the spec are therefore
numbers, and the template defines a macro for each parameter before the kernel as it stands. What is not known is
written so that the spec is sound, and listed for its author to complete.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pretuned.exchange import t1
from pretuned.exchange.expressions import expression_of
from pretuned.exchange.files import FormatError, read_json, read_text
from pretuned.exchange.results import ParameterValue
from pretuned.runtime.types import DTYPES
from pretuned.spec.expressions import Expression, ExpressionError

WIDTH: Final = 100  # of a list
_TYPES: Final = {"float": "float32", "double": "float64", "half": "float16", "int": "int32", "uint": "uint32"}
_ROLES: Final = {"ReadOnly": "in", "WriteOnly": "out", "ReadWrite": "inout"}
_VECTOR: Final = re.compile(r"(half|float|double|int)(2|3|4|8|16)")
_KERNEL: Final = re.compile(r'(?<!extern "C" )__global__\b')
_OURS: Final = re.compile(r"-+(std|arch|gpu-architecture|gencode)\b")  # options that pretuned gives by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecFiles:
    """A kernel's files by name, and what its author has to complete, one point per line."""

    kernel: str
    texts: Mapping[str, str]
    open_points: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Argument:
    """An argument of the kernel; `entries` are the keys of its table in the spec, `value` a scalar's."""

    name: str
    dtype: str
    role: str
    entries: tuple[str, ...]

    @property
    def parameter(self) -> str:
        """The argument as the kernel's parameter list declares it."""
        cuda = DTYPES[self.dtype].cuda
        return f"{cuda} {self.name}" if not self.role else f"{'const ' * (self.role == 'in')}{cuda}* {self.name}"

    @property
    def table(self) -> str:
        """The argument as a TOML table."""
        named = {"name": self.name, "role": self.role, "dtype": self.dtype}
        entries = [f"{key} = {json.dumps(value)}" for key, value in named.items() if value]
        return f"{{ {', '.join([*entries, *self.entries])} }}"


def spec_files(path: Path) -> SpecFiles:
    """Return the spec, template and reference for the T1 file at `path`; raise FormatError where there can be none."""
    return _Conversion(path).files()


@dataclass
class _Conversion:
    """The conversion of one T1 file. What its author has to complete is added to `open_points` on the way."""

    path: Path
    open_points: list[str] = field(default_factory=list)

    def files(self) -> SpecFiles:
        """Return what to write."""
        arguments = self._arguments()
        template, default, launch = self._template(arguments), self._default(), list(self._launch())
        self.open_points.append(f"{self.name}_reference.py: compute the outputs with NumPy")
        texts = {
            f"{self.name}.toml": "\n".join([*self._head(arguments, default), *launch, *self._rest()]) + "\n",
            f"{self.name}.cu.jinja": template,
            f"{self.name}_reference.py": _reference(self.name, arguments),
        }
        return SpecFiles(kernel=self.name, texts=texts, open_points=tuple(self.open_points))

    @cached_property
    def name(self) -> str:
        """The kernel's name: the file's, without what names the format."""
        stem = re.sub(r"[_.-]?T1$", "", self.path.name.partition(".")[0])
        return re.sub(r"\W", "_", stem).strip("_").lower() or "kernel"

    @cached_property
    def _space(self) -> t1.T1Space:
        space = t1.read(self.path)
        for name, values in zip(space.names, space.values, strict=True):
            texts = [value for value in values if isinstance(value, str)]
            if texts and len(texts) < len(values):
                message = (
                    f"the parameter '{name}' has texts and numbers, as {texts[0]!r}; a spec's has one kind of value"
                )
                raise FormatError(self.path, message)
        return space

    @cached_property
    def _listed(self) -> dict[str, list[ParameterValue]]:
        """The values of each parameter, of one kind: bools count as integers, and integers beside floats as floats."""
        found: dict[str, list[ParameterValue]] = {}
        for name, values in zip(self._space.names, self._space.values, strict=True):
            kind = next((kind for kind in (str, float) if any(isinstance(value, kind) for value in values)), int)
            found[name] = [kind(value) for value in values]
        return found

    @cached_property
    def _values(self) -> dict[str, list[int]]:
        """The values of those that expressions may read."""
        listed = self._listed.items()
        return {name: [int(value) for value in of] for name, of in listed if isinstance(of[0], int)}

    @cached_property
    def _kernel(self) -> Mapping[str, Any]:
        kernel = read_json(self.path).get("KernelSpecification")
        kernel = kernel if isinstance(kernel, dict) else {}
        if (language := kernel.get("Language", "CUDA")) != "CUDA":
            raise FormatError(
                self.path, f"KernelSpecification.Language is {language!r}; only CUDA kernels become specs"
            )
        return kernel

    @property
    def _function(self) -> str:
        return str(self._kernel.get("KernelName") or self.name)

    @property
    def _problem(self) -> list[int]:
        size = self._kernel.get("ProblemSize")
        listed = size if isinstance(size, list) else [size]
        return [extent for extent in listed if isinstance(extent, int)]

    def _expression(self, place: str, text: object) -> Expression:
        try:
            return expression_of(str(text), self._values, self._problem)
        except ExpressionError as error:
            raise FormatError(self.path, f"KernelSpecification.{place}: {error}") from None

    # The arguments.

    def _arguments(self) -> list[_Argument]:
        listed = self._kernel.get("Arguments") or []
        if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
            raise FormatError(self.path, "KernelSpecification.Arguments is not a list of objects")
        found = [self._argument(index, entry) for index, entry in enumerate(listed)]
        if not any(argument.role in {"out", "inout"} for argument in found):
            self.open_points.append("arguments: name what the kernel reads and writes, in launch order")
            found.insert(0, _Argument(name="result", dtype="float32", role="out", entries=("shape = [1]",)))
        return found

    def _argument(self, index: int, entry: Mapping[str, Any]) -> _Argument:
        name = str(entry.get("Name") or f"argument_{index}")
        dtype, elements = self._type(name, entry)
        if entry.get("MemoryType") == "Scalar":
            value = entry.get("FillValue", 1)
            kept = float(value) if "float" in dtype else int(value)
            return _Argument(name=name, dtype=dtype, role="", entries=(f"value = {kept}",))
        role = "out" if entry.get("Output") else "in"
        role = _ROLES.get(str(entry.get("AccessType")), role)
        size = self._size(f"Arguments[{index}].Size", name, entry.get("Size", 1))
        entries = [f"shape = [{size}{f', {elements}' * (elements > 1)}]"]
        if role != "out" and entry.get("FillType") == "Random":
            entries.append('fill = "normal"')
        elif role != "out" and entry.get("FillType") == "Constant" and entry.get("FillValue") == 1:
            entries.append('fill = "ones"')
        if "Constant" in {entry.get("MemType"), entry.get("MemoryType")} or entry.get("MemoryType") == "Symbol":
            message = "lies in constant memory in T1, and is passed as an array here; have the kernel take it as one"
            self.open_points.append(f"argument {name}: {message}")
        return _Argument(name=name, dtype=dtype, role=role, entries=tuple(entries))

    def _type(self, name: str, entry: Mapping[str, Any]) -> tuple[str, int]:
        """Return an argument's element type, and how many of them make one of its elements."""
        kind = str(entry.get("Type"))
        if vector := _VECTOR.fullmatch(kind):
            return _TYPES[vector[1]], int(vector[2])
        dtype = _TYPES.get(kind, kind)
        if dtype in DTYPES:
            return dtype, 1
        self.open_points.append(f"argument {name}: say what the type '{kind}' is; it stands here as bytes")
        return "uint8", int(entry.get("TypeSize", 1))

    def _size(self, place: str, name: str, text: object) -> int:
        expression = self._expression(place, text)
        if read := expression.names & self._values.keys():
            self.open_points.append(
                f"argument {name}: its size depends on {', '.join(sorted(read))}; the largest is taken"
            )
        try:
            return max(1, expression.evaluate({parameter: max(of) for parameter, of in self._values.items()}))
        except ExpressionError as error:
            raise FormatError(self.path, f"KernelSpecification.{place}: {error}") from None

    # The template.

    def _template(self, arguments: Iterable[_Argument]) -> str:
        """Return the kernel behind a macro for each parameter, its text out of Jinja's sight."""
        written = {name: f"{name} | int" if name in self._values else name for name in self._space.names}
        macros = "".join(f"#define {name} {{{{ {text} }}}}\n" for name, text in written.items())
        source = self._source()
        if source is None:
            parameters = ", ".join(argument.parameter for argument in arguments)
            source = f'extern "C" __global__ void {self._function}({parameters}) {{\n}}\n'
            self.open_points.append(
                f"{self.name}.cu.jinja: put the kernel '{self._function}' in the place of the empty one"
            )
        elif not re.search(r'extern\s*"C"', source):
            source = _KERNEL.sub('extern "C" __global__', source)
        return f"// The parameters, as macros.\n{macros}\n{{% raw %}}\n{source.rstrip()}\n{{% endraw %}}\n"

    def _source(self) -> str | None:
        """Return the kernel file's text; it lies where the file names it, beside the T1 file, or one folder above."""
        named = self._kernel.get("KernelFile")
        if not isinstance(named, str):
            return None
        folders = (Path(), self.path.parent, self.path.parent.parent)
        return next((read_text(folder / named) for folder in folders if (folder / named).is_file()), None)

    # The spec.

    def _head(self, arguments: Iterable[_Argument], default: Mapping[str, ParameterValue]) -> Iterator[str]:
        yield f"# Written from {self.path.name}, which describes one problem: shapes are its numbers."
        yield "# To tune over sizes, add [dims], name them in shapes and grid, and pass them to the kernel."
        for point in self.open_points:
            yield from textwrap.wrap(f"To complete: {point}.", WIDTH, initial_indent="# ", subsequent_indent="#   ")
        yield "format = 1"
        yield f"summary = {json.dumps(f'{self._function}, from {self.path.name}.')}"
        yield "arguments = [  # in launch order"
        yield from (f"  {argument.table}," for argument in arguments)
        yield "]"
        yield ""
        yield "[space]"
        yield from (f"{name} = {_listed(of)}" for name, of in self._listed.items())
        yield ""
        yield "[default]"
        yield from (f"{name} = {json.dumps(value)}" for name, value in default.items())

    def _default(self) -> dict[str, ParameterValue]:
        """Return the default of the file where it is legal, and the first legal configuration otherwise."""
        entries = read_json(self.path)["ConfigurationSpace"]["TuningParameters"]
        given = {entry["Name"]: entry.get("Default") for entry in entries}
        legal = all(given[name] in of for name, of in self._listed.items())
        if legal and all(condition.evaluate(given) for condition in self._space.conditions):
            return self._of_kind(given)
        self.open_points.append("[default]: the file has none that is legal; this is the first legal configuration")
        first = next(self._space.configurations(), None)
        if first is None:
            raise FormatError(self.path, "no configuration fulfils the conditions")
        return self._of_kind(first)

    def _of_kind(self, configuration: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
        return {name: type(self._listed[name][0])(value) for name, value in configuration.items()}

    def _launch(self) -> Iterator[str]:
        block = self._block()
        yield ""
        yield "[[launches]]"
        yield f"function = {json.dumps(self._function)}"
        yield f"grid     = {_listed(self._grid(block))}"
        yield f"block    = {_listed(block)}"
        if shared := self._kernel.get("SharedMemory"):
            yield f"shared   = {int(shared)}"

    def _block(self) -> list[str]:
        """Return the threads along each axis, by LocalSize or by the names that Kernel Tuner gives them."""
        local = self._kernel.get("LocalSize")
        if isinstance(local, dict):
            return self._axes("LocalSize", local)
        named = [f"block_size_{axis}" for axis in "xyz" if f"block_size_{axis}" in self._values]
        if not named:
            self.open_points.append("[[launches]]: say how many threads a block has")
        return [*named] or ["1"]

    def _grid(self, block: list[str]) -> list[str]:
        """Return the blocks along each axis: from the problem and its divisors, as Kernel Tuner does, or GlobalSize."""
        divisors = [self._kernel.get(f"GridDiv{axis}") for axis in "XYZ"]
        if self._problem and any(divisors):
            found = [_blocks(size, of or []) for size, of in zip(self._problem, divisors, strict=False)]
            return _without_ones([str(self._expression("GridDiv", text)) for text in found])
        size = self._kernel.get("GlobalSize")
        if isinstance(size, dict):
            axes = self._axes("GlobalSize", size)
            if self._kernel.get("GlobalSizeType") == "CUDA":  # which counts blocks, and the others count threads
                return axes
            return [f"ceil_div({threads}, {of})" for threads, of in zip(axes, [*block, "1", "1"], strict=False)]
        if self._problem:
            return [f"ceil_div({size}, {of})" for size, of in zip(self._problem, [*block, "1", "1"], strict=False)]
        self.open_points.append("[[launches]]: say how many blocks are launched")
        return ["1"]

    def _axes(self, place: str, sizes: Mapping[str, Any]) -> list[str]:
        axes = [str(self._expression(f"{place}.{axis}", sizes[axis])) for axis in "XYZ" if axis in sizes]
        return _without_ones(axes)

    def _rest(self) -> Iterator[str]:
        options = [str(option) for option in self._kernel.get("CompilerOptions") or [] if not _OURS.match(str(option))]
        if options:
            yield from ("", "[compile]", f"options = {_listed(options)}")
        if self._space.conditions:
            yield from ("", "[constraints]", "where = [")
            yield from (f'  "{condition}",' for condition in self._space.conditions)
            yield "]"
        yield from ("", "[verify]", f'reference = "{self.name}_reference.py:{self.name}"')


def _without_ones(axes: list[str]) -> list[str]:
    """Return the axes without the last ones that have the size 1."""
    while len(axes) > 1 and axes[-1] == "1":
        axes.pop()
    return axes


def _blocks(size: int, divisors: object) -> str:
    listed = [str(divisor) for divisor in divisors] if isinstance(divisors, list) else [str(divisors)]
    return f"ceil_div({size}, {' * '.join(listed)})" if listed else str(size)


def _listed(values: Iterable[object]) -> str:
    """Return a TOML list, over several lines where it is long."""
    texts = [json.dumps(value) for value in values]
    line = f"[{', '.join(texts)}]"
    return line if len(line) <= WIDTH else "[\n" + textwrap.indent(textwrap.fill(line[1:-1], WIDTH), "  ") + ",\n]"


def _reference(name: str, arguments: Iterable[_Argument]) -> str:
    listed = list(arguments)
    read = ", ".join(argument.name for argument in listed if argument.role != "out")
    written = ", ".join(argument.name for argument in listed if argument.role in {"out", "inout"})
    return f'''"""The kernel in NumPy: what results are compared with. Arrays come in float64."""


def {name}({f"{read}, " * bool(read)}**_):
    """Return {written}."""
    raise NotImplementedError("compute {written} with NumPy")
'''
