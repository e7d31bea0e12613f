"""Recorded matrices: what every configuration of a kernel took at many problems. Written by `record_sizes.py`.

A file holds one kernel and specialisation on one device, as gzipped JSON: its spec's text, so that a recording outlasts
changes of the template; the configurations with their resources; and for each problem its group (`tuned`, `inside` or
`outside`), the dims in the order of `dims`, microseconds of every configuration in the screening (null where it is
illegal or failed), and those of the race by the configuration's place.
"""

from __future__ import annotations

import functools
import gzip
import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pretuned.compile.result import Resources
from pretuned.spec import space
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, DeviceFacts, Pairs, Problem, pairs

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "data" / "sizes"
FOLDERS = {"hgemm": ROOT / "benchmarks" / "hochgraf"}  # of specs that are not bundled
FLOOR = 0.05  # the least share of its time that a candidate keeps when the gaps of a screening are taken off


@dataclass(frozen=True, kw_only=True, eq=False)
class Matrix:
    """One recording. `screened` and `raced` are (problems, configurations) in microseconds, NaN where there is none.

    `groups` says of each problem whether it is `tuned`, `inside` or `outside`. `operations` are the launches and the
    zeroed buffers of a call, by configuration. A default of the kernel's is configuration 0.
    """

    kernel: str
    text: str  # of the spec
    spec: KernelSpec
    specialisation: Pairs
    device: str
    facts: DeviceFacts
    configurations: tuple[Configuration, ...]
    resources: tuple[dict[str, Resources], ...]
    operations: npt.NDArray[np.int64]
    problems: tuple[Problem, ...]
    groups: tuple[str, ...]
    screened: npt.NDArray[np.float64]
    raced: npt.NDArray[np.float64]
    provenance: dict[str, Any]

    def __str__(self) -> str:
        return " ".join([self.kernel, *(str(value) for _, value in self.specialisation)])

    def places(self, *groups: str) -> list[int]:
        """Return the places of the problems of `groups`."""
        return [at for at, group in enumerate(self.groups) if group in groups]

    def default_at(self, problem: Problem) -> int:
        """Return the place of the default at `problem`; one that was not recorded is at 0."""
        return self._places.get(space.default_at(self.spec, problem), 0)

    @functools.cached_property
    def _places(self) -> dict[Configuration, int]:
        return {configuration: at for at, configuration in enumerate(self.configurations)}

    @functools.cached_property
    def times(self) -> npt.NDArray[np.float64]:
        """Return (problems, configurations) times as a race measures them, in microseconds; NaN where there is none.

        What was raced is taken as it is. Of what was only screened, the gaps between held launches are taken off: the
        median, at that problem, of what screening and race differ by among configurations of the same implementation,
        or else of as many operations. It is at least the best of the race, to which it was not admitted.
        """
        raced = ~np.isnan(self.raced)
        gaps = np.where(raced, self.screened - self.raced, np.nan)
        found = np.where(raced, self.raced, self.screened)
        names = [configuration.implementation for configuration in self.configurations]
        for at in range(len(self.problems)):
            if not raced[at].any():
                continue
            best = np.nanmin(self.raced[at])
            for implementation, count in sorted({*zip(names, self.operations.tolist(), strict=True)}):
                own, alike = np.array(names) == implementation, self.operations == count
                known = next(k for k in (own & raced[at], alike & raced[at], raced[at]) if k.any())
                rest = own & ~raced[at]
                screened = self.screened[at, rest]
                found[at, rest] = np.maximum(screened - np.median(gaps[at, known]), FLOOR * screened)
                found[at, rest] = np.maximum(found[at, rest], best)
        return found


def read(path: Path, spec: KernelSpec | None = None) -> Matrix:
    """Read a recording; its spec is that of the recording unless another is given."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        head, *lines = map(json.loads, file)
    specialisation = pairs(head["specialisation"])
    names, count = head["dims"], len(head["configurations"])
    screened = np.array([line["screened"] for line in lines], dtype=np.float64).reshape(len(lines), count)
    raced = np.full(screened.shape, np.nan)
    for at, line in enumerate(lines):
        for place, time_us in line["raced"].items():
            raced[at, int(place)] = time_us
    return Matrix(
        kernel=head["kernel"],
        text=head["spec"],
        spec=spec or spec_of(head["kernel"], head["spec"]),
        specialisation=specialisation,
        device=head["provenance"]["device"],
        facts=DeviceFacts(**head["facts"]),
        configurations=tuple(
            Configuration(implementation=one["implementation"], values=pairs(one["values"]))
            for one in head["configurations"]
        ),
        resources=tuple(
            {
                name: Resources(registers=registers, spill_bytes=spilt, shared_bytes=shared)
                for name, (registers, spilt, shared) in one["resources"].items()
            }
            for one in head["configurations"]
        ),
        operations=np.array([one["operations"] for one in head["configurations"]]),
        problems=tuple(
            Problem(specialisation=specialisation, dims=pairs(dict(zip(names, line["dims"], strict=True))))
            for line in lines
        ),
        groups=tuple(line["group"] for line in lines),
        screened=screened,
        raced=raced,
        provenance=head["provenance"],
    )


def spec_of(
    name: str,
    text: str,
    sizes: Sequence[int] | None = None,
    folder: Path | None = None,
    *,
    requires: Sequence[str] = (),
) -> KernelSpec:
    """Return the spec as it was when it was recorded; its templates may have changed since.

    With `sizes`, every dim that has any has these. `folder` is that of its templates. `requires` are conditions beside
    those of the text.
    """
    document = tomllib.loads(text)
    for dim in document["dims"].values():
        if sizes is not None and "sizes" in dim:
            dim["sizes"] = list(sizes)
    constraints = document.setdefault("constraints", {})
    constraints["requires"] = [*constraints.get("requires", ()), *requires]
    return KernelSpec(**document, name=name, folder=folder or FOLDERS.get(name, ROOT / "templates"))


def recorded(folder: Path = RECORDED) -> Iterator[Matrix]:
    """Yield the recordings of a folder, by name."""
    yield from (read(path) for path in sorted(folder.glob("*.json.gz")))


def operations(spec: KernelSpec, configuration: Configuration) -> int:
    """Return what a call of `configuration` queues on the device: launches, and buffers that are zeroed."""
    implementation = spec.all_implementations[configuration.implementation]
    zeroed = sum(argument.init is not None for argument in spec.arrays) + len(implementation.init)
    return len(implementation.launches) + zeroed + sum(one.init is not None for one in implementation.scratch)


def rounded(time_us: float) -> float:
    """Return a time with 4 significant digits, which is more than a screening is repeatable to."""
    return float(f"{time_us:.4g}")


def head_of(
    spec: KernelSpec,
    specialisation: Pairs,
    configurations: Sequence[Configuration],
    resources: Sequence[dict[str, Resources]],
    facts: DeviceFacts,
    provenance: dict[str, Any],
) -> dict[str, Any]:
    """Return a recording's first line; that of each problem follows."""
    assert configurations[0].implementation == spec.default_implementation
    return {
        "kernel": spec.name,
        "specialisation": dict(specialisation),
        "provenance": provenance,
        "facts": {name: getattr(facts, name) for name in DeviceFacts.__slots__},
        "dims": sorted(spec.free_dims),
        "spec": (spec.folder / f"{spec.name}.toml").read_text(encoding="utf-8"),
        "configurations": [
            {
                "implementation": configuration.implementation,
                "values": dict(configuration.values),
                "operations": operations(spec, configuration),
                "resources": {
                    name: (own.registers, own.spill_bytes, own.shared_bytes) for name, own in sorted(taken.items())
                },
            }
            for configuration, taken in zip(configurations, resources, strict=True)
        ],
    }
