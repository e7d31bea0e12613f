"""Devices: the one in hand, and which device of the table answers for it."""

from __future__ import annotations

import math

from .driver import (
    CAPABILITY_MAJOR,
    CAPABILITY_MINOR,
    L2_BYTES,
    MAX_BLOCK_REGISTERS,
    MAX_BLOCK_THREADS,
    SHARED_BYTES,
    SHARED_OPTIN_BYTES,
    SM_COUNT,
)
from .limits import MAX_THREADS, REGISTERS
from .text import no_such

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .driver import Driver
    from .table import Devices

_found: dict[int, Device] = {}


class Device:
    """What lookup and the spec's expressions ask of a GPU; sizes in bytes, `cuda` the driver's version (13000).

    A device that is only named has no `cuda` (0) and no `ordinal` (-1), and the limits that all GPUs share.
    """

    __slots__ = (
        "bandwidth",
        "compute_capability",
        "cuda",
        "l2_bytes",
        "max_threads",
        "name",
        "ordinal",
        "registers",
        "shared_bytes",
        "sm_count",
    )

    def __init__(self, name: str, facts: dict[str, int]) -> None:
        self.name = name
        self.sm_count = facts.get("sm_count", 0)
        self.compute_capability = facts.get("compute_capability", 0)
        self.bandwidth: int | Callable[[], int] = facts.get("memory_gbps", 0)
        self.l2_bytes = facts.get("l2_bytes", 0)
        self.shared_bytes = facts.get("shared_bytes", 0)
        self.max_threads = facts.get("max_threads", MAX_THREADS)
        self.registers = facts.get("registers", REGISTERS)
        self.cuda = facts.get("cuda", 0)
        self.ordinal = facts.get("ordinal", -1)

    @property
    def memory_gbps(self) -> int:
        """The memory's bandwidth in GB/s, or 0 where it is not known."""
        if not isinstance(self.bandwidth, int):
            self.bandwidth = self.bandwidth()
        return self.bandwidth


def in_hand(driver: Driver, ordinal: int) -> Device:
    """Return the facts of a device of this machine, asked for once."""
    if ordinal in _found:
        return _found[ordinal]
    facts = {
        "sm_count": driver.attribute(SM_COUNT, ordinal),
        "compute_capability": 10 * driver.attribute(CAPABILITY_MAJOR, ordinal)
        + driver.attribute(CAPABILITY_MINOR, ordinal),
        "l2_bytes": driver.attribute(L2_BYTES, ordinal),
        "shared_bytes": driver.attribute(SHARED_OPTIN_BYTES, ordinal) or driver.attribute(SHARED_BYTES, ordinal),
        "max_threads": driver.attribute(MAX_BLOCK_THREADS, ordinal),
        "registers": driver.attribute(MAX_BLOCK_REGISTERS, ordinal),
        "cuda": driver.version,
        "ordinal": ordinal,
    }
    _found[ordinal] = device = Device(driver.name(ordinal), facts)
    device.bandwidth = lambda: driver.memory_gbps(ordinal)  # asking takes as long as a hundred launches
    return device


def runs(architecture: str, capability: int) -> bool:
    """Return whether what was compiled for an architecture runs on a device.

    A cubin (`sm_80`) does on its own and later minor versions, PTX (`compute_80`) on all later ones; what is for one
    architecture alone (`sm_90a`) on that one.
    """
    kind, _, number = architecture.partition("_")
    made_for = int(number.rstrip("a"))
    later = made_for < capability and not number.endswith("a")
    return made_for == capability or (later and (kind == "compute" or made_for // 10 == capability // 10))


def alias(name: str) -> str:
    """Return what is the same in the names that drivers have given one device: they differ in vendor and layout."""
    words = name.lower().replace("-", " ").replace("(r)", "").split()
    return " ".join(word for word in words if word not in {"nvidia", "tesla"})


def named(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is `name` or an alias of it."""
    names = sorted(known)
    if name in names:
        return name
    return next((other for other in names if alias(other) == alias(name)), None)


def unknown(name: str, known: Iterable[str]) -> str:
    """Return the message for a device that the table lacks."""
    names = sorted(known)
    return (
        no_such("device", name, names, of="the table")
        if names
        else f"the table has no device '{name}' and no other: only defaults ship"
    )


def match(device: Device, names: Iterable[str], facts: Devices) -> tuple[str, str] | None:
    """Return (name, why) of the device whose rows answer for `device`: itself, an alias, or the nearest of its kind."""
    known = sorted(names)
    same = named(device.name, known)
    if same is not None and facts.get(same, {}).get("sm_count", 0) in {0, device.sm_count}:
        return same, "exact device" if same == device.name else f"'{device.name}' is an alias of '{same}'"
    near = sorted((_distance(device, facts[name]), name) for name in known if _alike(device, facts.get(name, {})))
    if not near:
        return None
    return near[0][1], f"nearest device of compute capability {device.compute_capability / 10:.1f}"


def _alike(device: Device, facts: dict[str, int]) -> bool:
    return facts.get("compute_capability") == device.compute_capability and facts.get("sm_count", 0) > 0


def _distance(device: Device, facts: dict[str, int]) -> float:
    """How far two devices are apart: log ratios of SM count and of memory bandwidth, where both are known."""
    gbps = facts.get("memory_gbps", 0)
    bandwidth = math.log(device.memory_gbps / gbps) if gbps > 0 and device.memory_gbps > 0 else 0.0
    return math.hypot(math.log(max(1, device.sm_count) / facts["sm_count"]), bandwidth)
