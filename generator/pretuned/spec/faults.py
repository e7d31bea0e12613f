"""What pydantic found wrong with a document, as faults in the words of a spec's author."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from pretuned.config.toml import dotted, in_words, spelled
from pretuned.errors import Fault
from pretuned.runtime.text import nearest
from pretuned.spec.launch import LaunchSpec
from pretuned.spec.model import Argument, ImplementationSpec, KernelSpec
from pretuned.spec.parts import (
    BackwardSpec,
    Compile,
    Constraints,
    CostSpec,
    Dim,
    FillRange,
    Scratch,
    Specialisation,
    Verify,
)
from pretuned.spec.tensor_maps import TensorMapSpec

TENSOR_MAPS: Final = frozenset({"map", "tensor-map", "tensor_map", "tensor-maps"})
OUT_OF_SCOPE: Final = frozenset({"texture", "textures", "surface", "surfaces"})
CONSTANT: Final = frozenset({"memory", "constant-symbols"})

# What keys are called in other tools and in first attempts.
_ELSEWHERE: Final = {
    "blocks": ("grid",),
    "dimensions": ("dims",),
    "flags": ("options",),
    "gradient": ("backward",),
    "kernel": ("function", "launches"),
    "kernels": ("launches",),
    "kind": ("role",),
    "parameters": ("space",),
    "params": ("space", "arguments"),
    "ref": ("reference",),
    "restrictions": ("constraints", "where"),
    "shared_memory": ("shared",),
    "smem": ("shared",),
    "threads": ("block",),
    "tolerance": ("atol",),
    "tune_params": ("space",),
    "type": ("dtype",),
    "types": ("dtypes",),
    "verification": ("verify",),
}

# The model below a key of a model, and whether a list's index or a table's name stands between.
_BELOW: Final[dict[type[BaseModel], dict[str, tuple[type[BaseModel], bool]]]] = {
    KernelSpec: {
        "arguments": (Argument, True),
        "scratch": (Scratch, True),
        "tensor-maps": (TensorMapSpec, True),
        "dims": (Dim, True),
        "specialisations": (Specialisation, True),
        "launches": (LaunchSpec, True),
        "compile": (Compile, False),
        "constraints": (Constraints, False),
        "cost": (CostSpec, False),
        "verify": (Verify, False),
        "backward": (BackwardSpec, False),
        "implementations": (ImplementationSpec, True),
    },
    Argument: {"fill": (FillRange, False)},
    ImplementationSpec: {
        "scratch": (Scratch, True),
        "tensor-maps": (TensorMapSpec, True),
        "launches": (LaunchSpec, True),
        "compile": (Compile, False),
        "constraints": (Constraints, False),
        "cost": (CostSpec, False),
    },
}

Path = tuple[int | str, ...]


def structural_faults(errors: list[Any], file: str) -> list[Fault]:
    """Return pydantic's `errors` about a document as faults, one a slip."""
    faults = []
    for item in errors:
        message = _message(item)
        if message is not None:
            faults.append(Fault(file=file, path=dotted(item["loc"]), message=message))
    return faults


def unknown_key(key: str, model: type[BaseModel]) -> str:
    """Return the message about a key that `model` does not have."""
    if key in TENSOR_MAPS:
        return (
            f"'{key}': list tensor maps beside the launches, and name them in their `arguments`: "
            '`tensor-maps = [{ name = "x_map", array = "x", box = [64, 64] }]`'
        )
    if key in CONSTANT:
        return (
            f"'{key}': pass a struct with an array instead (`[structs]`), since parameters lie in constant memory; a "
            "symbol would be one for the calls of all streams"
        )
    if key in OUT_OF_SCOPE:
        return f"'{key}' is out of scope: textures are not supported"
    if key == "call" and model is KernelSpec:
        return "a library call is one of several implementations; write an [implementations.NAME] table"
    near = _nearest_key(key, model)
    known = ", ".join(sorted(_keys_of(model)))
    return f"unknown key '{key}'; " + (f"known are {known}" if near is None else f"did you mean '{near}'?")


def meant(item: Any) -> str | None:  # noqa: ANN401 - pydantic's ErrorDetails
    """Return the key that an unknown one stands for, if one is near."""
    path: Path = item["loc"]
    return _nearest_key(str(path[-1]), _model_at(path))


def _nearest_key(key: str, model: type[BaseModel]) -> str | None:
    known = _keys_of(model)
    return next((other for other in _ELSEWHERE.get(key, ()) if other in known), None) or nearest(key, known)


def _keys_of(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items() if not field.exclude]


def _message(item: Any) -> str | None:  # noqa: ANN401 - pydantic's ErrorDetails
    path: Path = item["loc"]
    match item["type"]:
        case "extra_forbidden":
            return unknown_key(str(path[-1]), _model_at(path))
        case "missing":
            return f"missing; write `{path[-1]} = ...`"
        case "too_short":
            # pydantic counts the entries that are right, and has said what is wrong with the others
            return None if item["input"] else "is empty; write at least one entry"
        case "list_type" | "tuple_type" if isinstance(item["input"], dict) and path[-1] in {
            *_BELOW[KernelSpec],
            "problems",
        }:
            return f"is one table; write [[{path[-1]}]], with two brackets"
        case "list_type" | "tuple_type" if isinstance(path[-1], str) and not isinstance(item["input"], dict):
            return f"{in_words(item)}; write `{path[-1]} = [{spelled(item['input'])}]`"
        case _:
            return in_words(item)


def _model_at(path: Path) -> type[BaseModel]:
    """Return the model whose key ends `path`."""
    model: type[BaseModel] = KernelSpec
    parts = iter(path[:-1])
    for part in parts:
        model, keyed = _BELOW[model][str(part)]
        if keyed:
            next(parts)
    return model
