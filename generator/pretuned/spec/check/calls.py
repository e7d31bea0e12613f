"""Library calls: what function is named, what it is passed, and what stands beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pretuned.runtime.text import closest
from pretuned.spec.check.names import PathFault
from pretuned.spec.model import Implementation, KernelSpec, LibraryCall

LIBRARIES: Final = ("cupy", "torch")
_OF_TEMPLATES: Final = ("template", "init", "scratch", "space", "default", "seeds", "launches", "compile")


def call_faults(spec: KernelSpec, implementation: Implementation) -> Iterator[PathFault]:
    """Yield the faults of `call`, `arguments` and `out`, and the keys that a library call cannot have."""
    given = implementation.model_fields_set
    call = implementation.call
    if call is None:
        for key in sorted(given & {"arguments", "out"}):
            yield key, f"only a library call has `{key}`; leave it out, or write `call`"
        return
    for key in sorted(given & set(_OF_TEMPLATES)):
        yield key, f"a library call has no `{key}`; leave it out"
    yield from _function(str(implementation.target), call)
    yield from _passed(spec, call)
    if len(spec.outputs) > 1:
        names = ", ".join(argument.name for argument in spec.outputs)
        yield "call", f"a library call writes one output, and this kernel writes {names}; write a template"
    for scalar in spec.scalars:
        message = f"a library call is passed arrays only, and would not heed the scalar '{scalar.name}'"
        yield "call", f"{message}; only a kernel without scalars can have one"


def _function(target: str, call: LibraryCall) -> Iterator[PathFault]:
    if ":" not in target:
        yield "call", f"'{target}' names no function of a library; write `call = \"cupy:matmul\"`"
        return
    if call.module not in LIBRARIES:
        hint = closest(call.module, LIBRARIES) or f"; known are {', '.join(LIBRARIES)}"
        yield "call", f"'{call.module}' is no library that can be called{hint}"
    parts = call.function.split(".")
    if not all(part.isidentifier() and part.isascii() and not part.startswith("_") for part in parts):
        message = f"'{call.function}' is no public function's name"
        yield "call", f'{message}; write `call = "cupy:matmul"`, or with a dot as in "cupy:linalg.norm"'


def _passed(spec: KernelSpec, call: LibraryCall) -> Iterator[PathFault]:
    inputs = [argument.name for argument in spec.inputs]
    if not call.arguments:
        yield "arguments", f"a library call is passed at least one array; name some of {', '.join(inputs) or 'none'}"
    for index, name in enumerate(call.arguments):
        if name not in inputs:
            hint = closest(name, inputs) or f"; those are {', '.join(inputs)}"
            yield f"arguments[{index}]", f"'{name}' is no array that a call brings (`in` or `inout`){hint}"
