"""How configurations are executed on the host device: plainly, or under a sanitizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pretuned.compile import host
from pretuned.measure.runner import Runner

CANDIDATE_S: Final = 20.0  # the most that a configuration gets
FAR_S: Final = 30.0  # a block that goes over all of a far array takes longer, which is not a finding

ASAN: Final = "detect_leaks=0:abort_on_error=1:allocator_may_return_null=1"
UBSAN: Final = "abort_on_error=1:halt_on_error=1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionMode:
    """How configurations are executed: what sources are compiled for, what the child runs, and its environment."""

    name: str
    architecture: str
    target: str
    sanitizer: bool = False
    limit_s: float = CANDIDATE_S

    def runner(self) -> Runner:
        """Return a process that executes in this mode."""
        environment = {"LD_PRELOAD": host.sanitizer_libraries(), "ASAN_OPTIONS": ASAN, "UBSAN_OPTIONS": UBSAN}
        return Runner(self.target, candidate_s=self.limit_s, environment=environment if self.sanitizer else None)


_MACHINE: Final = "pretuned.measure.host.machine"
PLAIN: Final = ExecutionMode(name="host", architecture=host.HOST, target=f"{_MACHINE}:serve_checks")
MEMORY: Final = ExecutionMode(
    name="memory", architecture=host.MEMORY, target=f"{_MACHINE}:serve_memory", sanitizer=True
)
RACES: Final = ExecutionMode(name="races", architecture=host.RACES, target=f"{_MACHINE}:serve_races")
FAR: Final = ExecutionMode(
    name="far",
    architecture=host.MEMORY,
    target="pretuned.measure.host.reach:serve",
    sanitizer=True,
    limit_s=FAR_S,
)
SANITIZERS: Final = (MEMORY, RACES, FAR)
