"""The device that is tuned for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pretuned.record.rows import TunedDevice
from pretuned.spec.space import DeviceFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How thoroughly candidates are timed: the most rounds of races, duels and probes (0 probes: none)."""

    race_rounds: int = 11
    duel_rounds: int = 31  # the 95% interval lies between the 10th and the 22nd sample
    probe_rounds: int = 15


# On the host a time means nothing for a GPU: enough to settle an order, and to go through all that tuning does.
HOST_PACE: Final = Pace(race_rounds=3, duel_rounds=7, probe_rounds=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A device by its name in rows, with its facts and the driver's version (of the host, its processor)."""

    name: str
    device: TunedDevice
    driver: str

    @property
    def pace(self) -> Pace:
        """How thoroughly it is tuned for."""
        return HOST_PACE if self.device.is_host else Pace()

    @property
    def facts(self) -> DeviceFacts:
        """What expressions may ask of it."""
        return DeviceFacts(
            sm_count=self.device.sm_count,
            compute_capability=self.device.compute_capability,
            shared_bytes=self.device.shared_bytes,
            l2_bytes=self.device.l2_bytes,
        )
