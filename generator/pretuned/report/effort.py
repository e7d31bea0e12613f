"""What a tuning did and where its time went, in words."""

from __future__ import annotations

from collections.abc import Iterator

from pretuned.errors import counted
from pretuned.outcome import detail, kind, kind_of
from pretuned.report.certificates import chosen, sentence
from pretuned.tune.events import (
    AnswerRefused,
    AtProblem,
    ByNumpy,
    CandidatesScreened,
    Certified,
    Compiling,
    Decided,
    Event,
    Failed,
    GivenAgain,
    Measuring,
    Noisy,
    OnDevice,
    OutOfBudget,
    Passed,
    Planned,
    Racing,
    Refining,
    RemarkedReference,
    Shared,
    SourcesCompiled,
    Unconfirmed,
    UnitSettled,
    Waiting,
)
from pretuned.tune.spending import Spending


def describe(event: Event) -> str:  # noqa: C901, PLR0911, PLR0912 - one return a kind of event
    """Return one line about a step of tuning."""
    match event:
        case Waiting(device=device, patience_s=patience_s):
            limit = "" if patience_s is None else f", for {patience_s:g} s at most"
            return f"another tuning uses {device}; waiting for it to end{limit}"
        case Planned():
            return _planned(event)
        case Compiling(kernel=kernel, sources=sources):
            return f"{kernel}: compiling {counted(sources, 'source')}"
        case Measuring(kernel=kernel, problem=problem, candidates=candidates, done=done, rows=rows):
            place = f" (row {done + 1} of {rows})" if done < rows else ""
            return f"{kernel}: {problem}: {counted(candidates, 'candidate')}{place}"
        case SourcesCompiled() | CandidatesScreened() | AtProblem() | Racing():
            return _step(event)
        case Failed(kernel=kernel, configuration=configuration, problem=problem, failure=failure):
            return f"{kernel}: {problem}: {configuration}: {kind(failure)}: {detail(failure)}"
        case Noisy(kernel=kernel, problem=problem, reason=reason, attempt=attempt):
            return f"{kernel}: {problem}: {reason}; measured again (attempt {attempt})"
        case ByNumpy(kernel=kernel, reason=reason):
            return f"{kernel}: gpu-reference is not used, NumPy computes what is right: {reason}"
        case RemarkedReference(kernel=kernel, text=text):
            return f"{kernel}: {text}"
        case Unconfirmed(kernel=kernel, problem=problem, candidates=candidates):
            return f"{kernel}: {problem}: {counted(candidates, 'candidate')} ahead of the default at some places only"
        case Decided(row=row, cached=cached):
            winner, default = row.winner, row.default
            found = (
                "default" if winner is default else f"{winner.configuration}, {default.time_us / winner.time_us:.2f}x"
            )
            return f"{row.kernel}: {row.problem}: {found}" + (" (measured before)" if cached else "")
        case Passed(entry=entry):
            return f"{entry.kernel}: {entry.problem}: skipped: {entry.reason}"
        case Refining():
            return (
                f"{chosen(event.kernel, event.specialisation)}: loses {event.certificate.inside.mean:.1%} on average, "
                f"more than {event.max_loss:.1%}: refining (attempt {event.attempt})"
            )
        case Certified():
            before = " (measured before)" if event.cached else ""
            return f"{chosen(event.kernel, event.specialisation)}: {sentence(event.certificate)}{before}"
        case OutOfBudget(rows=rows):
            return f"the budget is spent; {counted(rows, 'row')} not reached"
        case Shared() | UnitSettled() | GivenAgain() | AnswerRefused():
            return _of_fleet(event)
        case OnDevice(device=device, event=inner):
            return f"{device}: {describe(inner)}"


def _of_fleet(event: Shared | UnitSettled | GivenAgain | AnswerRefused) -> str:
    match event:
        case Shared(device=device, units=units, workers=workers):
            among = "the workers of the executor" if workers is None else counted(workers, "worker")
            return f"{device}: {counted(units, 'unit')} for {among}"
        case UnitSettled(worker=worker, seconds=seconds):
            return f"{worker}: " + ("a unit is settled" if seconds else "rows of another worker are measured again")
        case GivenAgain(kernel=kernel, specialisation=specialisation, reason=reason, attempt=attempt):
            return f"{chosen(kernel, specialisation)}: given to a worker again (attempt {attempt}): {reason}"
        case AnswerRefused(worker=worker, kernel="", reason=reason):
            return f"{worker} gets nothing to do: {reason}"
        case AnswerRefused(worker=worker, kernel=kernel, reason=reason):
            return f"{kernel}: the answer of {worker or 'a worker'} is refused: {reason}"


def _step(event: SourcesCompiled | CandidatesScreened | AtProblem | Racing) -> str:
    if isinstance(event, SourcesCompiled):
        return f"compiled {event.done} of {counted(event.asked, 'source')}"
    place = f"{event.kernel}: {event.problem}"
    match event:
        case CandidatesScreened(seen=seen, wanted=wanted):
            return f"{place}: screened {seen} of {counted(wanted, 'configuration')}"
        case AtProblem(stage=stage, done=done, problems=problems):
            return f"{place}: {stage}, problem {min(done + 1, problems)} of {problems}"
        case Racing(contenders=contenders, place=0):
            return f"{place}: {counted(len(contenders), 'candidate')} racing"
        case Racing(contenders=contenders, place=at):
            return f"{place}: {counted(len(contenders), 'candidate')} left in the duel, at place {at}"


def _planned(plan: Planned) -> str:
    budget = "" if plan.budget_s is None else f" of a budget of {plan.budget_s:.0f} s"
    of = f"of {counted(plan.kernels, 'kernel')}"
    if not plan.rows:
        return f"selections {of} to make or certify, about {plan.seconds:.0f} s{budget}"
    return (
        f"{counted(plan.rows, 'row')} {of} to tune: {plan.configurations:,} "
        f"configurations, at most {plan.sources:,} sources, about {plan.seconds:.0f} s{budget}"
    )


def by_kernel(spending: Spending) -> list[tuple[str, ...]]:
    """Return a table of the seconds by kernel and stage, a heading first; the longest stages stand on the left."""
    names = [name for name, _ in spending.longest()]
    kernels = sorted(spending.by_kernel, key=lambda kernel: (not kernel, kernel))
    rows = [
        (kernel or "of none", *(f"{spending.by_kernel[kernel].get(name, 0.0):.2f}" for name in names))
        for kernel in kernels
    ]
    return [("seconds", *names), *rows]


def stages(spending: Spending) -> Iterator[str]:
    """Yield the seconds by stage, the longest first, and the counts."""
    whole_s = sum(spending.seconds.values())
    for name, seconds in spending.longest():
        yield f"{name:<22}{seconds:8.2f} s"
    share = f" ({spending.device_s / whole_s:.0%} of them with candidates on the device)" if whole_s else ""
    yield f"{'in all':<22}{whole_s:8.2f} s{share}"
    yield f"{counted(spending.compiled, 'source')} compiled, {counted(spending.launched, 'measurement')}"
    if spending.confirmed or spending.unconfirmed:
        lost = f"; {counted(spending.unconfirmed, 'candidate')} at some places only" if spending.unconfirmed else ""
        yield f"{counted(spending.confirmed, 'winner')} faster than the default wherever buffers lay{lost}"
    pruned = [f"{count} ({why})" for why, count in sorted(spending.pruned.items()) if count]
    if pruned:
        yield f"not launched: {', '.join(pruned)}"
    if spending.failed:
        counts = sorted((kind_of(failure), count) for failure, count in spending.failed.items())
        yield "failed: " + ", ".join(f"{count} ({name})" for name, count in counts)
        firsts = {kind(event.failure): event for event in reversed(spending.first_failed)}
        yield from (f"first: {describe(event)}" for _, event in sorted(firsts.items()))
