"""Rows, locks and devices made up for tests."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from pretuned.compile.result import Binary
from pretuned.record.freshness import space_key
from pretuned.record.rows import Choice, Row, TunedDevice
from pretuned.record.selections import Certificate, Losses, PredictedChoice, Selection
from pretuned.render import candidate, verification_key
from pretuned.spec import space

H100 = TunedDevice(
    name="NVIDIA H100 80GB HBM3",
    sm_count=132,
    compute_capability=90,
    l2_bytes=50 << 20,
    shared_bytes=232448,
    memory_bytes=80 << 30,
    memory_gbps=3352,
    power_w=700,
)


def binary_of(module, architecture, compiler="13.0.88"):
    """What a compiler makes of a module that compiles nothing: its text is the image."""
    image = module.text.encode()
    return Binary(
        module=module.key,
        architecture=architecture,
        image=image,
        digest=hashlib.sha256(image).hexdigest(),
        flags=(),
        compiler=compiler,
        resources={},
    )


def choice(spec, problem, configuration, time_us, ratio=(0.8, 0.9), cubin="c" * 64):
    key = candidate(spec, problem.specialisation, configuration).key
    return Choice(configuration=configuration, candidate=key, cubin=cubin, time_us=time_us, ratio=ratio)


def row(spec, problem, *, device=H100.name, cubin="c" * 64):
    """A fresh row: the last legal configuration as the winner, the default behind it."""
    default = space.default(spec)
    winner = list(space.configurations(spec, problem))[-1]
    choices = [choice(spec, problem, winner, 8.0, cubin=cubin)]
    choices.append(choice(spec, problem, default, 10.0, (1.0, 1.0), cubin))
    return Row(
        kernel=spec.name,
        device=device,
        problem=problem,
        choices=tuple(choices),
        space=space_key(spec),
        verification=verification_key(spec),
        compiler="13.0.88",
        driver="580.159.04",
        date="2026-11-21",
    )


def rows(spec, **given):
    return [
        row(spec, problem, **given)
        for specialisation in space.specialisations(spec)
        for problem in space.problems(spec, specialisation)
    ]


def losses(dims, *, mean=0.006, slower=0.0, problems=32):
    return Losses(problems=problems, mean=mean, p95=0.021, worst=0.043, slower=slower, worst_at=dims)


def selection(spec, specialisation, *, device=H100.name, cubin="c" * 64, **given):
    """A fresh selection; its choices, unless given, are the largest problem's last configuration and the default."""
    problems = list(space.problems(spec, specialisation))
    if "choices" not in given:
        default, winner = space.default(spec), list(space.configurations(spec, problems[-1]))[-1]
        costs = {winner: (("1", 1_900_000), ("ceil_div(n, 1024)", 12_500)), default: (("1", 1_500_000), ("n", 31))}
        given["choices"] = tuple(
            PredictedChoice(
                configuration=found, candidate=candidate(spec, specialisation, found).key, cubin=cubin, cost=cost
            )
            for found, cost in costs.items()
        )
    ends = zip(problems[0].dims, problems[-1].dims, strict=True)
    made = Selection(
        kernel=spec.name,
        device=device,
        specialisation=specialisation,
        choices=(),
        margins=(20, 100),
        reach=tuple((name, (low, high)) for (name, low), (_, high) in ends),
        problems=120,
        space=space_key(spec),
        verification=verification_key(spec),
        compiler="13.0.88",
        driver="580.159.04",
        date="2026-11-21",
        certificate=Certificate(seed=7, inside=losses(problems[0].dims), outside=losses(problems[-1].dims, mean=0.011)),
    )
    return replace(made, **given)


def selections(spec, **given):
    return [selection(spec, specialisation, **given) for specialisation in space.specialisations(spec)]
