"""How a tuning went, in the user cache: where its seconds went, how fast the best was found, and held-out problems.

The lock keeps what was found, and nothing of the way there: this is for reports on the machine that tuned. A kernel's
latest course replaces the one before. The problems of a certificate stand under all that it says, so that they are
found for this very certificate, or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pretuned.record import fields
from pretuned.record.cache import Cache, Subject
from pretuned.record.selection_entries import certificate_to_json
from pretuned.record.selections import Certificate
from pretuned.render import digest
from pretuned.spec.space import Pairs

MOST_CURVES: Final = 256  # of a course; a kernel may have thousands of rows


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """A problem of a certificate: its dims, what the rule's choice lost there (0.01 for 1%), whether inside the sizes.

    `slower`: whether the choice took over 2% longer than the default.
    """

    dims: Pairs
    loss: float
    inside: bool
    slower: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The best time of a problem so far: pairs of seconds since the kernel's tuning began, and microseconds a call.

    `default_us` is the default's time, None where it was not timed.
    """

    problem: str
    default_us: float | None
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The last tuning of a kernel on a device: its day (UTC, ISO 8601), the seconds of each stage, and its curves."""

    kernel: str
    device: str
    date: str
    seconds: tuple[tuple[str, float], ...]
    curves: tuple[Curve, ...]

    @property
    def whole_s(self) -> float:
        """All seconds together."""
        return math.fsum(seconds for _, seconds in self.seconds)


def keep_course(cache: Cache, course: Course) -> None:
    """Keep a course in place of the kernel's one before."""
    value = {
        "kernel": course.kernel,
        "device": course.device,
        "date": course.date,
        "seconds": {stage: round(seconds, 3) for stage, seconds in course.seconds},
        "curves": [
            {"problem": one.problem, "default_us": one.default_us, "points": [list(point) for point in one.points]}
            for one in course.curves[:MOST_CURVES]
        ],
    }
    subject = Subject(kernel=course.kernel, device=course.device)
    cache.put_record(_course_key(course.kernel, course.device), value, subject)


def course_of(cache: Cache, kernel: str, device: str) -> Course | None:
    """Return the last course of a kernel's tuning on a device; None where the cache has none that can be read."""
    data = cache.record(_course_key(kernel, device))
    try:
        return None if data is None else fields.within("", _course, data)
    except fields.FieldError:
        return None  # written by another version


def keep_held_out(
    cache: Cache, subject: Subject, specialisation: Pairs, certificate: Certificate, problems: Iterable[HeldOut]
) -> None:
    """Keep the problems that a certificate speaks of."""
    value = {
        "problems": [
            {"dims": dict(one.dims), "loss": round(one.loss, 6), "inside": one.inside, "slower": one.slower}
            for one in problems
        ]
    }
    cache.put_record(_held_out_key(subject, specialisation, certificate), value, subject)


def held_out_of(cache: Cache, subject: Subject, specialisation: Pairs, certificate: Certificate) -> tuple[HeldOut, ...]:
    """Return the problems that a certificate speaks of; none where the cache does not have them."""
    data = cache.record(_held_out_key(subject, specialisation, certificate))
    try:
        return () if data is None else fields.within("", _held_out, data)
    except fields.FieldError:
        return ()  # written by another version


def _course_key(kernel: str, device: str) -> str:
    return digest(["course", kernel, device])


def _held_out_key(subject: Subject, specialisation: Pairs, certificate: Certificate) -> str:
    return digest(["held out", subject.kernel, subject.device, dict(specialisation), certificate_to_json(certificate)])


def _course(data: fields.Data) -> Course:
    seconds = fields.mapping(data, "seconds")
    return Course(
        kernel=fields.text(data, "kernel"),
        device=fields.text(data, "device"),
        date=fields.text(data, "date"),
        seconds=tuple((stage, fields.number(value, stage)) for stage, value in seconds.items()),
        curves=tuple(fields.within("curve", _curve, one) for one in fields.listed(data, "curves")),
    )


def _curve(data: fields.Data) -> Curve:
    default_us = data["default_us"]
    return Curve(
        problem=fields.text(data, "problem"),
        default_us=None if default_us is None else fields.number(default_us, "default_us"),
        points=tuple(_point(point) for point in fields.listed(data, "points")),
    )


def _point(point: Sequence[Any]) -> tuple[float, float]:
    seconds, time_us = point
    return fields.number(seconds, "seconds"), fields.time_us({"time_us": time_us}, "time_us")


def _held_out(data: fields.Data) -> tuple[HeldOut, ...]:
    return tuple(fields.within("problem", _one_held_out, one) for one in fields.listed(data, "problems"))


def _one_held_out(data: fields.Data) -> HeldOut:
    return HeldOut(
        dims=fields.sizes(data, "dims"),
        loss=fields.share(data, "loss"),
        inside=bool(data["inside"]),
        slower=bool(data["slower"]),
    )
