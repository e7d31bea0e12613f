"""Runs contests: makes the entrants' calls for a case, holds their results to the reference, races them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

import ceiling
from contest import LONG, LONG_AIM, Case, Contest, bytes_of, values_of
from figures import OURS
from pretuned.spec.model import KernelSpec
from pretuned.spec.scalars import tuning_values
from tensors import Sets, errors_of
from timing import Bench

RESERVED = 20 << 30  # bytes that PyTorch keeps before they are given back, which takes time


class Measurer:
    """Measures kernels among their peers, each within its share of the time."""

    def __init__(self, seed: int) -> None:
        self._bench, self._seed = Bench(), seed
        self.seconds: Counter[str] = Counter()  # that went into making and judging each contestant's calls
        torch._dynamo.config.recompile_limit = 1 << 20  # instead of falling back to eager calls

    def kernel(
        self, contest: Contest, spec: KernelSpec, package: Any, planned: Iterable[Case], until: float
    ) -> tuple[list[dict[str, Any]], int]:
        """Return what was measured of a kernel until then, and how many cases were left out."""
        found, left_out = [], 0
        for case in planned:
            if time.perf_counter() > until:
                left_out += 1
                continue
            found.append(self._case(contest, spec, package, case))
            if torch.cuda.memory_reserved() > RESERVED:
                torch.cuda.empty_cache()
        return found, left_out

    def rehearse(self, contest: Contest, spec: KernelSpec, package: Any, planned: Sequence[Case]) -> None:
        """Measure a small case for nothing, so that libraries are imported and have compiled what they always need."""
        if planned:
            least = min(planned, key=lambda case: bytes_of(spec, case.problem))
            self._case(contest, spec, package, replace(least, compiled=False))

    def _case(self, contest: Contest, spec: KernelSpec, package: Any, case: Case) -> dict[str, Any]:
        """Return what was measured at a case; what fails is in its place, and the others go on."""
        result = described(contest, spec, case)
        nbytes = result["bytes"]
        launches = self._bench.launches(nbytes, result.get("flops", 0.0))
        try:
            sets = Sets(spec, case, self._seed, contest)
            given = [sets.one() for _ in range(self._bench.sets(nbytes, launches))]
            exact = contest.exact(**given[0])
            exact = exact if isinstance(exact, dict) else {sets.outputs[0]: exact}
            graphs, kept = {}, []  # what graphs read and write must live as long
            for name, call in self._entrants(contest, spec, package, case):
                began = time.perf_counter()
                try:
                    trial = fresh(sets.one() if sets.changing else given[0], sets.written)
                    named = outputs_of(self._bench.warm_up(partial(call, **trial)), sets.outputs, trial)
                    result["off"][name] = round(errors_of(spec, case, exact, named), 4)
                    graphs[name], alive = self._bench.capture([partial(call, **one) for one in given], launches)
                    kept.append(alive)
                except Exception as error:  # noqa: BLE001 - printed in place of its time
                    result["errors"][name] = said(error)
                self.seconds[name] += time.perf_counter() - began
            self._ceilings(contest, nbytes, launches, graphs, kept, result)
            began = time.perf_counter()
            result["us"] = {name: round(us, 3) for name, us in self._bench.race(graphs, launches).items()}
            self.seconds["rounds"] += time.perf_counter() - began
        except Exception as error:  # noqa: BLE001 - such as too little memory
            result["errors"]["case"] = said(error)
        result["ran"] = ran(package, spec, values_of(case.problem))
        if case.compiled:
            torch._dynamo.reset()
        return result

    def _entrants(self, contest: Contest, spec: KernelSpec, package: Any, case: Case) -> Any:
        yield OURS, ours(package, spec, case)
        for peer in contest.peers:
            if peer.at(case):
                yield peer.name, peer.entered()

    def _ceilings(self, contest: Contest, nbytes: int, launches: int, graphs: Any, kept: Any, result: Any) -> None:
        """Add what memory allows, from arrays of its own."""
        for name, make in ceiling.calls_of(contest.bound, nbytes).items():
            try:
                calls = [make() for _ in range(self._bench.sets(nbytes, launches))]
                self._bench.warm_up(calls[0])
                graphs[name], _ = self._bench.capture(calls, launches)
                kept.append(calls)
            except Exception as error:  # noqa: BLE001 - printed in place of its time
                result["errors"][name] = said(error)


def described(contest: Contest, spec: KernelSpec, case: Case) -> dict[str, Any]:
    """Return a measurement without figures: what is compared, and what bounds it."""
    values = values_of(case.problem)
    long = contest.rows and values["cols"] >= LONG
    return {
        "kernel": spec.name,
        "problem": dict(case.problem.dims),
        "specialisation": dict(case.problem.specialisation),
        "kind": case.kind,
        "shift": case.shift,
        "bytes": bytes_of(spec, case.problem),
        "bound": contest.bound,
        "long": long,
        "aim": LONG_AIM if long else contest.aim,
        "us": {},
        "errors": {},
        "off": {},
    } | ({"flops": contest.flops(values)} if contest.flops else {})


def ours(package: Any, spec: KernelSpec, case: Case) -> Callable[..., Any]:
    """Return a real call of the package: arrays, scalars and keywords by name."""
    shown = {argument.dtype for argument in spec.arrays}
    arrays = {argument.name for argument in spec.arrays}
    scalars = tuning_values(spec).keys()
    keywords = {name: one for name, one in dict(case.problem.specialisation).items() if name not in shown}
    failed = said(package) if isinstance(package, Exception) else ""

    def call(**given: Any) -> Any:
        if failed:
            raise RuntimeError(failed)  # a new one, or its traceback would keep every case's arrays
        passed = {name: one for name, one in given.items() if name in arrays or name in scalars}
        return getattr(package, spec.name)(**passed, **keywords)

    return call


def fresh(given: dict[str, Any], written: tuple[str, ...]) -> dict[str, Any]:
    """Spoil the outputs, which another may have written, so that what a call leaves out is seen; return all."""
    for name in written:
        array = torch.view_as_real(given[name]) if given[name].is_complex() else given[name]
        array.view(-1).view(torch.uint8).fill_(0x7F)  # NaN in every floating type
    return given


def outputs_of(found: Any, names: tuple[str, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return outputs by name: those that a call names, else what it returned, else what it was given to write into."""
    if isinstance(found, dict):
        return found
    if isinstance(found, tuple | list):
        return {name: given[name] for name in names} | dict(zip(names, found, strict=False))
    return {name: given[name] for name in names} | ({names[0]: found} if found is not None else {})


def ran(package: Any, spec: KernelSpec, values: Mapping[str, Any]) -> str:
    """Return the configuration that our call ran, in a line."""
    try:
        found = package.explain(spec.name, **values)
        words = [f"{name}={value}" for name, value in found.configuration.items()]
        return " ".join([found.implementation, *words])
    except Exception as error:  # noqa: BLE001 - a note beside the figures
        return said(error)


def said(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"
