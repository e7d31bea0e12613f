"""A recorded space as a device: how a search strategy is judged without a GPU.

Theory of operation. A recording holds every configuration of a space with its time. A strategy proposes rows, as in a
real tuning, and gets their times, once each and with noise if wanted. What looks best among them is what a tuning
would pick, and its noise-free time is what that pick is worth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from pretuned.exchange import kernel_tuner, t4
from pretuned.exchange.files import FormatError
from pretuned.exchange.results import ParameterValue, Results
from pretuned.strategies import Strategy, ask


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recording:
    """A space whose every configuration was measured.

    `codes` is what strategies see: (configurations, 1 + parameters), the first column zeros, since a recording is of
    one implementation; then, in the order of `names`, the index of the value among the parameter's sorted `values`.
    Row 0 counts as the default. `times_us`: (configurations,), inf for a failure. `samples_us`: the single
    measurements, (configurations, most samples), padded with nan.
    """

    names: tuple[str, ...]
    codes: npt.NDArray[np.int16]
    times_us: npt.NDArray[np.float64]
    samples_us: npt.NDArray[np.float64]

    @classmethod
    def of_t4(cls, path: Path) -> Self:
        """Return the recording in a T4 file; raise FormatError where it is none."""
        return cls._of(path, t4.read(path))

    @classmethod
    def of_kernel_tuner(cls, path: Path) -> Self:
        """Return the recording in a cache file of Kernel Tuner; raise FormatError where it is none."""
        return cls._of(path, kernel_tuner.read(path))

    @classmethod
    def _of(cls, path: Path, results: Results) -> Self:
        recording = cls.of(results)
        if not np.isfinite(recording.times_us).any():
            raise FormatError(path, "holds no configuration that has a time")
        return recording

    @classmethod
    def of(cls, results: Results) -> Self:
        """Return the recording of `results`; of a configuration that stands there twice, the first."""
        first: dict[tuple[ParameterValue, ...], int] = {}
        for row, configuration in enumerate(results.configurations):
            first.setdefault(configuration, row)
        kept = list(first.values())
        codes = np.zeros((len(kept), 1 + len(results.names)), dtype=np.int16)
        for place, values in enumerate(results.values):
            code_of = {value: code for code, value in enumerate(values)}
            codes[:, 1 + place] = [code_of[results.configurations[row][place]] for row in kept]
        width = max((len(results.samples_us[row]) for row in kept), default=0)
        samples = np.full((len(kept), width), math.nan)
        for index, row in enumerate(kept):
            samples[index, : len(results.samples_us[row])] = results.samples_us[row]
        times = np.array([results.times_us[row] for row in kept])
        return cls(names=results.names, codes=codes, times_us=times, samples_us=samples)

    @property
    def best_us(self) -> float:
        """The time of the optimum, in microseconds."""
        return float(self.times_us.min())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """What a strategy did: the rows in the order in which they were measured, and how good its pick was after each.

    `shares[i]` is the share of the optimum after i + 1 evaluations: the optimum's time over the noise-free time of the
    configuration that looked best until then, 0 while all had failed. `batches` are the sizes of its proposals.
    """

    rows: tuple[int, ...]
    shares: npt.NDArray[np.float64]
    batches: tuple[int, ...] = field(repr=False)

    def share(self, evaluations: int) -> float:
        """Return the share of the optimum after `evaluations`, or at the end where there were fewer."""
        return float(self.shares[min(evaluations, len(self.shares)) - 1])


def replay(
    recording: Recording, strategy: Strategy, *, evaluations: int, noise: float | None = 0.0, seed: int = 0
) -> Trace:
    """Let `strategy` search `recording` until it ends or `evaluations` rows were measured.

    `noise` is the relative standard deviation of a measurement; with None each is one of the recorded samples. `seed`
    is that of the noise. A row that is proposed twice is an error of the strategy, and raises StrategyError.
    """
    measured_us = measured(recording, noise, seed)
    times_us: dict[int, float] = {}
    batches: list[int] = []
    while len(times_us) < evaluations and (batch := ask(strategy, recording.codes, dict(times_us))):
        batches.append(len(batch))
        times_us.update({row: float(measured_us[row]) for row in batch[: evaluations - len(times_us)]})
    rows = tuple(times_us)
    return Trace(rows=rows, shares=shares(recording, rows, measured_us), batches=tuple(batches))


def shares(
    recording: Recording, rows: tuple[int, ...], measured_us: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the share of the optimum after each of `rows`, whose measured times are `measured_us[row]`."""
    found = np.zeros(len(rows))
    best = math.inf
    for index, row in enumerate(rows):
        found[index] = found[index - 1] if index else 0.0
        if measured_us[row] < best:
            best = float(measured_us[row])
            found[index] = recording.best_us / recording.times_us[row]
    return found


def measured(recording: Recording, noise: float | None, seed: int) -> npt.NDArray[np.float64]:
    """Return one measurement of each configuration in microseconds, `noise` and `seed` as for `replay`."""
    generator = np.random.default_rng(seed)
    if noise is not None:
        return recording.times_us * np.exp(noise * generator.standard_normal(len(recording.times_us)))
    counts = np.isfinite(recording.samples_us).sum(axis=1)
    if not counts.any():
        raise ValueError("the recording kept no samples; give noise as a number")
    drawn = recording.samples_us[np.arange(len(counts)), generator.integers(0, np.maximum(counts, 1))]
    return np.where(counts > 0, drawn, recording.times_us)
