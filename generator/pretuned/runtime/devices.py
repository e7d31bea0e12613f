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

# How far a device may be from one whose rows it takes, as the ratio of SM counts, of memory bandwidths and of L2 sizes.
# An H100 and an H200 lie at 1.44: each lost 0.4% and less by the other's rows on average, 4.4% at most.
ALIKE = 1.5  # rows are taken as they are
LIMIT = 2.0  # rows are taken with a warning; beyond it the default runs
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


class DeviceOfLaunch:
    """A device as the grid of one launch sees it: with the most blocks of that launch that it holds at once."""

    __slots__ = ("_device", "resident_blocks")

    def __init__(self, device: Device, resident_blocks: int) -> None:
        self._device, self.resident_blocks = device, resident_blocks

    def __getattr__(self, name: str) -> object:
        """Return a fact of the device."""
        return getattr(self._device, name)


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


class Match:
    """A device of the table whose rows may answer for another, and why; `doubt` says what to warn of, or is empty."""

    __slots__ = ("doubt", "name", "why")

    def __init__(self, name: str, why: str, doubt: str = "") -> None:
        self.name, self.why, self.doubt = name, why, doubt


def itself(device: Device, names: Iterable[str], facts: Devices) -> Match | None:
    """Return the device itself, by its name or an alias; a slice of a device with fewer SMs is not that device."""
    same = named(device.name, names)
    if same is None or facts.get(same, {}).get("sm_count", 0) not in {0, device.sm_count}:
        return None
    return Match(same, "exact device" if same == device.name else f"'{device.name}' is an alias of '{same}'")


def siblings(device: Device, names: Iterable[str], facts: Devices) -> list[Match]:
    """Return the devices whose rows are taken for `device` where it has none of its own, the best first.

    They are of its compute capability, and no ratio of SM counts, of memory bandwidths or of L2 sizes is beyond
    `LIMIT`. Beyond `ALIKE`, and where a bandwidth is not known, their rows are taken with a warning.
    """
    found = []
    for name in sorted(names):
        known = facts.get(name, {})
        if known.get("compute_capability") != device.compute_capability or known.get("sm_count", 0) <= 0:
            continue
        ratios = _ratios(device, known)
        if _beyond(LIMIT, ratios):
            continue
        doubt = f"it has {apart}" if (apart := _beyond(ALIKE, ratios)) else ""
        if not doubt and not (known.get("memory_gbps") and device.memory_gbps):
            doubt = "a memory bandwidth is not known"
        here = ", ".join(f"{theirs} and {ours} here" for _, theirs, ours in ratios)
        capability = f"{device.compute_capability / 10:.1f}"
        why = f"nearest device of compute capability {capability}, '{name}' ({here})"
        away = math.hypot(*(math.log(ratio) for ratio, _, _ in ratios))
        found.append((bool(doubt), away, name, Match(name, why, doubt)))
    return [match for *_, match in sorted(found, key=lambda one: one[:3])]


def too_far(device: Device, names: Iterable[str], facts: Devices) -> str:
    """Return why no other device's rows are taken, in parentheses; empty where there is none."""
    known = {name: facts[name] for name in sorted(names) if facts.get(name, {}).get("sm_count", 0) > 0}
    own = [one for one in known if known[one].get("compute_capability") == device.compute_capability]
    if own:
        apart = {name: _ratios(device, known[name]) for name in own}
        name = min(own, key=lambda one: max(apart[one]))
        return f" ('{name}' has {_beyond(LIMIT, apart[name])})"
    capabilities = sorted({facts.get("compute_capability", 0) for facts in known.values()})
    listed = " and ".join(f"{capability / 10:.1f}" for capability in capabilities)
    here = f"{device.compute_capability / 10:.1f}"
    return f" (there are rows of compute capability {listed}, and this device has {here})" if known else ""


def _ratios(device: Device, facts: dict[str, int]) -> list[tuple[float, str, str]]:
    """Return by how much two devices differ, as ratios of 1 and more, each with what they have in words.

    What one of them does not tell is left out; SM counts are known.
    """
    pairs = [
        (facts["sm_count"], max(1, device.sm_count), 1, "SMs"),
        (facts.get("memory_gbps", 0), device.memory_gbps, 1, "GB/s of memory"),
        (facts.get("l2_bytes", 0), device.l2_bytes, 1 << 20, "MiB of L2"),
    ]  # in the order in which messages name them
    return [
        (max(theirs / ours, ours / theirs), f"{theirs // unit} {words}", f"{ours // unit}")
        for theirs, ours, unit, words in pairs
        if theirs > 0 and ours > 0
    ]


def _beyond(limit: float, ratios: list[tuple[float, str, str]]) -> str:
    """Return the first difference beyond a ratio, in words; empty where there is none."""
    return next((f"{theirs} where this device has {ours}" for ratio, theirs, ours in ratios if ratio > limit), "")
