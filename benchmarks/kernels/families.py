"""All contests, by kernel. A family whose module cannot be imported is printed and left out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

from contest import Contest

FAMILIES = ("elementwise", "layouts", "losses", "norms", "products", "reductions", "scans", "softmax")


def contests(peers: Sequence[str] | None = None) -> dict[str, Contest]:
    """Return the contests by kernel, with all peers or those that are named."""
    found = {}
    for family in FAMILIES:
        try:
            found |= {one.kernel: one for one in import_module(family).CONTESTS}
        except ImportError as error:
            print(f"{family}: {error}", file=sys.stderr)
    if peers is None:
        return found
    return {name: replace(one, peers=[peer for peer in one.peers if peer.name in peers]) for name, one in found.items()}
