"""The device that is tuned for."""

from __future__ import annotations

from dataclasses import dataclass

from pretuned.record.rows import Device
from pretuned.spec.space import DeviceFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A device by its name in rows, with its facts and the driver's version."""

    name: str
    device: Device
    driver: str

    @property
    def facts(self) -> DeviceFacts:
        """What expressions may ask of it."""
        return DeviceFacts(
            sm_count=self.device.sm_count,
            compute_capability=self.device.compute_capability,
            shared_bytes=self.device.shared_bytes,
            l2_bytes=self.device.l2_bytes,
        )
