"""What a configuration needs of a device, beside its limits: the compute capability that brought it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pretuned.runtime.limits import CLUSTERS_FROM
from pretuned.runtime.tensor_maps import MAPS_FROM
from pretuned.spec import space
from pretuned.spec.check.implementations import prefix_of
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Pairs

FIRST_SPECIFIC: Final = 90  # sm_90a is the first architecture with features of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Something that devices have from a compute capability on, 90 for 9.0; `path` is where the spec asks for it."""

    path: str
    what: str
    capability: int


def need_of(spec: KernelSpec, specialisation: Pairs, configuration: Configuration) -> Need | None:
    """Return what a configuration needs that not every device has, or None; `overlap` gives way where it is not."""
    implementation = spec.all_implementations[configuration.implementation]
    prefix = prefix_of(spec, configuration.implementation)
    if implementation.compile.arch_specific:
        return Need(path=f"{prefix}compile.arch-specific", what="arch-specific code", capability=FIRST_SPECIFIC)
    if implementation.tensor_maps:
        return Need(path=f"{prefix}tensor-maps", what="tensor maps", capability=MAPS_FROM)
    known = dict(configuration.values) | space.choices(spec, specialisation)
    for index, launch in enumerate(implementation.launches):
        if any(extent.fold(known).constant != 1 for extent in launch.cluster or ()):
            return Need(path=f"{prefix}launches[{index}].cluster", what="clusters", capability=CLUSTERS_FROM)
    return None
