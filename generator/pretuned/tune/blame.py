"""What is to blame where the default fails: itself, a candidate before it in its process, or what judges it.

A candidate that spoils its process can make those behind it look wrong. So before a default is blamed, it is tried
alone in a fresh process. If it passes there, those that ran before it are tried in fresh processes of their own, each
with the default behind it: first all of them, then the halves after which the default still fails, down to single ones.

A default that fails alone may have been judged by what a `gpu_reference` computes, which was compared with NumPy's at a
small problem. So NumPy's judges it before it is blamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.measure.runner import Run, Runner
from pretuned.outcome import Crashed, Failure, detail

Culprit = tuple[PrepareRequest, CompiledCandidate, Failure]


def culprits(runner: Runner, default: CompiledCandidate) -> list[Culprit] | None:
    """Return the candidates after which `default` fails at the problem at hand, which is then prepared anew.

    None if it fails by itself, in a process in which nothing ran before it.
    """
    suspects = [trial for trial in runner.ran if trial.entry.digest != default.digest]
    prepared = runner.prepared
    if not suspects or prepared is None:
        return None
    if _failure_behind([], runner, prepared, default) is not None:
        return None
    found = _guilty(suspects, runner, prepared, default)
    runner.close()
    runner.prepare(prepared)
    return found


def passes_by_numpy(runner: Runner, default: CompiledCandidate) -> bool:
    """Return whether `default`, which a `gpu_reference` refuses at the problem at hand, is right by NumPy's reference.

    If so, that judges from now on, and the problem is prepared with it.
    """
    prepared = runner.prepared
    if prepared is None or prepared.spec.verify.gpu_reference is None or prepared.by_numpy or prepared.trust_default:
        return False
    runner.close()  # a fresh process computes it anew
    refused = runner.prepare(replace(prepared, reference="now", by_numpy=True))
    if refused is not None or runner.verify(default).failure is not None:
        return False
    reason = f"the default differs from what it returns, and not from what `reference` does, at {prepared.problem}"
    runner.leave_to_numpy(prepared.spec.name, reason)
    return True


def _guilty(
    suspects: Sequence[Run], runner: Runner, prepared: PrepareRequest, default: CompiledCandidate
) -> list[Culprit]:
    failure = _failure_behind(suspects, runner, prepared, default)
    if failure is None:
        return []
    if len(suspects) == 1:
        message = f"it spoils its process: the default fails behind it ({detail(failure)})"
        return [(suspects[0].prepared, suspects[0].entry, Crashed(message=message))]
    middle = len(suspects) // 2
    halves = (suspects[:middle], suspects[middle:])
    return [culprit for half in halves for culprit in _guilty(half, runner, prepared, default)]


def _failure_behind(
    trials: Sequence[Run], runner: Runner, prepared: PrepareRequest, default: CompiledCandidate
) -> Failure | None:
    """Return how the default fails in a fresh process in which `trials` have run before it; None if it does not."""
    runner.close()
    at: PrepareRequest | None = None
    for trial in trials:
        if trial.prepared is not at:
            at = trial.prepared
            if runner.prepare(at) is not None:  # it does not fit any more
                continue
        runner.verify(trial.entry)
    if runner.prepare(replace(prepared, reference="now")) is not None:
        return None
    return runner.verify(default).failure
