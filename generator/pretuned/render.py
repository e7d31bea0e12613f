"""From a configuration to a source: the text that is compiled, and what distinguishes one source from another.

A source is a rendered template with its compile options. Configurations that differ only in the launch render the same
text and share one. Its key leaves out what cannot change the machine code (comments, layout), so that a reworded
comment neither recompiles nor re-tunes anything.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from pretuned.spec import space
from pretuned.spec.expressions import Expression
from pretuned.spec.headers import Header, HeaderError, header_folders, included_names, with_headers
from pretuned.spec.library import LibraryCall
from pretuned.spec.lines import lines_of, relocated
from pretuned.spec.model import ImplementationSpec, KernelSpec
from pretuned.spec.packages import PACKAGE
from pretuned.spec.parts import FillRange
from pretuned.spec.reference_texts import functions_text
from pretuned.spec.scalars import tuning_values
from pretuned.spec.space import Configuration, Pairs
from pretuned.spec.space import rendered as rendered_values
from pretuned.spec.templates import RenderError, files_of, render, render_option, text_of

NAME: Final = "kernel.cu"  # of every source: fixed, since it stands in line tables and in __FILE__

_TEXT: Final = re.compile(
    r"""
    (?P<kept> (?: \b(?:u8|[uUL])?R"(?P<fence>[^\s()\\]{0,16})\(.*?\)(?P=fence)"  # a raw string, over lines
                | \#\ *include\ *<[^>\n]*>                                       # whose // is no comment
                | [A-Za-z_]\w*
                | \.?\d(?:[eEpP][+-]|'\w|[\w.])*                                  # 1'000: whose ' is no quote
                | "(?:\\.|[^"\\\n])*"
                | '(?:\\.|[^'\\\n])*'
                | [^/\ \t\f\v\n]
                | /(?![/*])
                | [\ \n](?=[^/\ \t\f\v\n])                                       # which stands for itself
              )+ )
    | (?P<blank> (?: [ \t\f\v\n] | //[^\n]* | /\*.*?\*/ )+ )
    """,
    re.DOTALL | re.VERBOSE,
)
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_OF_LINES: Final = ("__LINE__", "__builtin_LINE", "source_location", "assert")
_KNOWS_LINES: Final = re.compile(rf"\b(?:{'|'.join(_OF_LINES)})\b")
_SPLICE: Final = re.compile(r"\\\n")
_DOUBTFUL_SPLICE: Final = re.compile(r"\\[ \t\f\v\r]+\n")
_DEBUGGING: Final = frozenset({"-lineinfo", "--generate-line-info", "-G", "--device-debug"})


@dataclass(frozen=True, kw_only=True)
class Source:
    """A text to compile. `options` are the spec's own, rendered; `functions` the entry points its launches name.

    `headers` are those of the project and of packages that the text includes, and those that these include, sorted by
    name.
    """

    text: str
    options: tuple[str, ...]
    functions: tuple[str, ...]
    arch_specific: bool = False
    headers: tuple[Header, ...] = ()

    @cached_property
    def key(self) -> str:
        """Digest of all that decides the machine code: hexadecimal, 32 characters."""
        text = self.text if self._knows_lines else normalise(self.text)
        headers = self.header_digests
        return digest([text, list(self.options), self.arch_specific, *([headers] if headers else [])])

    @property
    def header_digests(self) -> dict[str, str]:
        """What of each header decides the machine code, by its name: 32 hexadecimal characters.

        Those of an installed package, which may be hundreds, have one digest together, as `package:NAME`.
        """
        whole = self._knows_lines
        found = {header.name: _header_digest(header.text, whole=whole) for header in self.headers if not header.package}
        for package in sorted({header.package for header in self.headers if header.package}):
            texts = [[one.name, _header_digest(one.text, whole=True)] for one in self.headers if one.package == package]
            found[f"{PACKAGE}{package}"] = digest(texts)
        return found

    @property
    def _knows_lines(self) -> bool:
        return not _DEBUGGING.isdisjoint(self.options)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A source and a configuration, for one specialisation: what is verified and timed at problems.

    A library call has no source.
    """

    specialisation: Pairs
    configuration: Configuration
    source: Source | None
    key: str

    def __str__(self) -> str:
        return str(self.configuration)


def digest(data: object) -> str:
    """Return the first 32 hexadecimal characters of the SHA-256 of `data` as canonical JSON."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def normalise(source: str) -> str:
    """Return `source` without what a compiler drops: comments, indentation, runs of blanks, empty lines.

    Every token and every literal stays as it is, and on its line where a directive could see it. Texts that compile
    differently never become one, so where layout may matter after all (line numbers that the code reads, a continued
    line beside raw strings) the text is returned unchanged.
    """
    spliced = "\\\n" in source
    knows_lines = any(word in source for word in _OF_LINES) and _KNOWS_LINES.search(source)  # which alone takes long
    if knows_lines or _DOUBTFUL_SPLICE.search(source) or (spliced and 'R"' in source):
        return source
    text = _SPLICE.sub("", source)
    if "/*" in text or 'R"' in text or "\\\n" in text:  # which may go over lines
        return _TEXT.sub(_shortened, text).strip(" \n")
    return "\n".join(filter(None, map(_normalised_line, text.split("\n"))))


@lru_cache(maxsize=1 << 15)
def _normalised_line(line: str) -> str:
    """Return a line by itself; sources of one template have most of theirs in common."""
    return _TEXT.sub(_shortened, line).strip(" ")


@lru_cache(maxsize=4096)
def _header_digest(text: str, *, whole: bool) -> str:
    return digest(text if whole else normalise(text))


def _shortened(match: re.Match[str]) -> str:
    blank = match["blank"]
    if blank is None:
        return match.group()
    return "\n" if "\n" in _COMMENT.sub("", blank) else " "


def source_of(spec: KernelSpec, specialisation: Pairs, configuration: Configuration) -> Source:
    """Render the source of `configuration`; raises RenderError with the template's file and line.

    A library call (`spec.all_implementations[...].call`) has no source: asking for it is a RenderError too.
    """
    implementation = spec.all_implementations[configuration.implementation]
    if implementation.call is not None:
        raise RenderError(f"{configuration}: calls {implementation.call}, and has no source")
    values = rendered_values(spec, specialisation, configuration)
    try:
        text = render(spec.folder, implementation.template, values)
        options = tuple(render_option(option, values) for option in implementation.compile.options)
        folders = header_folders(spec.folder, implementation.template, implementation.compile.include)
        text, headers = with_headers(text, folders)
    except (RenderError, HeaderError) as error:
        raise RenderError(f"{error} (rendering {configuration})") from None
    return Source(
        text=text,
        options=options,
        functions=tuple(sorted({launch.function for launch in implementation.launches})),
        arch_specific=implementation.compile.arch_specific,
        headers=headers,
    )


def includes(spec: KernelSpec) -> set[str]:
    """Return the names of all headers that the templates of a spec include, directly or by the project's own headers.

    Templates are read as they are, so that what only some configurations include is among them.
    """
    found: set[str] = set()
    for one in spec.all_implementations.values():
        folders = header_folders(spec.folder, one.template, one.compile.include)
        for file in files_of(spec.folder, one.template) if one.call is None else ():
            text, headers = with_headers(text_of(spec.folder, file), folders)
            found.update(included_names([text, *(header.text for header in headers)]))
    return found


def located(spec: KernelSpec, specialisation: Pairs, configuration: Configuration, message: str) -> str:
    """Return what a compiler or a run said of a source, with the template's lines in place of the rendered text's."""
    implementation = spec.all_implementations[configuration.implementation]
    if NAME not in message or implementation.call is not None:
        return message
    return relocated(
        message,
        NAME,
        lines_of(spec.folder, implementation.template, rendered_values(spec, specialisation, configuration)),
    )


def candidate(spec: KernelSpec, specialisation: Pairs, configuration: Configuration) -> Candidate:
    """Return the candidate of `configuration`; its key changes with all that its measurements depend on.

    That is: the source or the library's function, how it is launched and how it finds caches, the layout of the
    arguments, scratch and initial values. The reference and tolerances are not part of it (`verification_key` is), nor
    are summaries, comments, and the version of a library.
    """
    implementation = spec.all_implementations[configuration.implementation]
    source = source_of(spec, specialisation, configuration) if implementation.call is None else None
    key = digest(
        [
            source.key if source is not None else _called(implementation.call),
            configuration.values,
            specialisation,
            _layout(spec, specialisation),
            _calls(spec, implementation, specialisation),
            *(["warm"] if spec.cache == "warm" else []),  # times of both kinds say nothing of each other
        ]
    )
    return Candidate(specialisation=specialisation, configuration=configuration, source=source, key=key)


def _layout(spec: KernelSpec, specialisation: Pairs) -> list[list[object]]:
    """Return what the arguments are, types resolved."""
    return [
        [
            argument.name,
            argument.role,
            space.dtype_of(spec, argument.dtype, specialisation),
            _texts(argument.shape or ()),
            None if argument.align is None else argument.align.python,
            argument.init,
            *(["in-place"] if argument.in_place else []),
            *([str(spec.derived[argument.name])] if argument.name in spec.derived else []),
            *(["optional"] if argument.optional else []),
            *([argument.count, argument.most, *argument.own] if argument.count else []),
            *([argument.each, argument.most] if argument.each else []),
            *([["strides", *_texts(argument.strides)]] if argument.strides else []),
            *(str(one) for one in spec.constraints.addresses if one.argument == argument.name),
        ]
        for argument in spec.arguments
    ]


def _calls(spec: KernelSpec, implementation: ImplementationSpec, specialisation: Pairs) -> list[list[object]]:
    """Return how an implementation is launched, over which scratch buffers, and with which tensor maps."""
    launches: list[list[object]] = [
        [
            *(launch.function, _texts(launch.grid), _texts(launch.block), launch.shared.python, launch.arguments),
            *([["cluster", *_texts(launch.cluster)]] if launch.cluster else []),
            *(["cooperative"] if launch.cooperative else []),
            *([launch.overlap] if launch.overlap else []),
        ]
        for launch in implementation.launches
    ]
    scratch: list[list[object]] = [
        [buffer.name, space.dtype_of(spec, buffer.dtype, specialisation), _texts(buffer.shape), buffer.init]
        for buffer in implementation.scratch
    ]
    maps: list[list[object]] = [
        [one.name, one.array, _texts(one.box), one.swizzle, one.l2, one.fill] for one in implementation.tensor_maps
    ]
    return [*launches, *scratch, *maps, [list(implementation.init)]]


def _called(call: LibraryCall | None) -> list[object]:
    """Return what a library is asked to do."""
    assert call is not None  # or there is a source
    return [call.module, call.function, list(call.arguments), call.out]


def _texts(expressions: tuple[Expression, ...]) -> list[str]:
    return [expression.python for expression in expressions]


def verification_key(spec: KernelSpec) -> str:
    """Return the digest of what a result is judged by: functions with what they read, tolerances, fills and scalars.

    `gpu_reference` is not among them: it is held to `reference`, which says what is right.
    """
    verify = spec.verify
    functions: dict[str, list[str]] = {}
    for target in filter(None, (verify.reference, verify.inputs, verify.compare)):
        file, _, function = target.partition(":")
        functions.setdefault(file, []).append(function)
    texts = [
        functions_text((spec.folder / file).read_text(encoding="utf-8"), names)
        for file, names in sorted(functions.items())
    ]
    passed = {name: one if isinstance(one, int | float) else str(one) for name, one in tuning_values(spec).items()}
    fills = [[argument.name, _spelled(argument.fill), passed.get(argument.name)] for argument in spec.arguments]
    return digest([verify.model_dump(mode="json", exclude={"gpu_reference"}), texts, fills])


def _spelled(fill: str | FillRange | None) -> object:
    return [str(bound) for bound in fill.bounds] if isinstance(fill, FillRange) else fill


__all__ = [
    "NAME",
    "Candidate",
    "RenderError",
    "Source",
    "candidate",
    "digest",
    "includes",
    "located",
    "normalise",
    "rendered_values",
    "source_of",
    "verification_key",
]
