"""A selection as JSON, as the lock and the cache hold it, and back.

The order of a line is for people that review it: what the rule loses comes before what it is made of. Costs are texts
over the dims of `reach`, in the language of costs; they are parsed on the way back, and nothing of them is run here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from pretuned.record import fields
from pretuned.record.selections import Certificate, Cost, Losses, PredictedChoice, Selection
from pretuned.runtime.costs import check
from pretuned.runtime.expressions import LIMIT
from pretuned.runtime.text import shown

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
        **({"usage": selection.usage} if selection.usage else {}),
        "margins": list(selection.margins),
        **({"defaults": selection.defaults} if selection.defaults > 1 else {}),
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
    """Return what `selection_to_json` wrote; raises as the readers of `fields` do."""
    spans = fields.mapping(data, "reach")
    reach = tuple((name, _span(spans, name)) for name in sorted(spans))
    dims = {name for name, _ in reach}
    listed = fields.listed(data, "choices")
    fields.whole(len(listed), "the number of choices", 1, MAX_CHOICES)
    choices = tuple(fields.within(f"choices[{n}]", lambda one: _choice(one, dims), one) for n, one in enumerate(listed))
    if twice := [str(one) for one, count in Counter(choice.configuration for choice in choices).items() if count > 1]:
        raise ValueError(f"'choices' has the configuration {shown(twice[0])} twice")
    margins = [fields.whole(margin, "a margin", 0, MAX_MARGIN) for margin in fields.listed(data, "margins", 2)]
    certificate = data.get("certificate")
    return Selection(
        specialisation=fields.plain(data, "specialisation"),
        choices=choices,
        margins=(margins[0], margins[1]),
        reach=reach,
        problems=fields.whole(data["problems"], "'problems'", 1, LIMIT),
        certificate=None if certificate is None else certificate_from_json(certificate, dims),
        headers=fields.headers(data),
        effort=fields.effort(data),
        usage=fields.text(data, "usage", ""),
        defaults=fields.whole(data.get("defaults", 1), "'defaults'", 1, len(choices)),
        **{name: fields.text(data, name) for name in fields.TEXTS},
    )


def _span(spans: Mapping[str, Any], name: str) -> tuple[int, int]:
    low, high = fields.listed(spans, name, 2)
    low = fields.whole(low, f"the smallest '{name}'", 0, LIMIT)
    return low, fields.whole(high, f"the largest '{name}'", low, LIMIT)


def _choice(data: Mapping[str, Any], dims: set[str]) -> PredictedChoice:
    return PredictedChoice(
        configuration=fields.configuration(data),
        candidate=fields.text(data, "candidate"),
        cubin=fields.text(data, "cubin"),
        cost=_cost(fields.mapping(data, "cost"), dims),
        library=fields.text(data, "library", ""),
    )


def _cost(data: Mapping[str, Any], dims: set[str]) -> Cost:
    for term, femtoseconds in data.items():
        fields.whole(femtoseconds, f"the cost of {shown(term)}", 0, LIMIT - 1)
    cost = tuple(sorted(data.items()))
    check(cost, dims)
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


def certificate_from_json(data: object, dims: set[str] | None) -> Certificate:
    """Return what `certificate_to_json` wrote of problems with these dims, None for any; raises FieldError."""
    return fields.within("certificate", lambda found: _certificate(found, dims), data)


def _certificate(data: Mapping[str, Any], dims: set[str] | None) -> Certificate:
    calls, outside = data.get("calls", False), data.get("outside")
    if not isinstance(calls, bool):
        raise TypeError(f"'calls' is {shown(calls)}, not true or false")
    return Certificate(
        seed=fields.whole(data["seed"], "'seed'", 0, LIMIT),
        inside=fields.within("inside", lambda found: _losses(found, dims), data["inside"]),
        outside=None if outside is None else fields.within("outside", lambda found: _losses(found, dims), outside),
        calls=calls,
    )


def _losses(data: Mapping[str, Any], dims: set[str] | None) -> Losses:
    worst_at = fields.sizes(data, "worst_at")
    if dims is not None and {name for name, _ in worst_at} != dims:
        raise ValueError(f"'worst_at' is {shown(dict(worst_at))}, not sizes of {', '.join(sorted(dims))}")
    for name, size in worst_at:
        fields.whole(size, f"'{name}' of 'worst_at'", 0, LIMIT)
    return Losses(
        problems=fields.whole(data["problems"], "'problems'", 1, LIMIT),
        mean=fields.share(data, "mean"),
        p95=fields.share(data, "p95"),
        worst=fields.share(data, "worst"),
        slower=fields.share(data, "slower", 1),
        worst_at=worst_at,
    )
