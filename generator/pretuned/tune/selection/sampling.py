"""Problems that nobody listed: drawn between a spec's sizes and around them, ragged as real calls are. Pure.

Where dispatch goes wrong is where nobody measured: sizes that vectors or tiles do not divide, and those between two
powers of two. So a problem is drawn log-uniformly from the ranges of the dims' sizes, and then most of its dims are
moved to a number of some style: prime; near one of the spec's sizes; a multiple of 2, 4, ... 128; a power of two; just
below or above a multiple of what the spec divides by in its grids, blocks and guards. A dim of which the spec requires
that a number divides it (`k % 8 == 0`) is moved to a multiple of that number. Where a spec lists joint sizes
([[problems]]), what is drawn begins between two of its problems instead: calls have shapes like these, and the
combinations of any two sizes are nobody's. The least size of a dim is hardly ever met by either, and yet calls have it
more than any other (the one row of a single token), so one problem in eight has one dim there.

The same arguments give the same problems, in any process: the generator is seeded by text.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from pretuned.runtime.records import Value
from pretuned.spec import space
from pretuned.spec.expressions import Expression, ExpressionError
from pretuned.spec.model import ImplementationSpec, KernelSpec
from pretuned.spec.sizes import fits_arguments, sizes_of
from pretuned.spec.space import Pairs, Problem

REACH: Final = 2.0  # times the largest size, and a part of the smallest: what lies outside is drawn up to there
ASTRAY: Final = math.sqrt(2)  # how far from a point between two joint problems, as a factor of each dim
ALONE: Final = 2  # a dim with one size: drawn from its half to its double
CALLED: Final = 0.8  # of the problems, where a usage file has calls
TRIES: Final = 50  # for each problem, before the kernel is taken to admit few
LEAST_TRIES: Final = 1000  # however few problems are wanted: just outside the sizes lies little of what is drawn
LEAST: Final = 1 / 8  # of the problems of several dims: one of these has its least size
MOST_TILES: Final = 32  # of a dim, that are told apart
MOST_COMBINATIONS: Final = 4096  # of the parameters in one divisor
_MULTIPLES: Final = (2, 4, 8, 16, 32, 64, 128)
_NEAR: Final = 8  # how far from one of the spec's sizes is near


def draw(
    spec: KernelSpec,
    specialisation: Pairs,
    count: int,
    seed: int,
    *,
    reach: float = 1.0,
    calls: Mapping[Problem, int] | None = None,
    without: Collection[Problem] = (),
) -> list[Problem]:
    """Return `count` distinct problems that the kernel admits, or fewer where no more were found.

    With `reach` 1 they lie within the sizes of the spec; with more, each has a dim outside of them, up to `reach` times
    the largest or a part of the smallest. `calls` are problems with the numbers of their calls: four of five problems
    are those then, drawn without repetition, by the logarithm of their numbers, so that one shape that is called a
    million times does not hide the others. They are taken as they are, inside or outside. The others are none of
    `without`.
    """
    known = {name: sizes_of(spec, name, dict(specialisation)) for name in spec.free_dims}
    sizes = ",".join(f"{name}={of_dim}" for name, of_dim in known.items())
    joint = [problem.dims for problem in space.problems(spec, specialisation)] if spec.problems else []
    generator = random.Random(f"{seed}:{spec.name}:{space.describe(specialisation)}:{sizes}:{reach}")  # noqa: S311
    found = dict.fromkeys(_called(spec, specialisation, int(CALLED * count), generator, calls or {}))
    ranges = {name: _range(of_dim, reach) for name, of_dim in known.items()}
    styles, factors = _styles(spec, specialisation, generator), _factors(spec)
    for _ in range(max(TRIES * count, LEAST_TRIES) if count else 0):
        if len(found) >= count or not ranges:
            break
        centre = _between(joint, reach, generator) if joint else {}
        dims = _dims(ranges, centre, styles, factors, generator)
        if len(dims) > 1 and generator.random() < LEAST:
            name = generator.choice(list(dims))
            dims[name] = _range(known[name], 1)[0]
        problem = Problem(specialisation=specialisation, dims=space.pairs(dims))
        if problem in found or problem in without or (reach > 1 and not _outside(known, dims)):
            continue
        if _admitted(spec, problem):
            found[problem] = None
    return list(found)[:count]


def _called(
    spec: KernelSpec, specialisation: Pairs, count: int, generator: random.Random, calls: Mapping[Problem, int]
) -> list[Problem]:
    """Return some of the problems that were called, drawn by weight without repetition (Efraimidis and Spirakis)."""
    names = tuple(spec.free_dims)
    keys: dict[Problem, float] = {}
    for problem in sorted(calls):
        same = problem.specialisation == specialisation and tuple(name for name, _ in problem.dims) == names
        if same and calls[problem] > 0 and _admitted(spec, problem):
            keys[problem] = generator.random() ** (1 / math.log2(1 + calls[problem]))
    return sorted(keys, key=lambda problem: (-keys[problem], problem))[:count]


def _admitted(spec: KernelSpec, problem: Problem) -> bool:
    return fits_arguments(spec, problem) and space.admitted(spec, problem)


def _range(sizes: tuple[int, ...], reach: float) -> tuple[int, int]:
    least, most = (sizes[0], sizes[-1]) if sizes else (1, 1)
    if least == most and reach == 1:
        return max(1, least // ALONE), most * ALONE
    return max(1, math.ceil(least / reach)), max(1, math.floor(most * reach))


def _outside(known: Mapping[str, tuple[int, ...]], dims: Mapping[str, int]) -> bool:
    return any(not known[name][0] <= size <= known[name][-1] for name, size in dims.items())


def _between(joint: Sequence[Pairs], reach: float, generator: random.Random) -> dict[str, float]:
    """Return the logarithm of a size for each dim: of a point between two of `joint`, moved by up to `ASTRAY`.

    Dims that grow together, or against each other, go on doing so. With `reach` a point is moved that much further.
    """
    one, other, share = dict(generator.choice(joint)), dict(generator.choice(joint)), generator.random()
    most = math.log(ASTRAY * reach)
    return {
        name: math.log(int(one[name])) * share
        + math.log(int(other[name])) * (1 - share)
        + generator.uniform(-most, most)
        for name in one
    }


def _dims(
    ranges: Mapping[str, tuple[int, int]],
    centre: Mapping[str, float],
    styles: tuple[Callable[[str, int], int], ...],
    factors: Mapping[str, int],
    generator: random.Random,
) -> dict[str, int]:
    """Return sizes within `ranges`: half of the problems have one style for all dims, the others one for each.

    `centre` gives the logarithms of sizes to begin at; without, they are drawn.
    """
    shared = generator.choice(styles) if generator.random() < 0.5 else None  # noqa: PLR2004 - one of two
    dims = {}
    for name, (least, most) in ranges.items():
        log = centre[name] if centre else generator.uniform(math.log(least), math.log(most))
        size = max(1, round(math.exp(log)))
        style = shared or generator.choice(styles)
        factor = factors.get(name, 1)
        multiple = max(1, round(style(name, size) / factor)) * factor
        dims[name] = min(max(multiple, least), most)
    return dims


def _factors(spec: KernelSpec) -> dict[str, int]:
    """Return what a dim has to be a multiple of, of those dims of which `requires` says `dim % number == 0`."""
    found: dict[str, int] = {}
    for condition in spec.constraints.demands:
        match condition.tree:
            case ast.Compare(
                left=ast.BinOp(left=ast.Name(id=name), op=ast.Mod(), right=ast.Constant(value=int() as number)),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value=0)],
            ) if number > 0:
                found[name] = math.lcm(found.get(name, 1), number)
    return found


def _styles(spec: KernelSpec, specialisation: Pairs, generator: random.Random) -> tuple[Callable[[str, int], int], ...]:
    """Return the functions that move a size to a number of a style; what is listed twice is drawn twice as often."""
    sizes = {name: sizes_of(spec, name, dict(specialisation)) or (1,) for name in spec.free_dims}
    tiles = _tiles(spec, specialisation)

    def near(name: str, size: int) -> int:
        nearest = min(sizes[name], key=lambda one: abs(math.log(one / size)))
        return nearest + generator.choice([-1, 1]) * generator.randint(0, _NEAR)

    def multiple(_name: str, size: int) -> int:
        of = generator.choice(_MULTIPLES)
        return max(1, round(size / of)) * of

    def beside(name: str, size: int) -> int:
        tile = generator.choice(tiles.get(name) or _MULTIPLES)
        return max(1, round(size / tile)) * tile + generator.choice([-1, 0, 1])

    def power(_name: str, size: int) -> int:
        return 1 << max(0, round(math.log2(size)))

    def any_(_name: str, size: int) -> int:
        return size

    def prime(_name: str, size: int) -> int:
        return next(number for number in itertools.count(max(2, size)) if is_prime(number))

    return any_, any_, prime, near, multiple, multiple, beside, beside, power


def is_prime(number: int) -> bool:
    """Return whether `number` is prime: Miller and Rabin's test, exact below 3 * 10**24 with these bases."""
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
    if number < 2 or any(number % base == 0 for base in bases):  # noqa: PLR2004 - the first prime
        return number in bases
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in bases:
        value = pow(base, odd, number)
        if value not in (1, number - 1) and all((value := value * value % number) != number - 1 for _ in range(twos)):
            return False
    return True


def _tiles(spec: KernelSpec, specialisation: Pairs) -> dict[str, list[int]]:
    """Return, for each dim, what grids, blocks and guards divide it by in some configuration, sorted."""
    found: dict[str, set[int]] = {name: set() for name in spec.free_dims}
    known = space.choices(spec, specialisation)
    for implementation in spec.all_implementations.values():
        extents = [extent for launch in implementation.launches for extent in (*launch.grid, *launch.block)]
        for number, divisor in _divisions([*extents, *implementation.constraints.where]):
            values = set(_values(divisor, known, implementation))
            for name in found.keys() & number.names:
                found[name] |= values
    ordered = {name: sorted(value for value in values if value > 1) for name, values in found.items()}
    return {name: values[:: math.ceil(len(values) / MOST_TILES) or 1] for name, values in ordered.items()}


def _divisions(expressions: Iterable[Expression]) -> set[tuple[Expression, Expression]]:
    """Return (number, divisor) of everything that is divided in `expressions`."""
    found = set()
    for expression in expressions:
        for node in ast.walk(expression.tree):
            match node:
                case ast.BinOp(left=number, op=ast.Mod() | ast.FloorDiv(), right=divisor):
                    found.add((Expression(ast.unparse(number)), Expression(ast.unparse(divisor))))
                case ast.Call(func=ast.Name(id="ceil_div"), args=[number, divisor]):
                    found.add((Expression(ast.unparse(number)), Expression(ast.unparse(divisor))))
    return found


def _values(divisor: Expression, known: Mapping[str, Value], implementation: ImplementationSpec) -> Iterator[int]:
    """Yield what a divisor is under the values of the parameters that it reads; nothing where it reads a dim."""
    names = sorted(divisor.names & space.parameters(implementation))
    if isinstance(implementation.space, dict):
        listed: Iterable[tuple[Value, ...]] = itertools.product(*(implementation.space[name] for name in names))
    else:
        listed = {tuple(row[name] for name in names) for row in implementation.space if row.keys() >= set(names)}
    for values in itertools.islice(listed, MOST_COMBINATIONS):
        with contextlib.suppress(ExpressionError):
            yield divisor.evaluate({**known, **dict(zip(names, values, strict=True))})
