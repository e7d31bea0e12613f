"""The problems to measure: the sizes of each dim, and joint sizes of all of them."""

from __future__ import annotations

from collections.abc import Iterator

from pretuned.config.toml import spelled
from pretuned.runtime.text import closest
from pretuned.spec import space
from pretuned.spec.check.names import PathFault
from pretuned.spec.model import KernelSpec
from pretuned.spec.sizes import largest
from pretuned.spec.values import any_of, size


def problem_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield the faults of [[problems]]; each is one size for every dim that may have any, and maybe whom it is for."""
    free = spec.free_dims
    sized = [name for name, dim in free.items() if dim.sizes]
    if spec.problems and sized and len(sized) < len(free):
        missing = ", ".join(name for name in free if name not in sized)
        message = f"has sizes while {missing} has none, so there are no combinations to measure"
        yield f"dims.{sized[0]}.sizes", f"{message}; leave all `sizes` out, as [[problems]] has them, or write all"
    for index, problem in enumerate(spec.problems):
        path = f"problems[{index}]"
        for name, value in problem.items():
            if name in spec.specialisations:
                messages = _other_specialisations(spec, name, any_of(value))
            elif name in free:
                messages = _no_size(spec, name, value)
            else:
                kind = "a constant dim, whose values are all measured" if name in spec.dims else "not a dim"
                other = closest(name, [*free, *spec.specialisations])
                messages = iter([f"'{name}' is {kind}{other or '; leave it out'}"])
            yield from ((f"{path}.{name}", message) for message in messages)
        for name in sorted(free.keys() - problem.keys()):
            yield path, f"lacks '{name}'; a problem has a size for every dim that is not constant: {', '.join(free)}"
        if problem in spec.problems[:index]:
            yield path, f"is the same as problems[{spec.problems.index(problem)}]; remove one"


def _no_size(spec: KernelSpec, dim: str, value: object) -> Iterator[str]:
    try:
        if size(value) > largest(spec, dim):
            yield f"{value} does not fit the type of the argument '{dim}'; pass it as int64"
    except ValueError as error:
        yield str(error)


def _other_specialisations(spec: KernelSpec, name: str, values: tuple[object, ...]) -> Iterator[str]:
    """Yield what is wrong with values that say for whom a problem is."""
    choice = spec.specialisations[name]
    if choice.from_ is not None:
        yield f"'{name}' follows from '{choice.from_}'; name values of that"
        return
    tuned = tuple(dict.fromkeys(choice.stands_for.values())) or choice.values or ()
    if not values:
        yield "is empty; name a value, or leave it out"
    for value in values:
        if any(type(value) is type(one) and value == one for one in tuned):  # True is no 1
            continue
        if isinstance(value, str) and value in choice.stands_for:
            yield f"{spelled(value)} is tuned as {spelled(choice.stands_for[value])}; name that"
        elif tuned:
            yield f"{spelled(value)} is none of the values of '{name}', which are {', '.join(map(spelled, tuned))}"


def idle_specialisations(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield the specialisation, if any, for which no problem is listed, since all name others."""
    for specialisation in space.specialisations(spec) if spec.problems else ():
        if not space.joint_sizes(spec, dict(specialisation)) and not all(dim.sizes for dim in spec.free_dims.values()):
            yield "problems", f"none is for {space.describe(specialisation)}; add one, or name fewer values in others"
            return


def refused_problems(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield the joint sizes that `requires` admits for no specialisation."""
    specialisations = list(space.specialisations(spec))
    for index, problem in enumerate(spec.problems):
        dims = space.pairs({name: problem[name] for name in spec.free_dims})
        chosen = (one for one in specialisations if space.is_for(problem, dict(one)))
        problems = (space.Problem(specialisation=one, dims=dims) for one in chosen)
        if not any(space.admitted(spec, problem) for problem in problems):
            demands = ", ".join(expression.quoted for expression in spec.constraints.demands)
            yield f"problems[{index}]", f"{space.describe(dims)}: `requires` ({demands}) refuses it; change one of both"
