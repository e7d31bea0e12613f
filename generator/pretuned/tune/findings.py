"""What executing a kernel's configurations found out: plain data."""

from __future__ import annotations

from dataclasses import dataclass, field

from pretuned.outcome import Failure
from pretuned.spec.space import Configuration, Pairs, Problem

ConfigurationKey = tuple[Pairs, Configuration]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was wrong: `outcome` in a word or two, and `detail`.

    `problem` is None for what did not compile; `configuration` for what is not a configuration's, as a reference.
    """

    kernel: str
    mode: str
    outcome: str
    detail: str
    specialisation: Pairs
    configuration: Configuration | None = None
    problem: Problem | None = None
    failure: Failure | None = None


@dataclass(slots=True, kw_only=True)
class ExecutionReport:
    """What was executed of one kernel in one mode, what was wrong, and the seconds that processes executed.

    `configurations` were executed, of `total` over all specialisations, at `sizes` of the free dims; with `by_hand`,
    these were chosen by the caller. `left`: those that there was no time for; `unfinished`: whether some sizes were
    left out for that; `cut`: what ran when the time ended.
    `slow`: how many were ended after their limit, over far arrays. `uncompiled`: those that were not compiled, since
    the first ones failed alike. `nowhere`: those that are legal at no size that was tried, and what refuses them.
    `gpu_only`: those that the host cannot execute, and why. `notes`: what else was left out, and why.
    """

    kernel: str
    mode: str
    total: int = 0
    configurations: int = 0
    executions: int = 0
    sizes: int = 0
    by_hand: bool = False
    left: int = 0
    unfinished: bool = False
    uncompiled: int = 0
    slow: int = 0
    cut: list[tuple[Problem, Configuration]] = field(default_factory=list)
    execute_s: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    nowhere: list[tuple[Pairs, Configuration, str]] = field(default_factory=list)
    gpu_only: dict[ConfigurationKey, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def refused(self) -> str | None:
        """Why the host cannot execute the kernel, if it cannot."""
        return next(iter(self.gpu_only.values()), None) if not self.configurations and not self.findings else None
