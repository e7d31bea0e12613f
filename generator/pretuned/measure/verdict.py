"""Whether a call was right: what it left alone, and its outputs, by the usual judgement or by the spec's `compare`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pretuned.measure import data
from pretuned.measure.functions import FunctionError, HostArray, call, place, together
from pretuned.measure.machine import Check, CheckResult, MachineMemory, Off, Poisoned, Unequal
from pretuned.measure.regions import Region
from pretuned.measure.stage import Stage
from pretuned.measure.workspace import GuardCheck, Workspace
from pretuned.outcome import Failure, WrongResult
from pretuned.runtime.text import shown
from pretuned.runtime.types import DTYPES


@dataclass(frozen=True, slots=True)
class Judgement:
    """The usual judgement of an output, as `compare` is given it: true where it is right, else with a message."""

    message: str

    def __bool__(self) -> bool:
        return not self.message

    def __str__(self) -> str:
        return self.message


def judge(
    machine: MachineMemory,
    stage: Stage,
    sets: Sequence[int],
    *,
    scratch: Workspace | None,
    more: Sequence[GuardCheck] = (),
) -> tuple[Failure | None, float]:
    """Return what is wrong with `sets` after a call on each, and the largest error as a share of the tolerance.

    `scratch` is that of the candidate, `more` says what else must not be touched. Raises Poisoned where what results
    are judged by has changed.
    """
    watched, judged = [*more], []
    for index in sets:
        watched += stage.workspace.guard_checks(index)
        watched += scratch.guard_checks(index) if scratch is not None else []
        outputs = [region for region in stage.workspace.sets[index].values() if region.buffer.role != "in"]
        judged += [(index, region) for region in outputs if region.buffer.size]
    checks = [_check(stage, region) for _, region in judged]
    trusted = stage.digests
    findings = machine.ask([*trusted, *(watch.check for watch in watched), *checks])
    if not stage.trusts(findings[: len(trusted)]):
        raise Poisoned("it has written to what results are judged by")
    for watch, finding in zip(watched, findings[len(trusted) :], strict=False):
        if finding.first is not None:
            return wrong(watch.region.buffer.name, watch.message(finding.first)), 0.0
    found = findings[len(trusted) + len(watched) :]
    for (index, region), finding in zip(judged, found, strict=True):
        message = mismatch(machine, stage, index, region, finding)
        if message is not None:
            return wrong(region.buffer.name, message), 0.0
    return None, max((finding.worst for finding in found), default=0.0)


def _check(stage: Stage, region: Region) -> Check:
    buffer, reference = region.buffer, stage.references[region.buffer.name].memory.address
    if DTYPES[buffer.dtype].kind == "bool":
        return Unequal(address=region.address, other=reference, nbytes=buffer.nbytes)
    rtol, atol = stage.tolerance(buffer.name)
    return Off(address=region.address, dtype=buffer.dtype, reference=reference, size=buffer.size, rtol=rtol, atol=atol)


def wrong(name: str, message: str) -> WrongResult:
    """Return the outcome of a candidate that did something wrong with an array."""
    return WrongResult(argument=name, message=f"{name}: {message}")


def mismatch(machine: MachineMemory, stage: Stage, index: int, region: Region, finding: CheckResult) -> str | None:
    """Return what is wrong with an output of set `index`, or None; the spec's own comparison, if it has one, decides.

    `finding` is the machine's answer about the output.
    """
    target = stage.request.spec.verify.compare
    if target is None and finding.first is None:
        return None
    name = region.buffer.name
    out, reference = _written(stage, index, name), _reference(machine, stage, name)

    def usual() -> Judgement:
        if finding.first is None:
            return Judgement("")
        return Judgement(difference(out, reference, finding, *stage.tolerance(name)))

    if target is None:
        return usual().message
    spec, problem = stage.request.spec, stage.request.problem
    outputs = [name for name, one in stage.workspace.sets[index].items() if one.buffer.role in {"out", "inout"}]
    made: dict[str, Callable[[], object]] = {
        "inputs": lambda: together(spec, stage.inputs),
        "outputs": lambda: together(
            spec, {one: out if one == name else _written(stage, index, one) for one in outputs}
        ),
        "references": lambda: together(spec, {one: _reference(machine, stage, one) for one in outputs}),
        "standard": lambda: usual,
    }
    given = {"name": name, "out": out, "ref": reference}
    return verdict(place(spec, target), call(spec, target, problem, given, made))


def verdict(where: str, answer: object) -> str | None:
    """Return what `compare` finds wrong, or None; raises FunctionError for an answer that means neither."""
    match answer:
        case None:
            return None
        case str():
            return answer or None
        case Judgement(message=message):
            return message or None
        case bool() | np.bool_():
            return None if answer else "the spec's own comparison refuses it"
        case np.ndarray():
            raise FunctionError(
                f"{where} returns an array of shape {answer.shape}; return bool(....all()) or a message"
            )
    raise FunctionError(f"{where} returns {shown(answer)}; return True, False, None or a message")


def _written(stage: Stage, index: int, name: str) -> HostArray:
    """Return what a call wrote, each in its wide type."""
    return data.decode(stage.workspace.array(index, name), stage.workspace.sets[index][name].buffer.dtype)


def _reference(machine: MachineMemory, stage: Stage, name: str) -> HostArray:
    """Return what an output must be."""
    kept = stage.references[name]
    reference = np.empty(kept.shape, kept.dtype)
    machine.read(kept.memory.address, reference)
    return reference


def difference(out: HostArray, reference: HostArray, finding: CheckResult, rtol: float, atol: float) -> str:
    """Return how many elements are off and by how much, and the first of them; `finding` is of a wrong output."""
    assert finding.first is not None  # it is wrong
    found, wanted = out.flat[finding.first], reference.flat[finding.first]
    place = ", ".join(str(position) for position in np.unravel_index(finding.first, out.shape))
    by = f" by up to {_number(finding.largest)}" if finding.largest else ""
    head = f"{finding.count:,} of {out.size:,} elements are off{by}, first at [{place}]"
    if out.dtype == bool:
        found = out.view(np.uint8).flat[finding.first]  # the byte: one that is neither 0 nor 1 is wrong as well
        return f"{head}: {found} instead of {int(wanted)}"
    allowed = atol + rtol * float(abs(wanted.item()))
    if out.dtype.kind not in "fc":
        allowed = int(allowed)
    return f"{head}: {_number(found)} instead of {_number(wanted)}; allowed: {_number(allowed)}"


def _number(value: float) -> str:
    """Return an integer in full, and a real number with 8 digits."""
    return str(value) if isinstance(value, int | np.integer) else f"{value:.8g}"
