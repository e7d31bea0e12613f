"""`--at NAME=VALUE,...`: problems that are chosen by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pretuned.errors import UsageError
from pretuned.runtime.records import Value
from pretuned.runtime.text import no_such
from pretuned.spec.model import KernelSpec
from pretuned.spec.sizes import fits_arguments
from pretuned.spec.space import Problem, describe, pairs, specialisations

Chosen = dict[str, list[Mapping[str, Value]]]


def chosen_problems(texts: Sequence[str], specs: Mapping[str, KernelSpec]) -> Chosen:
    """Return by kernel what `--at` asks for; kernels with other dims are left out. Raises UsageError.

    Every free dim needs a size. Constant dims, of any size, and specialisations may be named too; where they are not,
    all their values are meant.
    """
    found: Chosen = {}
    for text in texts:
        given = _parsed(text)
        fitting = [spec for spec in specs.values() if set(spec.free_dims) <= given.keys() <= _choices(spec).keys()]
        if not fitting:
            raise UsageError(f"--at {text}: {_misfit(given, specs)}")
        for spec in fitting:
            found.setdefault(spec.name, []).append(_values(text, given, spec))
    return found


def _parsed(text: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise UsageError(f"--at {text}: write NAME=VALUE, as in `--at rows=7,cols=50257`: found '{part}'")
        if name in given:
            raise UsageError(f"--at {text}: names '{name}' twice; repeat --at for a second problem")
        given[name] = value
    return given


def _choices(spec: KernelSpec) -> dict[str, dict[str, Value]]:
    """Return what may be named: free dims, and of the rest each value by how it is written."""
    found: dict[str, dict[str, Value]] = {name: {} for name in spec.free_dims}
    for specialisation in specialisations(spec):
        for name, value in specialisation:
            found.setdefault(name, {})[describe(((name, value),)).partition("=")[2]] = value
    return found


def _misfit(given: Mapping[str, str], specs: Mapping[str, KernelSpec]) -> str:
    """Return why no kernel has such a problem."""
    known = {name: None for spec in specs.values() for name in _choices(spec)}
    for name in given:
        if name not in known:
            return no_such("dim or specialisation", name, known)
    wanting = {name: sorted(spec.free_dims.keys() - given.keys()) for name, spec in specs.items()}
    kernel, missing = min(wanting.items(), key=lambda item: (not item[1], len(item[1])))
    if missing:
        return f"{kernel} needs a size for {', '.join(missing)} too"
    return "no kernel has all of these; name those of one kernel"


def _values(text: str, given: Mapping[str, str], spec: KernelSpec) -> Mapping[str, Value]:
    choices, values = _choices(spec), dict[str, Value]()
    for name, value in given.items():
        if name in spec.dims:
            if not (value.isascii() and value.isdigit()):
                raise UsageError(f"--at {text}: '{value}' is not a size of {name}; write an integer of 0 or more")
            values[name] = int(value)
        elif value in choices[name]:
            values[name] = choices[name][value]
        else:
            raise UsageError(f"--at {text}: {spec.name} has {name} = {', '.join(choices[name])}; found '{value}'")
    dims = {name: int(given[name]) for name in spec.free_dims}
    if not fits_arguments(spec, Problem(specialisation=(), dims=pairs(dims))):
        raise UsageError(f"--at {text}: a size is larger than its argument's type holds")
    return values
