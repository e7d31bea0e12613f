"""The problems at which a finalist is verified once more, besides the one it was timed at. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pretuned.spec.buckets import bounds, fits_arguments, sizes_of
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Problem, admitted

TINY: Final = (0, 1, 37)  # nothing to do, a single element, less than a warp and a bit


def check_problems(spec: KernelSpec, problem: Problem) -> Iterator[Problem]:
    """Yield the odd and boundary problems of the bucket of `problem` that the kernel admits, without repetition.

    Those are: every dim tiny; the bucket's lower bounds; one less than the measured sizes, which breaks every multiple.
    """
    dims = {name: int(size) for name, size in problem.dims}
    trials: list[dict[str, int]] = [dict.fromkeys(dims, size) for size in TINY]
    trials.append({name: bounds(sizes_of(spec, name), size)[0] or size for name, size in dims.items()})
    trials.append({name: max(size - 1, 1) for name, size in dims.items()})
    seen = {problem}
    for trial in trials:
        other = Problem(specialisation=problem.specialisation, dims=tuple(sorted(trial.items())))
        if other not in seen and fits_arguments(spec, other) and admitted(spec, other):
            seen.add(other)
            yield other
