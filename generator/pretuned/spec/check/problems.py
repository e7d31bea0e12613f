"""The problems to measure: the sizes of each dim, and joint sizes of all of them."""

from __future__ import annotations

from collections.abc import Iterator

from pretuned.runtime.text import closest
from pretuned.spec import space
from pretuned.spec.check.names import PathFault
from pretuned.spec.model import KernelSpec
from pretuned.spec.sizes import largest


def problem_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield the faults of [[problems]]; each is one size for every dim that may have any."""
    free = spec.free_dims
    sized = [name for name, dim in free.items() if dim.sizes]
    if spec.problems and sized and len(sized) < len(free):
        missing = ", ".join(name for name in free if name not in sized)
        message = f"has sizes while {missing} has none, so there are no combinations to measure"
        yield f"dims.{sized[0]}.sizes", f"{message}; leave all `sizes` out, as [[problems]] has them, or write all"
    for index, problem in enumerate(spec.problems):
        path = f"problems[{index}]"
        for name, size in problem.items():
            if name not in free:
                kind = "a constant dim, whose values are all measured" if name in spec.dims else "not a dim"
                yield f"{path}.{name}", f"'{name}' is {kind}{closest(name, free) or '; leave it out'}"
            elif size > largest(spec, name):
                message = f"{size} does not fit the type of the argument '{name}'; pass it as int64"
                yield f"{path}.{name}", message
        for name in sorted(free.keys() - problem.keys()):
            yield path, f"lacks '{name}'; a problem has a size for every dim that is not constant: {', '.join(free)}"
        if problem in spec.problems[:index]:
            yield path, f"is the same as problems[{spec.problems.index(problem)}]; remove one"


def refused_problems(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield the joint sizes that `requires` admits for no specialisation."""
    specialisations = list(space.specialisations(spec))
    for index, sizes in enumerate(spec.problems):
        dims = space.pairs(sizes)
        problems = (space.Problem(specialisation=chosen, dims=dims) for chosen in specialisations)
        if not any(space.admitted(spec, problem) for problem in problems):
            demands = ", ".join(expression.quoted for expression in spec.constraints.demands)
            yield f"problems[{index}]", f"{space.describe(dims)}: `requires` ({demands}) refuses it; change one of both"
