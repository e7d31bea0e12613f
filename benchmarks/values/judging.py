"""How far a result is from its reference, as a share of what the spec allows."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from pretuned.measure.data import HostArray, Stored, decoded
from pretuned.measure.functions import call, place, together
from pretuned.measure.verdict import Judgement, verdict
from pretuned.runtime.types import DTYPES
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Problem, dtype_of
from pretuned.spec.tolerance import tolerances


def worst_share(
    spec: KernelSpec,
    problem: Problem,
    stored: Mapping[str, Stored],
    found: Mapping[str, HostArray],
    wanted: Mapping[str, HostArray],
    slack: float | Mapping[str, HostArray] = 0.0,
) -> tuple[float, str]:
    """Return the largest error of a call's outputs, in units of the tolerance, and where it is.

    It is above 1 for a wrong result, and infinite where a NaN, an infinity or an exact value is missed. Of an output
    that the spec's own comparison refuses it is infinite, and of one that it accepts at most 1. `slack` is allowed
    besides: in every element, or, by name, as much of each as `rtol` allows of such a result.
    """
    shares = [(_of_output(spec, problem, stored, found, wanted, name, slack), name) for name in wanted]
    share, name = max(shares, default=((0.0, ""), ""))
    return share[0], f"{name}{share[1]}"


def _of_output(
    spec: KernelSpec,
    problem: Problem,
    stored: Mapping[str, Stored],
    found: Mapping[str, HostArray],
    wanted: Mapping[str, HostArray],
    name: str,
    slack: float | Mapping[str, HostArray],
) -> tuple[float, str]:
    (argument,) = (one for one in spec.outputs if one.name == name)
    out, ref = found[name], wanted[name]
    if not ref.size:
        return 0.0, ""
    rtol, atol = tolerances(spec, argument, problem.specialisation)
    if atol is None:
        atol = rtol * rms(ref) if DTYPES[dtype_of(spec, argument.dtype, problem.specialisation)].floating else 0.0
    shares = _shares(out, ref, rtol, atol + (slack if isinstance(slack, float) else rtol * np.abs(slack[name])))
    first = int(np.argmax(shares))
    share, where = float(shares.flat[first]), f"[{', '.join(map(str, np.unravel_index(first, ref.shape)))}]: "
    where += f"{out.flat[first]} instead of {ref.flat[first]}"
    if spec.verify.compare is None:
        return share, where
    types = {one.name: dtype_of(spec, one.dtype, problem.specialisation) for one in spec.arrays}
    made = {
        "inputs": lambda: together(spec, {one: decoded(array, types[one]) for one, array in stored.items()}),
        "outputs": lambda: together(spec, dict(found)),
        "references": lambda: together(spec, dict(wanted)),
        "standard": lambda: lambda: Judgement("" if share <= 1 else f"{share:.3g} of the tolerance at {where}"),
    }
    target = spec.verify.compare
    answer = call(spec, target, problem, {"name": name, "out": out, "ref": ref}, made)
    refused = verdict(place(spec, target), answer)
    return (min(share, 1.0), where) if refused is None else (math.inf, f": {refused}")


def rms(values: HostArray) -> float:
    """Return the root of the mean of the squares of what is finite."""
    finite = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(np.abs(finite) ** 2))) if finite.size else 0.0


def _shares(out: HostArray, ref: HostArray, rtol: float, atol: float | HostArray) -> HostArray:
    if ref.dtype.kind in "biu":
        unequal = out != ref
        if not (rtol or np.any(atol)):
            return np.where(unequal, math.inf, 0.0)
        out, ref = out.astype(np.float64), ref.astype(np.float64)
    with np.errstate(all="ignore"):
        shares = np.abs(out - ref) / (atol + rtol * np.abs(ref))
        shares[~np.isfinite(ref) | ~np.isfinite(out) | np.isnan(shares)] = math.inf
        shares[(out == ref) | (np.isnan(out) & np.isnan(ref))] = 0.0
    return shares
