"""What the environment, `use` and `using` ask for, checked against what this package ships.

PRETUNED_DEVICE    whose rows to use: NVIDIA H200, or pkg.tuned:NVIDIA H200; other.kernel:NVIDIA A100-SXM4-40GB
PRETUNED_CONFIG    pkg.tuned.kernel:block=512,vec=4; other:implementation=atomic,block=256
PRETUNED_TABLE     a lock file whose rows and selections are used in place of the package's
PRETUNED_DEFAULTS  1: run defaults only; or the packages and kernels to do so for: axpby, pkg.tuned
PRETUNED_STRICT    1: a call is an error for which nothing was measured here, or on a device like this one
PRETUNED_WARN      0: do not warn of such a call
PRETUNED_USAGE     a file that the problems called are added to when the process ends (see `usage`)
PRETUNED_FAST_PATH 0: every call takes the slow path, which checks everything (see `fastpath`)

The environment is read once, at the first call. `use` overrides it for the process, `using` overrides both for a block
of code: in its thread, or its task. A name without its package counts in every package that has such a kernel.
"""

from __future__ import annotations

import os
import threading
from contextvars import ContextVar

from .answers import table_of
from .devices import named, unknown
from .errors import OverrideError, no_kernel, not_shipped
from .table import KERNELS, PACKAGE
from .text import assignment, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from .answers import LockTable, TableOfKernel
    from .records import ShippedConfiguration, Value, Values
    from .table import Devices, Kernel

    Wanted = tuple[str | None, Values]  # implementation or None for any, configuration
    Defaults = bool | str | Iterable[str] | None

_FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "device": (str, "a device's name"),
    "defaults": ((bool, tuple), "True, False or names of kernels"),
    "table": ((str, os.PathLike), "the path of a lock"),
    "strict": (bool, "True or False"),
}
_lock = threading.RLock()
_process: list[Overrides] = []  # the environment's, and over it what `use` put there
# What `using` made before: the same overrides are one object, and keep their plans.
_known: dict[object, Overrides] = {}
_KEPT = 64
_here: ContextVar[Overrides | None] = ContextVar(f"{PACKAGE}.using", default=None)
_outside: ContextVar[tuple[Overrides | None, ...]] = ContextVar(f"{PACKAGE}.outside", default=())
_used: list[bool] = []  # whether `using` was ever entered: the fast path looks for it from then on
_ready: list[bool] = []  # whether the fast paths that do not look for it are gone
on_change: list[Callable[[], None]] = []  # called when what was decided under earlier overrides no longer holds


class Overrides:
    """Overrides, checked: by kernel, and `devices_by` and `defaulted` also by "" for all of them.

    `by` says what asked for a device, a configuration or the defaults of a kernel, or of all for "": PRETUNED_DEVICE,
    `using`, and so on.
    """

    __slots__ = (
        "by",
        "configurations",
        "defaulted",
        "devices_by",
        "fast_path",
        "strict",
        "table",
        "usage",
        "warn",
    )

    def __init__(self, under: Overrides | None = None) -> None:
        self.strict: bool = under.strict if under else False
        self.warn: bool = under.warn if under else True
        self.usage: str = under.usage if under else ""
        self.fast_path: bool = under.fast_path if under else True
        self.table: LockTable | None = under.table if under else None
        self.devices_by: dict[str, str] = dict(under.devices_by) if under else {}
        self.defaulted: dict[str, bool] = dict(under.defaulted) if under else {}
        self.configurations: dict[str, Wanted] = dict(under.configurations) if under else {}
        self.by: dict[tuple[str, str], str] = dict(under.by) if under else {}

    def table_of(self, kernel: Kernel) -> TableOfKernel:
        """Return the rows and selections in force for `kernel`."""
        return table_of(kernel) if self.table is None else self.table.of(kernel)

    def facts(self, kernel: Kernel) -> Devices:
        """Return what is known of their devices."""
        return kernel.devices if self.table is None else self.table.devices

    def device(self, kernel: Kernel) -> str | None:
        """Return the device whose rows are wanted for `kernel`."""
        return self.devices_by.get(kernel.name, self.devices_by.get(""))

    def defaults(self, kernel: Kernel) -> bool:
        """Return whether `kernel` shall run its default."""
        return self.defaulted.get(kernel.name, self.defaulted.get("", False))

    def asked_by(self, kind: str, kernel: Kernel) -> str:
        """Return what asked for `kernel`'s device, config or defaults."""
        return self.by.get((kind, kernel.name)) or self.by[kind, ""]

    def forced(self, kernel: Kernel, shipped: Sequence[ShippedConfiguration]) -> list[ShippedConfiguration]:
        """Return what of `shipped` is to run where it is legal; raises OverrideError where that does not ship."""
        wanted = self.configurations.get(kernel.name)
        if wanted is None:
            return []
        found = [one for one in shipped if one.runs(*wanted)]
        if not found:
            raise not_shipped(kernel, wanted, shipped, self.asked_by("config", kernel))
        return found

    def read_table(self, path: str, by: str) -> None:
        """Take the rows and selections of a lock file instead."""
        from .table_override import read  # noqa: PLC0415 - brings json, which few calls need

        self.table = read(path, by)

    def want_device(self, name: str, kernel: str, by: str) -> None:
        """Use the rows of a device, by its name in the table or an alias; for one kernel, or "" for all."""
        known = {one for key, of in KERNELS.items() if kernel in {"", key} for one in self.table_of(of).devices}
        if (found := named(name, known)) is None:
            raise OverrideError(f"{by}: {unknown(name, known)}")
        self.devices_by[kernel] = found
        self.by["device", kernel] = by

    def want_configuration(self, kernel: str, wanted: Wanted, by: str) -> None:
        """Run a configuration that ships, where it is legal."""
        if not any(one.runs(*wanted) for one in KERNELS[kernel].shipped):
            raise not_shipped(KERNELS[kernel], wanted, KERNELS[kernel].shipped, by)
        self.configurations[kernel] = wanted
        self.by["config", kernel] = by

    def forget_configurations(self, kernel: str = "") -> None:
        """Ask for no configuration of a kernel, or of any for ""."""
        for name in [kernel] if kernel else list(self.configurations):
            self.configurations.pop(name, None)
            self.by.pop(("config", name), None)

    def want_defaults(self, kernel: str, by: str, *, wanted: bool = True) -> None:
        """Run the default, of one kernel, or of all for ""."""
        self.defaulted[kernel] = wanted
        self.by["defaults", kernel] = by


def ambient() -> Overrides:
    """Return the overrides in force here: those of `using`, else the process's."""
    return _here.get() or process_overrides()


def process_overrides() -> Overrides:
    """Return the process's overrides; raises OverrideError at every call while one of the environment's is wrong."""
    if not _process:
        with _lock:
            if not _process:
                _process.append(_of_environment(os.environ))
    return _process[-1]


def watched() -> bool:
    """Return whether calls have to look for overrides of a block of code."""
    return bool(_used)


def _changed() -> None:
    for forget in on_change:
        forget()


def _of_environment(environment: Mapping[str, str]) -> Overrides:
    overrides = Overrides()
    overrides.strict = _flag(environment, "PRETUNED_STRICT", default=False)
    overrides.warn = _flag(environment, "PRETUNED_WARN", default=True)
    overrides.fast_path = _flag(environment, "PRETUNED_FAST_PATH", default=True)
    overrides.usage = environment.get("PRETUNED_USAGE", "")
    if path := environment.get("PRETUNED_TABLE"):
        overrides.read_table(path, "PRETUNED_TABLE")
    text = environment.get("PRETUNED_DEVICE", "")
    for entry in _entries(text):
        scope, colon, name = entry.partition(":")
        for kernel in _scoped(scope, "PRETUNED_DEVICE") if colon else [""]:
            overrides.want_device(name.strip() if colon else entry, kernel, "PRETUNED_DEVICE")
    for entry in _entries(environment.get("PRETUNED_CONFIG", "")):
        _configuration(overrides, entry)
    text = environment.get("PRETUNED_DEFAULTS", "").strip()
    if text.lower() in _FLAGS:
        overrides.want_defaults("", "PRETUNED_DEFAULTS", wanted=_FLAGS[text.lower()])
    else:
        for name in filter(None, (part.strip() for part in text.split(","))):
            for kernel in _scoped(name, "PRETUNED_DEFAULTS"):
                overrides.want_defaults(kernel, "PRETUNED_DEFAULTS")
    return overrides


def _entries(text: str) -> Iterator[str]:
    return filter(None, (part.strip() for part in text.split(";")))


def _flag(environment: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = environment.get(name, "").strip()
    if text and text.lower() not in _FLAGS:
        raise OverrideError(f"{name}: expected 1 or 0, found '{text}'")
    return _FLAGS.get(text.lower(), default)


def _scoped(scope: str, by: str) -> list[str]:
    """Return the kernels of this package that a scope names, "" for all; those of another package are left to it."""
    scope = scope.strip()
    if scope == PACKAGE:
        return [""]
    package, _, name = scope.rpartition(".")
    if package and package != PACKAGE:
        return []
    if name in KERNELS:
        return [name]
    if package:
        raise OverrideError(f"{by}: {no_kernel(name)}")
    return []


def _configuration(overrides: Overrides, entry: str) -> None:
    target, colon, assignments = entry.partition(":")
    if not colon or not target.strip():
        raise OverrideError(f"PRETUNED_CONFIG: {shown(entry)} is not KERNEL:key=value,... as in 'axpby:block=512'")
    for kernel in _scoped(target, "PRETUNED_CONFIG"):
        if not kernel:
            raise OverrideError(f"PRETUNED_CONFIG: {shown(entry)} names a package; name one of its kernels")
        values = dict(_assignment(entry, part) for part in assignments.split(","))
        implementation = values.pop("implementation", None)
        wanted = None if implementation is None else str(implementation), values
        overrides.want_configuration(kernel, wanted, "PRETUNED_CONFIG")


def _assignment(entry: str, text: str) -> tuple[str, Value]:
    if (found := assignment(text)) is None:
        raise OverrideError(f"PRETUNED_CONFIG: {shown(text.strip())} in {shown(entry)} is not key=value")
    key, value = found
    if key == "implementation":
        return key, text.partition("=")[2].strip()
    return key, value


class Using:
    """Overrides for a block of code: `with using(row_softmax={"block": 512}): ...`, in its thread or its task.

    May be entered again, also within itself and by several threads at once.
    """

    __slots__ = ("_overrides",)

    def __init__(self, overrides: Overrides) -> None:
        self._overrides = overrides

    def __enter__(self) -> None:
        if not _ready:
            with _lock:
                _used.append(True)
                _changed()  # the fast path does not look for such overrides yet
                _ready.append(True)
        _outside.set((*_outside.get(), _here.get()))
        _here.set(self._overrides)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        *others, before = _outside.get() or (None,)
        _outside.set(tuple(others))
        _here.set(before)


def overrides_of(
    by: str,
    *,
    over: Overrides | None = None,
    device: str | None,
    defaults: bool | tuple[str, ...] | None,
    table: str | None,
    strict: bool | None,
    configurations: Mapping[str, object],
) -> Overrides:
    """Return these overrides over others, or those in force; raises OverrideError for what the package lacks."""
    overrides = Overrides(over or ambient())
    _require_kinds(by, device=device, defaults=defaults, table=table, strict=strict)
    if strict is not None:
        overrides.strict = strict
    if table is not None:
        overrides.read_table(table, by)
    if device is not None:
        overrides.devices_by.clear()
        overrides.by = {key: asked for key, asked in overrides.by.items() if key[0] != "device"}
        overrides.want_device(device, "", by)
    if isinstance(defaults, bool):
        overrides.defaulted.clear()
        overrides.by = {key: asked for key, asked in overrides.by.items() if key[0] != "defaults"}
        overrides.want_defaults("", by, wanted=defaults)
        if defaults:
            overrides.forget_configurations()  # that were asked for outside
    else:
        for name in defaults or ():
            kernel = _kernel(str(name), by)
            overrides.want_defaults(kernel, by)
            overrides.forget_configurations(kernel)
    for name, values in configurations.items():
        if not isinstance(values, dict):
            raise OverrideError(f"{by}: {name}: expected a configuration as in {{'block': 512}}, found {values!r}")
        plain = {key: value for key, value in values.items() if key != "implementation"}
        overrides.want_configuration(_kernel(name, by), (values.get("implementation"), plain), by)
    return overrides


def _require_kinds(by: str, **given: object) -> None:
    for name, value in given.items():
        kinds, wanted = _KINDS[name]
        if value is not None and not isinstance(value, kinds):
            raise OverrideError(f"{by}: {name}: expected {wanted}, found {value!r}")


def _kernel(name: str, by: str) -> str:
    if (name := name.removeprefix(f"{PACKAGE}.")) not in KERNELS:
        raise OverrideError(f"{by}: {no_kernel(name)}")
    return name


def using(*, defaults: Defaults, table: str | None, **overrides: object) -> Using:
    """Return overrides for a block of code; the arguments are those of `overrides_of`."""
    defaults = _names(defaults)
    key = ambient(), repr((sorted(overrides.items()), defaults, table, _version(table)))
    with _lock:
        if key not in _known:
            if len(_known) >= _KEPT:
                _known.clear()
                _changed()  # plans are kept by overrides
            _known[key] = overrides_of("using", defaults=defaults, table=table, **overrides)  # type: ignore[arg-type]
        return Using(_known[key])


def _names(defaults: Defaults) -> bool | tuple[str, ...] | None:
    """Return the kernels of `defaults`, which may be one alone, as values that can be compared."""
    if defaults is None or not hasattr(defaults, "__iter__"):  # which is checked with the others
        return defaults
    return (defaults,) if isinstance(defaults, str) else tuple(defaults)


def _version(table: str | None) -> tuple[int, int] | None:
    """Return what changes when a table is written anew."""
    try:
        found = os.stat(table) if table is not None else None  # noqa: PTH116 - pathlib costs more than it gives here
    except OSError:
        return None  # an error when it is read
    return None if found is None else (found.st_mtime_ns, found.st_size)


def use(*, defaults: Defaults, **overrides: object) -> None:
    """Put overrides over the environment's for the process; without any, the environment's alone count again.

    Where it raises, what was in force stays.
    """
    process_overrides()
    with _lock:
        made: list[Overrides] = []
        if defaults is not None or any(value is not None and value != {} for value in overrides.values()):
            made.append(overrides_of("use", over=_process[0], defaults=_names(defaults), **overrides))  # type: ignore[arg-type]
        _process[1:] = made
        _known.clear()
    _changed()
