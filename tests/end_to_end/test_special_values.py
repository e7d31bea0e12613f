"""NaN, infinities, -0 and subnormals among the inputs of the bundled kernels, executed on the host device.

What they become is what the reference makes of them. Defaults for float32 of a few kernels always; all of them by the
test marked slow.
"""

import sys
from itertools import product
from pathlib import Path

import pytest

from kernel_folders import bundled
from pretuned.compile.host import compiler
from pretuned.runtime.types import DTYPES
from pretuned.spec.space import dtype_of, specialisations
from pretuned.tune.execute import execute
from pretuned.tune.modes import PLAIN

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
sys.path.append(str(BENCHMARKS))

from values.inputs import SPECIALS  # noqa: E402 - behind the path

SOME = ["row_softmax", "scan"]  # whose reductions could lose a value
SPECS = bundled()
SIZES = (5, 33)  # of every dim, one more for each value: rows that end inside a vector, and more than a warp has
MANY = 4  # specialisations, from which on they take turns with these sizes
PLANTED = '''
import random, sys
from pathlib import Path
sys.path.append({benchmarks!r})
from pretuned.measure.data import decoded
from pretuned.runtime.records import Value
from pretuned.spec.loader import load_folder
from pretuned.spec.space import Problem, dtype_of, pairs
from values.inputs import SPECIALS, planted

spec = load_folder(Path({templates!r}), {{{kernel!r}}})[{kernel!r}]

def inputs(generator, **given):
    """Return the inputs that the spec draws, with one of the special values in one array; sizes say which."""
    dims = {{name: given[name] for name in spec.free_dims}}
    chosen = {{name: given[name] for name in given if name not in dims and name in {exact!r}}}
    problem = Problem(specialisation=pairs(chosen), dims=pairs(dims))
    special = list(SPECIALS)[sum(dims.values()) // len(dims) % len(SPECIALS)]
    several = [*planted(spec, problem, 1, special, random.Random(str(problem)))]
    stored = several[sum(dims.values()) % len(several)]
    return {{name: decoded(one, dtype_of(spec, next(a.dtype for a in spec.inputs if a.name == name),
                                        problem.specialisation)) for name, one in stored.items()}}
'''


def with_special_values(spec, folder):
    """The spec, but for what its arrays hold."""
    exact = sorted({name for one in specialisations(spec) for name, _ in one})
    file = folder / f"{spec.name}_inputs.py"
    file.write_text(
        PLANTED.format(benchmarks=str(BENCHMARKS), templates=str(spec.folder), kernel=spec.name, exact=exact)
    )
    return spec.model_copy(update={"verify": spec.verify.model_copy(update={"inputs": f"{file}:inputs"})})


def problems(spec, types):
    """Sizes of which each stands for another special value, of the specialisations over these types."""
    listed = [of for of in specialisations(spec) if floating(spec, of) and floating(spec, of) <= types]
    for turn, of in enumerate(listed):
        sizes = SIZES if len(listed) < MANY else [SIZES[turn % len(SIZES)]]
        for size, place in product(sizes, range(len(SPECIALS))):
            yield dict(of) | dict.fromkeys(spec.free_dims, size + place)


def floating(spec, specialisation):
    """The floating types of a kernel's inputs."""
    used = {dtype_of(spec, argument.dtype, specialisation) for argument in spec.inputs}
    return {dtype for dtype in used if DTYPES[dtype].kind == "float"}


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")
@pytest.mark.parametrize(
    ("names", "types"),
    [(SOME, {"float32"}), pytest.param([*SPECS], {*DTYPES}, marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_special_values_become_what_the_reference_makes_of_them(names, types, tmp_path):
    specs = {name: with_special_values(SPECS[name], tmp_path) for name in names}
    chosen = {name: found for name, spec in specs.items() if (found := list(problems(spec, types)))}
    specs = {name: specs[name] for name in chosen}
    reports = list(execute(specs, [PLAIN], cache_folder=tmp_path / "cache", sample=1, chosen=chosen))
    assert [report.findings for report in reports] == [[]] * len(specs)
    assert any(report.executions for report in reports)
