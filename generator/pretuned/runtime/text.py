"""Texts that messages share: values cut short, configurations, and names that are not known."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SHOWN = 80  # characters of a value


def shown(value: object) -> str:
    """Return a value as messages show it: its `repr`, cut short."""
    try:
        text = repr(value)
    except ValueError:  # an integer with more digits than Python is willing to write
        return f"a huge {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def assignment(text: str) -> tuple[str, bool | int | float | str] | None:
    """Return name and value of `name=value`, or None: `true` and `False` are bools, numbers are numbers."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name.isidentifier() and equals and value):
        return None
    if value in {"true", "false", "True", "False"}:
        return name, value.lower() == "true"
    for kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            continue
        if number - number == 0:  # and neither infinite nor NaN
            return name, number
    return name, value


def closest(name: str, known: Iterable[str]) -> str:
    """Return `"; did you mean 'x'?"` for the known name nearest to `name`, or an empty string."""
    match = nearest(name, known)
    return f"; did you mean '{match}'?" if match is not None else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name nearest to `name`, or None where none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - needed for an error alone, and slow to import

    return next(iter(get_close_matches(name, sorted(known), n=1, cutoff=0.6)), None)


def no_such(kind: str, name: str, known: Iterable[str], *, of: str = "") -> str:
    """Return the message for a name that is not known: with the nearest known name, or with all of them.

    `no_such("kernel", "softmx", kernels)` is `there is no kernel 'softmx'; did you mean 'softmax'?`, and with
    `of="pkg.tuned"` it begins `pkg.tuned has no kernel 'softmx'`.
    """
    names = sorted(known)
    subject = f"{of} has" if of else "there is"
    known_are = f"; known are {', '.join(names)}" if names else "; none is known"
    return f"{subject} no {kind} '{name}'{closest(name, names) or known_are}"


def described(implementation: str, configuration: Mapping[str, int | float | bool | str]) -> str:
    """Return `block=256, vec=1`, after the implementation's name where it has one."""
    text = ", ".join(f"{name}={spelled(value)}" for name, value in sorted(configuration.items()))
    if implementation == "main":
        return text or "no parameters"
    return f"{implementation}: {text}" if text else implementation


def spelled(value: int | float | bool | str) -> str:
    """Return a parameter's value as people write it: `true`, not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
