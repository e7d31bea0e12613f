"""What is to be tuned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What to tune of one kernel: problems, and for some of them the configurations that hold the row now, ranked."""

    spec: KernelSpec
    problems: tuple[Problem, ...]
    incumbents: Mapping[Problem, tuple[Configuration, ...]] = field(default_factory=dict)
