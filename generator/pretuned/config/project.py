"""The project's table in pyproject.toml as a frozen `Project`; every fault is reported at once, with its TOML path."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pretuned.config.paths import MODULE, leaves, linked, misplaced, no_package, outside
from pretuned.config.toml import FILE, dotted, in_words, spelled
from pretuned.errors import ConfigError, Fault
from pretuned.runtime.cuda_majors import CUDA_MAJORS
from pretuned.runtime.text import closest, nearest

Mode = Literal["auto", "locked", "force", "off"]
Effort = Literal["fast", "default", "thorough"]
Keys = tuple[str | int, ...]
Entry = tuple[Keys, str]  # where in the table, and what is wrong there
MAX_CONFIGURATIONS: Final = 20  # that ship for a specialisation, unless the table says otherwise
SRC: Final[Mapping[str, str]] = {"": "src"}  # where packages lie unless the project's files say otherwise

_VERSION: Final = rf"({'|'.join(str(major.number) for major in CUDA_MAJORS)})\.[0-9]"  # \d is every digit of Unicode
ARCHITECTURE: Final = r"sm_([5-9][0-9]|[1-9][0-9]{2})[af]?"  # the oldest supported CUDA compiles for sm_50 on

_NAMESPACES: Final = frozenset(
    {"aten", "c10d", "export", "higher_order", "inductor", "mkl", "mkldnn", "onednn", "onnx", "prim", "prims"}
    | {"profiler", "quantized", "sparse", "streams", "torch"}
    | {"import_module", "load_library", "loaded_libraries"}  # of torch.ops itself
)
_UNKNOWN: Final = "unknown key"
_MISSING: Final = "missing"
_EXAMPLES: Final = {
    "kernels": 'kernels = "kernels"',
    "declarations": 'declarations = "kernels/declared.py"',
    "module": MODULE,
    "modules": "[[modules]]",
    "lock": 'lock = "pretuned.lock.json"',
    "mode": 'mode = "auto"',
    "budget": "budget = 60",
    "cuda": 'cuda = "13.0"',
    "architectures": 'architectures = ["sm_90"]',
    "cubins": "cubins = true",
    "require-tuned": "require-tuned = false",
    "max-loss": "max-loss = 0.02",
    "max-configurations": f"max-configurations = {MAX_CONFIGURATIONS}",
    "devices": 'devices = "all"',
    "effort": 'effort = "default"',
    "usage": 'usage = "calls.jsonl"',
    "torch": 'torch = "mypkg"',
    "jax": "jax = true",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTable:
    """One generated package: the folder of its specs, and its path in the source tree with forward slashes.

    `declarations` is the module of that folder which declares kernels in Python, or None; `torch` the namespace of the
    package's operators of PyTorch, or None. With `jax` the functions for JAX are written as well.
    """

    kernels: Path
    module: str
    declarations: Path | None = None
    torch: str | None = None
    jax: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project's table. Paths but `module` are absolute.

    `budget_s` is for the whole build, in seconds; `cuda` such as `13.0`, or None for the lock's or the machine's
    toolchain; `architectures`, such as `sm_90`, come besides those of the lock's devices. `max_loss` is the mean that
    a certificate may say at most (0.02 is 2%), None for any. `max_configurations` ship at most for a specialisation and
    device, the default included. `devices` are the GPUs of a machine that tune: `all`, or one, as in `cuda:1`. `effort`
    says how much is tried. `usage` is the usage file whose calls tuning goes by, or None. `package_dir` has the source
    folders of packages by import name.
    """

    root: Path
    modules: tuple[ModuleTable, ...]
    lock: Path
    mode: Mode = "auto"
    budget_s: float = 60.0
    cuda: str | None = None
    architectures: tuple[str, ...] = ()
    cubins: bool = True
    require_tuned: bool = False
    max_loss: float | None = None
    max_configurations: int = MAX_CONFIGURATIONS
    devices: str = "all"
    effort: Effort = "default"
    usage: Path | None = None
    package_dir: Mapping[str, str] = field(default_factory=lambda: SRC)

    def import_name(self, module: str) -> str:
        """Return the name under which the generated package at the source path `module` is imported."""
        return ".".join(import_path(module, self.package_dir).parts)


def import_path(module: str, package_dir: Mapping[str, str]) -> PurePosixPath:
    """Return where the module at a source path is installed: `src/a/b` at `a/b` with `{"": "src"}`."""
    path = PurePosixPath(module)
    inside = [(package, folder) for package, folder in package_dir.items() if path.is_relative_to(folder)]
    if not inside:
        return path
    package, folder = max(inside, key=lambda entry: len(PurePosixPath(entry[1]).parts))
    return PurePosixPath(*filter(None, package.split(".")), path.relative_to(folder))


class _Table(BaseModel):
    model_config = ConfigDict(
        strict=True, extra="forbid", alias_generator=lambda name: name.replace("_", "-"), allow_inf_nan=False
    )


class ModuleEntry(_Table):
    """An entry of `modules` as it is written."""

    kernels: str = "kernels"
    module: str
    declarations: str | None = None
    torch: str | None = None
    jax: bool = False


class ProjectTable(_Table):
    """The table as it is written."""

    kernels: str = "kernels"
    module: str | None = None
    declarations: str | None = None
    torch: str | None = None
    jax: bool = False
    modules: list[ModuleEntry] = Field(default_factory=list)
    lock: str = "pretuned.lock.json"
    mode: Mode = "auto"
    budget: float = Field(default=60.0, ge=0)
    cuda: str | None = Field(default=None, pattern=f"^{_VERSION}$")
    architectures: list[str] = Field(default_factory=list)
    cubins: bool = True
    require_tuned: bool = False
    max_loss: float | None = Field(default=None, gt=0, lt=1)
    max_configurations: int = Field(default=MAX_CONFIGURATIONS, ge=2, le=32)
    devices: str = Field(default="all", pattern="^(all|cuda(:[0-9]{1,4})?)$")
    effort: Effort = "default"
    usage: str | None = None


def build_project(
    table: Mapping[str, Any],
    *,
    root: Path,
    path: str = "tool.pretuned",
    reserved: Collection[str] = (),
    package_dir: Mapping[str, str] = SRC,
) -> Project:
    """Build a project from its table; raises ConfigError.

    `path` is where the table stands, for messages; `reserved` are keys in it that the build tool itself reads.
    """
    parsed = _parsed({key: value for key, value in table.items() if key not in reserved}, root, path)
    return Project(
        root=root,
        modules=tuple(
            ModuleTable(
                kernels=root / entry.kernels,
                module=str(entry.module).strip("/"),
                declarations=None if entry.declarations is None else root / entry.declarations,
                torch=entry.torch,
                jax=entry.jax,
            )
            for _, entry in _modules_of(parsed)
        ),
        lock=root / parsed.lock,
        mode=parsed.mode,
        budget_s=parsed.budget,
        cuda=parsed.cuda,
        architectures=tuple(dict.fromkeys(parsed.architectures)),
        cubins=parsed.cubins,
        require_tuned=parsed.require_tuned,
        max_loss=parsed.max_loss,
        max_configurations=parsed.max_configurations,
        devices=parsed.devices,
        effort=parsed.effort,
        usage=None if parsed.usage is None else root / parsed.usage,
        package_dir=package_dir,
    )


def _parsed(data: Mapping[str, Any], root: Path, path: str) -> ProjectTable:
    """Return the table as it is written; raises ConfigError with all that is wrong with it."""
    parsed, entries = None, list(_meaning(data))
    try:
        parsed = ProjectTable.model_validate(data)
    except ValidationError as error:
        entries += [_entry(item) for item in error.errors()]
    if parsed is not None and not entries:
        files = {"lock": parsed.lock, "usage": parsed.usage}
        entries += _link_faults(root, _modules_of(parsed), {key: file for key, file in files.items() if file})
    if parsed is not None and not entries:
        return parsed
    meant = {(*keys[:-1], nearest(str(keys[-1]), _EXAMPLES)) for keys, text in entries if text.startswith(_UNKNOWN)}
    raise ConfigError(
        Fault(file=FILE, path=dotted((path, *keys)), message=text)
        for keys, text in sorted(entries, key=_order)
        if not (keys in meant and text.startswith(_MISSING))  # under a misspelt name it is there
    )


def _modules_of(table: ProjectTable) -> list[tuple[Keys, ProjectTable | ModuleEntry]]:
    if table.module:
        return [((), table)]
    return [(("modules", index), module) for index, module in enumerate(table.modules)]


def _order(entry: Entry) -> tuple[tuple[str, ...], str]:
    return tuple(f"{key:06d}" if isinstance(key, int) else key for key in entry[0]), entry[1]


def _entry(item: Any) -> Entry:  # noqa: ANN401 - pydantic's ErrorDetails
    keys: Keys = item["loc"]
    key = next(str(name) for name in reversed(keys) if isinstance(name, str))
    example = _EXAMPLES.get(key, "")
    match item["type"]:
        case "extra_forbidden":
            known = ModuleEntry.model_fields if "modules" in keys else _EXAMPLES
            return keys, f"{_UNKNOWN}{closest(key, known) or f'; known are {_listed(sorted(known))}'}"
        case "missing":
            return keys, f"{_MISSING}; write `{example}`"
        case "literal_error":
            return keys, bad_effort(item["input"]) if key == "effort" else bad_mode(item["input"])
        case _:
            return keys, f"{in_words(item)}; write `{example}`"


def bad_mode(value: object) -> str:
    """Return what is wrong with `value` as a mode."""
    return _none_of(value, get_args(Mode))


def bad_effort(value: object) -> str:
    """Return what is wrong with `value` as an effort."""
    return _none_of(value, get_args(Effort))


def _none_of(value: object, known: Sequence[str]) -> str:
    return f"is {spelled(value)}; expected {_listed(known)}{closest(str(value), known)}"


def _listed(names: Iterable[str]) -> str:
    *first, last = (f"'{name}'" for name in names)
    return f"{', '.join(first)} or {last}" if first else last


def _meaning(data: Mapping[str, Any]) -> Iterator[Entry]:
    """What relates keys and paths, over whatever of the table is well-formed."""
    modules = data.get("modules")
    if modules and isinstance(modules, list):
        for key in sorted({"declarations", "jax", "kernels", "module", "torch"} & data.keys()):
            yield (key,), f"write `{key}` in each of the [[modules]] tables instead"
        tables: list[tuple[Keys, dict[Any, Any]]] = [
            (("modules", index), table) for index, table in enumerate(modules) if isinstance(table, dict)
        ]
    else:
        tables = [((), dict(data))]
        if "module" not in data:
            yield (
                ("module",),
                f"{_MISSING}; the generated package needs a place in your sources: `{_EXAMPLES['module']}`",
            )
    yield from _modules(tables)
    for key in ("lock", "usage"):
        if isinstance(path := data.get(key), str):
            yield from (((key,), text) for text in outside(path))
    names = data.get("architectures")
    for index, name in enumerate(names if isinstance(names, list) else ()):
        if isinstance(name, str) and not re.fullmatch(ARCHITECTURE, name):
            yield ("architectures", index), f"is {spelled(name)}; write a real architecture such as 'sm_90' or 'sm_90a'"


def _modules(tables: Iterable[tuple[Keys, Mapping[str, Any]]]) -> Iterator[Entry]:
    """Module paths are package paths, apart from one another and from the specs."""
    seen: dict[PurePosixPath, str] = {}
    for keys, table in tables:
        kernels, module = table.get("kernels", "kernels"), table.get("module")
        if isinstance(kernels, str):
            yield from (((*keys, "kernels"), text) for text in outside(kernels))
            yield from (((*keys, "declarations"), text) for text in misplaced(table.get("declarations"), kernels))
        yield from (((*keys, "torch"), text) for text in _no_namespace(table.get("torch")))
        if not isinstance(module, str):
            continue
        faults = list(outside(module)) or list(no_package(module))
        yield from (((*keys, "module"), text) for text in faults)
        if faults:
            continue
        path = PurePosixPath(module)
        for other, where in seen.items():
            if path == other:
                yield (*keys, "module"), f"'{module}' is also the path of {where}; two modules need two paths"
            elif path in other.parents or other in path.parents:
                yield (
                    (*keys, "module"),
                    f"'{module}' and '{other}' of {where} lie one in the other; put them side by side",
                )
        if isinstance(kernels, str) and path in {PurePosixPath(kernels), *PurePosixPath(kernels).parents}:
            yield (
                (*keys, "module"),
                f"'{module}' holds the specs ('{kernels}'), and is replaced at each build; choose another path",
            )
        seen.setdefault(path, dotted(keys) or "the table")


def _no_namespace(torch: object) -> Iterator[str]:
    """The operators of PyTorch stand in a namespace, which is a Python name that PyTorch itself does not use."""
    if not isinstance(torch, str):
        return
    if not (torch.isascii() and torch.isidentifier()) or keyword.iskeyword(torch) or torch.startswith("_"):
        yield f"is {spelled(torch)}; write a name for the operators in torch.ops: `{_EXAMPLES['torch']}`"
    elif torch in _NAMESPACES:
        yield f"'{torch}' is a namespace of PyTorch's own; write one of this package: `{_EXAMPLES['torch']}`"


def _link_faults(
    root: Path, modules: Sequence[tuple[Keys, ProjectTable | ModuleEntry]], files: Mapping[str, str]
) -> Iterator[Entry]:
    """Yield (keys, message) for what would be read or written outside `root`, or lost at the next build."""
    for keys, entry in modules:
        for key, path in (("kernels", entry.kernels), ("module", entry.module), ("declarations", entry.declarations)):
            if path is not None and leaves(root, path):
                yield (*keys, key), linked(path)
    for key, file in files.items():
        for module in (str(entry.module) for _, entry in modules):
            if not PurePosixPath(file).is_relative_to(PurePosixPath(module)):
                continue
            yield (key,), f"'{file}' lies in '{module}', which is replaced at each build; choose another path"
        if leaves(root, str(PurePosixPath(file).parent)):
            yield (key,), linked(file)
