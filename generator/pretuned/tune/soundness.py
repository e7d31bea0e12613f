"""Whether what is to ship is right at awkward sizes too: odd and boundary problems, and the memory sanitizer.

The spec's reference judges a candidate the first time. From then on the default's results do, which the reference has
found right too, and which take no time on the host. Where a candidate differs from these, the reference judges the
default there: if that is wrong, nothing else is to blame.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from pretuned.measure.launch import arrays
from pretuned.measure.requests import PrepareRequest
from pretuned.measure.runner import TuningError
from pretuned.outcome import SCRATCH, LaunchFailed, WrongResult
from pretuned.spec.lists import held
from pretuned.spec.model import KernelSpec
from pretuned.spec.sizes import fits_arguments, sizes_of
from pretuned.spec.space import Configuration, Problem, admitted
from pretuned.tune.task import TuningTask

TRUSTED_SEED: Final = 2  # of inputs where the default's results are the reference: kept apart from other checks
SANITIZED_SEED: Final = 3  # of no inputs: the kind of check under the memory sanitizer
FEW: Final = 1 << 17  # elements, which the sanitizer goes over in a fraction of a second
TINY: Final = (0, 1, 37)  # no element, one element, a warp and a few more


def verify_around(task: TuningTask, problem: Problem, chosen: Sequence[Configuration]) -> bool:
    """Verify candidates at the odd and boundary problems around `problem`; return whether all are right.

    What is wrong anywhere is dropped from the task; what lacks room for its scratch at one of them is not.
    """
    with task.workbench.spending.stage("checking"):
        for other in check_problems(task.spec, problem):
            default = task.default_at(other)
            if not task.launchable(default, other):
                continue
            asked = [c for c in chosen if c not in task.failed and task.launchable(c, other)]
            _check(task, other, [c for c in asked if c not in task.proven], 0)
            trusted = [c for c in asked if c in task.proven and c != default]
            _check(task, other, [c for c in trusted if c not in task.failed], TRUSTED_SEED)
        _sanitize(task, problem, [c for c in chosen if c not in task.proven and c != task.default_at(problem)])
    right = [c for c in chosen if c not in task.failed]
    task.proven.update(right)
    return len(right) == len(chosen)


def agree(task: TuningTask, problem: Problem, chosen: Sequence[Configuration]) -> bool:
    """Verify candidates against the default's results at `problem`; return whether all that can run there agree.

    What does not is dropped from the task. A problem that does not fit into the device's memory shows nothing.
    """
    with task.workbench.spending.stage("checking"):
        default = task.default_at(problem)
        asked = [c for c in chosen if c not in task.failed and c != default and task.launchable(c, problem)]
        if task.launchable(default, problem):
            _check(task, problem, asked, TRUSTED_SEED)
    return not any(c in task.failed for c in chosen)


def _check(task: TuningTask, problem: Problem, asked: Sequence[Configuration], seed: int) -> None:
    unknown = [c for c in asked if not task.results.checked(c, problem, seed)]
    if not unknown or task.prepare(problem, seed, trust_default=seed == TRUSTED_SEED) is not None:
        return
    for configuration in unknown:
        failure = task.check(configuration, problem, seed)
        if failure is None:
            continue
        if seed == TRUSTED_SEED and isinstance(failure, WrongResult):
            _judge_default(task, problem)
            if task.prepare(problem, seed, trust_default=True) is not None:
                return
        if isinstance(failure, LaunchFailed) and failure.message.startswith(SCRATCH):
            task.fail(configuration, problem, failure)  # which says nothing of other sizes
        else:
            task.drop(configuration, problem, failure)


def _judge_default(task: TuningTask, problem: Problem) -> None:
    """Verify the default at `problem` by the reference, if that can be had there; raises TuningError if it is wrong."""
    if task.results.checked(task.default_at(problem), problem, 0):
        return
    try:
        refused = task.prepare(problem, 0)
    except TuningError:  # a reference that fails at a size that nobody listed, or takes too long there
        return
    failure = None if refused is not None else task.check(task.default_at(problem), problem, 0)
    if failure is not None:
        task.fail(task.default_at(problem), problem, failure)


def _sanitize(task: TuningTask, problem: Problem, chosen: Sequence[Configuration]) -> None:
    """Run candidates under the memory sanitizer, where there is one, and drop those that it reports."""
    sanitizer = task.workbench.sanitizer
    for configuration in chosen if sanitizer is not None else ():
        small, source = _small(task, problem, configuration), task.sources.candidate(configuration).source
        if configuration in task.failed or source is None:
            continue
        if task.results.checked(configuration, small, SANITIZED_SEED):
            continue
        request = PrepareRequest(spec=task.spec, problem=small, default=task.sources.entry(task.default_at(small)))
        assert sanitizer is not None
        failure = sanitizer.finding(request, configuration, source)
        if failure is None:
            task.results.keep_check(configuration, small, SANITIZED_SEED, 0.0)
        else:
            task.drop(configuration, small, failure)


def _small(task: TuningTask, problem: Problem, configuration: Configuration) -> Problem:
    """Return the largest problem of few elements among those that a candidate is checked at, or the smallest."""
    spec = task.spec
    problems = [problem, *check_problems(spec, problem)]
    able = [p for p in problems if task.launchable(configuration, p)]
    # What is legal nowhere around it may be so at another of the spec's sizes: it would not ship otherwise.
    able = able or [p for p in task.problems if task.launchable(configuration, p)]
    sizes = {p: sum(b.size for b in arrays(spec, p)) for p in able}
    few = {p: size for p, size in sizes.items() if size <= FEW}
    return max(few, key=few.__getitem__) if few else min(sizes, key=sizes.__getitem__)


def check_problems(spec: KernelSpec, problem: Problem) -> Iterator[Problem]:
    """Yield the odd and boundary problems around `problem` that the kernel admits, without repetition.

    Those are: every dim tiny; every dim halfway to the next smaller of the spec's sizes, by ratio; and one less than
    its own size, which breaks every multiple.
    """
    dims = {name: int(size) for name, size in problem.dims}
    trials: list[dict[str, int]] = [dict.fromkeys(dims, size) for size in TINY]
    trials.append(
        {name: _between(sizes_of(spec, name, dict(problem.specialisation)), size) for name, size in dims.items()}
    )
    trials.append({name: max(size - 1, 1) for name, size in dims.items()})
    seen = {problem}
    for trial in trials:
        sizes = {name: held(spec, name, size) for name, size in trial.items()}
        other = Problem(specialisation=problem.specialisation, dims=tuple(sorted(sizes.items())))
        if other not in seen and fits_arguments(spec, other) and admitted(spec, other):
            seen.add(other)
            yield other


def _between(sizes: Sequence[int], size: int) -> int:
    """Return the size between `size` and the next smaller of `sizes`; itself where there is none."""
    below = max((other for other in sizes if other < size), default=None)
    return size if below is None else max(math.isqrt(below * size), below + 1)
