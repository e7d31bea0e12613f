"""`__launch_bounds__` beside the blocks that launches ask for: CUDA launches no kernel with more threads than it names.

It is read from rendered text, and only where that leaves no doubt: a compiler alone knows what a macro or a template
makes of it. A configuration for which they differ never runs, and a default that never runs is a fault of the spec.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pretuned.runtime.records import Value
from pretuned.spec import space
from pretuned.spec.check.implementations import prefix_of
from pretuned.spec.check.names import PathFault
from pretuned.spec.cpp import LaunchBound, launch_bound, without_comments
from pretuned.spec.defaults import defaults
from pretuned.spec.evaluation import Environment
from pretuned.spec.expressions import ExpressionError
from pretuned.spec.launch import LaunchSpec
from pretuned.spec.lines import lines_of
from pretuned.spec.model import ImplementationSpec, KernelSpec
from pretuned.spec.space import Configuration, Pairs
from pretuned.spec.templates import RenderError, render, shown_name

NAME: Final = "__launch_bounds__"
BLOCKS: Final = 32  # of different numbers of threads, for which a configuration is looked for
TRIED: Final = 500  # configurations for each, until one is legal


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundBlock:
    """A configuration whose launch has a block of more threads than the kernel's `bound` allows.

    `path` is the block's in the spec, `place` the bound's in the template.
    """

    configuration: Configuration
    path: str
    function: str
    threads: int
    bound: LaunchBound
    place: str
    remedy: str

    def __str__(self) -> str:
        named = f", which is {self.bound.threads}" if self.bound.text != str(self.bound.threads) else ""
        return (
            f"a block of {self.threads} threads, and {self.place} gives '{self.function}' "
            f"`{NAME}({self.bound.text})`{named}, so that it cannot be launched"
        )


def bound_faults(spec: KernelSpec) -> Iterator[PathFault]:
    """Yield a fault for each launch of a default whose block has more threads than its kernel allows."""
    for name, implementation in _templates(spec):
        for specialisation in space.specialisations(spec):
            for default in defaults(spec, specialisation, name):
                for found in _bound_blocks(spec, implementation, specialisation, default):
                    yield found.path, f"{found}; {found.remedy}"


def bound_blocks(spec: KernelSpec) -> Iterator[BoundBlock]:
    """Yield for each launch the first legal configuration, of those looked at, that cannot be launched for its block.

    `spec` is without faults. For each number of threads that the space makes, some configuration is looked at.
    """
    for name, implementation in _templates(spec):
        found: dict[str, BoundBlock] = {}
        for specialisation in space.specialisations(spec):
            if not space.offered(spec, specialisation, name):
                continue
            for configuration in _samples(spec, name, implementation, specialisation):
                for one in _bound_blocks(spec, implementation, specialisation, configuration):
                    found.setdefault(one.path, one)
        yield from found.values()


def _templates(spec: KernelSpec) -> Iterator[tuple[str, ImplementationSpec]]:
    for name, implementation in spec.all_implementations.items():
        if implementation.call is None:
            yield name, implementation


def _bound_blocks(
    spec: KernelSpec, implementation: ImplementationSpec, specialisation: Pairs, configuration: Configuration
) -> Iterator[BoundBlock]:
    values = space.rendered(spec, specialisation, configuration)
    known = _known(spec, specialisation, dict(configuration.values))
    try:
        text = render(spec.folder, implementation.template, values)
    except RenderError:  # which has a message of its own
        return
    if NAME not in text:
        return
    plain = without_comments(text)
    for index, launch in enumerate(implementation.launches):
        threads, bound = _threads(launch, known), launch_bound(plain, launch.function)
        if threads is None or bound is None or threads <= bound.threads:
            continue
        place = lines_of(spec.folder, implementation.template, values)[bound.line - 1]
        block = " * ".join(
            f"({one})" if len(launch.block) > 1 and " " in str(one) else str(one) for one in launch.block
        )
        yield BoundBlock(
            configuration=configuration,
            path=f"{prefix_of(spec, configuration.implementation)}launches[{index}].block",
            function=launch.function,
            threads=threads,
            bound=bound,
            place=str(place or shown_name(implementation.template)),
            remedy=f"write `{NAME}({{{{ {block} }}}})` there",
        )


def _known(spec: KernelSpec, specialisation: Pairs, values: Mapping[str, Value]) -> Environment:
    """Return what is known without a problem and a device."""
    known = space.choices(spec, specialisation) | dict(values)
    return known | space.derived(spec, known)


def _threads(launch: LaunchSpec, known: Environment) -> int | None:
    """Return the threads of a launch's block, None where a call or the device decides them."""
    if not all(expression.names <= known.keys() for expression in launch.block):
        return None
    try:
        return math.prod(expression.evaluate(known) for expression in launch.block)
    except ExpressionError:
        return None


def _samples(
    spec: KernelSpec, name: str, implementation: ImplementationSpec, specialisation: Pairs
) -> Iterator[Configuration]:
    """Yield a configuration for each number of threads, legal as far as is known without a problem."""
    seen: set[tuple[int | None, ...]] = set()
    for alike in _by_block(spec, name, implementation, specialisation):
        for configuration in itertools.islice(alike, TRIED):
            known = _known(spec, specialisation, dict(configuration.values))
            threads = tuple(_threads(launch, known) for launch in implementation.launches)
            if threads in seen:
                break
            if space.holds([one for one in implementation.constraints.where if one.names <= known.keys()], known):
                seen.add(threads)
                yield configuration
                break
        if len(seen) == BLOCKS:
            return


def _by_block(
    spec: KernelSpec, name: str, implementation: ImplementationSpec, specialisation: Pairs
) -> Iterator[Iterator[Configuration]]:
    """Yield configurations in groups; all of one have the values that decide blocks in common."""
    listed = implementation.space
    if not isinstance(listed, dict):
        yield from (iter([one]) for one in space.combinations(name, implementation))
        return
    read = {one for launch in implementation.launches for expression in launch.block for one in expression.names}
    read |= {one for derived in read & spec.derived.keys() for one in spec.derived[derived].names}
    deciding = sorted(read & listed.keys())
    rest = sorted(listed.keys() - deciding)
    own = dict(next(iter(defaults(spec, specialisation, name))).values)
    for chosen in itertools.islice(itertools.product(*(listed[one] for one in deciding)), BLOCKS * BLOCKS):
        others = itertools.chain([tuple(own[one] for one in rest)], itertools.product(*(listed[one] for one in rest)))
        fixed = dict(zip(deciding, chosen, strict=True))
        found = (space.pairs(fixed | dict(zip(rest, values, strict=True))) for values in others)
        yield (Configuration(implementation=name, values=values) for values in found)
