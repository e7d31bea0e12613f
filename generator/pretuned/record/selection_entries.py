"""A selection as JSON, as the lock and the cache hold it, and back.

The order of a line is for people that review it: what the rule loses comes before what it is made of. Costs are texts
over the dims of `reach`, in the language of costs; they are parsed on the way back, and nothing of them is run here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pretuned.record import fields
from pretuned.record.selections import Certificate, Cost, Losses, PredictedChoice, Selection
from pretuned.runtime.costs import written
from pretuned.runtime.expressions import LIMIT
from pretuned.spec.expressions import Expression, ExpressionError

MAX_CHOICES: Final = 64
MAX_MARGIN: Final = 1000  # per mille of the default's time


def selection_to_json(selection: Selection) -> dict[str, Any]:
    """Return a selection as the lock writes it."""
    certificate = selection.certificate
    return {
        "kernel": selection.kernel,
        "device": selection.device,
        "specialisation": dict(selection.specialisation),
        **({} if certificate is None else {"certificate": certificate_to_json(certificate)}),
        "reach": {name: list(sizes) for name, sizes in selection.reach},
        "problems": selection.problems,
        "margins": list(selection.margins),
        "choices": [
            {
                "implementation": choice.configuration.implementation,
                "configuration": dict(choice.configuration.values),
                "cost": dict(choice.cost),
                "candidate": choice.candidate,
                "cubin": choice.cubin,
            }
            | ({"library": choice.library} if choice.library else {})
            for choice in selection.choices
        ],
        **fields.origin(selection),
    }


def selection_from_json(data: Mapping[str, Any]) -> Selection:
    """Return what `selection_to_json` wrote; raises KeyError, TypeError or ValueError for other data."""
    reach = tuple((name, _span(name, sizes)) for name, sizes in sorted(data["reach"].items()))
    dims = {name for name, _ in reach}
    choices = tuple(_choice(choice, dims) for choice in data["choices"])
    if not choices:
        raise ValueError("no choices")
    fields.whole(len(choices), "the number of choices", 1, MAX_CHOICES)
    if len({choice.configuration for choice in choices}) < len(choices):
        raise ValueError("a configuration stands there twice")
    inside, outside = data["margins"]
    certificate = data.get("certificate")
    return Selection(
        specialisation=fields.plain_pairs(data["specialisation"]),
        choices=choices,
        margins=(fields.whole(inside, "a margin", 0, MAX_MARGIN), fields.whole(outside, "a margin", 0, MAX_MARGIN)),
        reach=reach,
        problems=fields.whole(data["problems"], "'problems'", 1, LIMIT),
        certificate=None if certificate is None else certificate_from_json(certificate, dims),
        headers=fields.headers(data),
        **{key: fields.text(data[key]) for key in fields.TEXTS},
    )


def _span(name: str, sizes: Any) -> tuple[int, int]:  # noqa: ANN401 - JSON
    low, high = sizes
    low = fields.whole(low, f"'{name}'", 0, LIMIT)
    return low, fields.whole(high, f"'{name}'", low, LIMIT)


def _choice(data: Mapping[str, Any], dims: set[str]) -> PredictedChoice:
    return PredictedChoice(
        configuration=fields.configuration(data),
        candidate=fields.text(data["candidate"]),
        cubin=fields.text(data["cubin"]),
        cost=_cost(data["cost"], dims),
        library=fields.text(data.get("library", "")),
    )


def _cost(data: Mapping[str, Any], dims: set[str]) -> Cost:
    for term, femtoseconds in data.items():
        fields.whole(femtoseconds, f"the cost of '{term}'", 0, LIMIT - 1)
        try:
            Expression.parse(term)
        except ExpressionError as error:
            raise ValueError(f"a cost's term {error}") from None
    cost = tuple(sorted(data.items()))
    written(cost, dims)
    return cost


def certificate_to_json(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as it stands in a selection's line."""
    return {
        "seed": certificate.seed,
        **({"calls": True} if certificate.calls else {}),
        "inside": _losses_to_json(certificate.inside),
        **({} if certificate.outside is None else {"outside": _losses_to_json(certificate.outside)}),
    }


def _losses_to_json(losses: Losses) -> dict[str, Any]:
    return {
        "problems": losses.problems,
        "mean": losses.mean,
        "p95": losses.p95,
        "worst": losses.worst,
        "slower": losses.slower,
        "worst_at": dict(losses.worst_at),
    }


def certificate_from_json(data: Mapping[str, Any], dims: set[str]) -> Certificate:
    """Return what `certificate_to_json` wrote of problems with these dims; raises as `selection_from_json` does."""
    calls, outside = data.get("calls", False), data.get("outside")
    if not isinstance(calls, bool):
        raise TypeError(f"'calls' is {calls!r}")
    return Certificate(
        seed=fields.whole(data["seed"], "'seed'", 0, LIMIT),
        inside=_losses(data["inside"], dims),
        outside=None if outside is None else _losses(outside, dims),
        calls=calls,
    )


def _losses(data: Mapping[str, Any], dims: set[str]) -> Losses:
    shares = {key: fields.number(data[key]) for key in ("mean", "p95", "worst", "slower")}
    for key, value in shares.items():
        if value < 0 or (key == "slower" and value > 1):
            raise ValueError(f"'{key}' is {value}")
    worst_at = fields.sizes(data["worst_at"])
    if {name for name, _ in worst_at} != dims:
        raise ValueError(f"'worst_at' is {dict(worst_at)}")
    problems = fields.whole(data["problems"], "'problems'", 1, LIMIT)
    return Losses(problems=problems, worst_at=worst_at, **shares)
