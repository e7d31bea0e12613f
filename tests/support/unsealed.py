"""A host device whose memory stays writable where its own would be sealed, as a GPU's does."""

from __future__ import annotations

from pretuned.measure.host.machine import HostMachine
from pretuned.measure.host.pages import SealablePages


class Unsealed(SealablePages):
    """Pages that stay writable."""

    def seal(self):
        pass


class Unsealing(HostMachine):
    """A host device with such pages."""

    def allocate(self, nbytes):
        return Unsealed(nbytes)
