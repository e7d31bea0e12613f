"""What the environment asks for: read once, at the first call, and held against what this package ships.

PRETUNED_DEVICE    whose rows to use
PRETUNED_CONFIG    pkg.tuned.kernel:block=512,vec=4; other:implementation=atomic,block=256
PRETUNED_TABLE     a lock file whose rows are used in place of the package's
PRETUNED_DEFAULTS  1: run defaults only
PRETUNED_STRICT    1: a call for which nothing was measured is an error
PRETUNED_WARN      0: do not warn of such a call
"""

from __future__ import annotations

import os
import threading

from . import KERNELS, PACKAGE
from .devices import named, unknown
from .errors import OverrideError, closest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import Devices, Kernel, Row, Shipped, Values

_FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_lock = threading.Lock()
_read: list[Overrides] = []


class Overrides:
    """The environment's wishes, checked; `configurations` by kernel as (implementation or None, configuration)."""

    __slots__ = ("configurations", "defaults", "device", "devices", "strict", "table", "warn")

    def __init__(self) -> None:
        self.defaults = _flag("PRETUNED_DEFAULTS", default=False)
        self.strict = _flag("PRETUNED_STRICT", default=False)
        self.warn = _flag("PRETUNED_WARN", default=True)
        self.devices: Devices | None = None
        self.table: dict[str, dict[str, tuple[Row, ...]]] | None = None
        if path := os.environ.get("PRETUNED_TABLE"):
            from .exchange import read  # noqa: PLC0415 - brings json, which few calls need

            self.devices, self.table = read(path)
        self.device = self._device(os.environ.get("PRETUNED_DEVICE"))
        self.configurations = _configurations(os.environ.get("PRETUNED_CONFIG", ""))

    def _device(self, wanted: str | None) -> str | None:
        """The device whose rows PRETUNED_DEVICE names, by its name in the table."""
        if not wanted:
            return None
        tables = self.table if self.table is not None else {name: kernel.rows for name, kernel in KERNELS.items()}
        known = {device for rows in tables.values() for device in rows}
        if (name := named(wanted, known)) is None:
            raise OverrideError(f"PRETUNED_DEVICE: {unknown(wanted, known)}")
        return name

    def rows(self, kernel: Kernel) -> dict[str, tuple[Row, ...]]:
        """Return the rows in force for `kernel`, by device."""
        return kernel.rows if self.table is None else self.table.get(kernel.name, {})

    def facts(self, kernel: Kernel) -> Devices:
        """Return what is known of the devices of those rows."""
        return kernel.devices if self.devices is None else self.devices


def overrides() -> Overrides:
    """Return the overrides in force; raises OverrideError at every call while one of them is wrong."""
    if not _read:
        with _lock:
            if not _read:
                _read.append(Overrides())
    return _read[0]


def _flag(name: str, *, default: bool) -> bool:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if text.lower() not in _FLAGS:
        raise OverrideError(f"{name}: expected 1 or 0, found '{text}'")
    return _FLAGS[text.lower()]


def _configurations(text: str) -> dict[str, tuple[str | None, Values]]:
    """Parse PRETUNED_CONFIG; entries for other packages are none of ours."""
    wanted: dict[str, tuple[str | None, Values]] = {}
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        target, colon, assignments = entry.partition(":")
        package, _, name = target.strip().rpartition(".")
        if not colon or not name:
            raise OverrideError(f"PRETUNED_CONFIG: '{entry}' is no KERNEL:key=value,... as in 'axpby:block=512,vec=4'")
        if package and package != PACKAGE:
            continue
        if name not in KERNELS:
            if package:
                known = ", ".join(sorted(KERNELS))
                raise OverrideError(
                    f"PRETUNED_CONFIG: {PACKAGE} has no kernel '{name}'{closest(name, KERNELS)}; it has {known}"
                )
            continue
        values = dict(_assignment(entry, part) for part in assignments.split(","))
        implementation = values.pop("implementation", None)
        wanted[name] = (None if implementation is None else str(implementation), values)
        if not any(fits(wanted[name], shipped) for shipped in KERNELS[name].shipped):
            raise not_shipped(KERNELS[name], wanted[name], KERNELS[name].shipped)
    return wanted


def _assignment(entry: str, text: str) -> tuple[str, int | bool | str]:
    key, equals, value = (part.strip() for part in text.partition("="))
    if not key or not equals or not value:
        raise OverrideError(f"PRETUNED_CONFIG: '{text.strip()}' in '{entry}' is no key=value")
    if key == "implementation":
        return key, value
    if value in {"true", "false"}:
        return key, value == "true"
    try:
        return key, int(value)
    except ValueError:
        raise OverrideError(f"PRETUNED_CONFIG: '{value}' in '{entry}' is no integer, true or false") from None


def fits(wanted: tuple[str | None, Values], shipped: Shipped) -> bool:
    """Return whether what ships is what was asked for; without a name, of any implementation."""
    implementation, values = wanted
    return implementation in {None, shipped[1]} and same(values, shipped[2])


def same(left: Values, right: Values) -> bool:
    """Return whether two configurations agree, a bool being no integer."""
    return left == right and all(type(value) is type(right[name]) for name, value in left.items())


def not_shipped(kernel: Kernel, wanted: tuple[str | None, Values], shipped: tuple[Shipped, ...]) -> OverrideError:
    """Return the error for a configuration of PRETUNED_CONFIG that is not in the package."""
    implementation, values = wanted
    listed = sorted({describe(entry[1], entry[2]) for entry in shipped})
    asked = describe(implementation or "main", values)
    plain = ",".join(f"{name}={_text(value)}" for name, value in sorted(values.items()))
    named = f"implementation={implementation}," if implementation not in {None, "main"} else ""
    return OverrideError(
        f"PRETUNED_CONFIG: {PACKAGE}.{kernel.name} does not ship {asked}; it ships {'; '.join(listed)}. "
        f"To ship another, build with `pretuned bake --with {kernel.name}:{named}{plain}`"
    )


def describe(implementation: str, values: Values) -> str:
    """Return `block=256, vec=1`, after the implementation's name where it has one."""
    text = ", ".join(f"{name}={_text(value)}" for name, value in sorted(values.items()))
    return (
        (text or "no parameters")
        if implementation == "main"
        else f"{implementation}: {text}"
        if text
        else implementation
    )


def _text(value: int | bool | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
