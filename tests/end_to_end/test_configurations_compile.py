"""NVRTC compiles configurations of every bundled template, and of the examples'.

Up to FEW of a kernel for three architectures always; about MANY for one of them by those marked slow, with each value
of each parameter and each type in one at least. What ships of a kernel is compiled by every build.
"""

import itertools
import random
from pathlib import Path

import pytest

from kernel_folders import specs_in
from pretuned.compile.pool import CompilePool
from pretuned.compile.result import Binary
from pretuned.render import source_of
from pretuned.runtime.types import DTYPES
from pretuned.spec import space
from pretuned.spec.needs import need_of
from pretuned.spec.space import DeviceFacts

FEW, MANY = 1, 12
ROOT = Path(__file__).parents[2]
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
USUAL = ("sm_90",)  # many configurations are compiled for it, and few for the others
BUNDLED = ROOT / "templates"
# The gallery has a test of its own, `declared` the quickstart's kernel, and `multi-gpu-lock` the bundled transpose as
# it was when its lock was made, of which its own test compiles what ships.
SHOWN_ELSEWHERE = {"gallery", "declared", "multi-gpu-lock"}


def is_copy(folder):
    """Whether an example shows nothing but bundled kernels, which are compiled as such."""
    files = [*folder.glob("*.toml"), *folder.glob("*.jinja")]
    return all(
        (BUNDLED / file.name).is_file() and (BUNDLED / file.name).read_text() == file.read_text() for file in files
    )


EXAMPLES = sorted(
    path for path in ROOT.glob("examples/*/kernels") if path.parent.name not in SHOWN_ELSEWHERE and not is_copy(path)
)
FOLDERS = {"bundled": BUNDLED, **{path.parent.name: path for path in EXAMPLES}}
SPECS = {f"{owner}/{name}": spec for owner, folder in FOLDERS.items() for name, spec in specs_in(folder).items()}


@pytest.fixture(scope="module")
def pool():
    with CompilePool() as workers:
        yield workers


def modules(spec, architecture, most):
    """The modules of combinations that some problem could use there, drawn from all specialisations.

    These are `most` of them; with MANY, those that bring a value which none before has come first, however many.
    """
    facts = DeviceFacts(
        sm_count=132, compute_capability=int(architecture[3:]), shared_bytes=232_448, l2_bytes=50 << 20
    ).environment()
    listed = [
        (specialisation, configuration)
        for specialisation in space.specialisations(spec)
        for name, implementation in spec.all_implementations.items()
        for configuration in space.combinations(name, implementation)
    ]
    random.Random(architecture).shuffle(listed)
    usable = (one for one in listed if is_usable(spec, *one, facts))
    found = {}
    for specialisation, configuration in spread(usable, most) if most == MANY else itertools.islice(usable, most):
        module = source_of(spec, specialisation, configuration)
        found.setdefault(module.key, (module, f"{space.describe(specialisation)}: {configuration}"))
    return found


def spread(drawn, most):
    """Those of `drawn` that bring a new value of a parameter or a type, and the first others up to `most` in all."""
    seen, new, others = set(), [], []
    for specialisation, configuration in drawn:
        name = configuration.implementation
        values = {name, *specialisation, *((name, *pair) for pair in configuration.values)}
        (others if values <= seen else new).append((specialisation, configuration))
        seen |= values
    return [*new, *others[: max(0, most - len(new))]]


def is_usable(spec, specialisation, configuration, facts):
    """Whether the conditions on parameters, types and the device admit a configuration."""
    need = need_of(spec, specialisation, configuration)
    if need is not None and need.capability > facts["device.compute_capability"]:
        return False
    values = space.choices(spec, specialisation) | facts | dict(configuration.values)
    where = spec.all_implementations[configuration.implementation].constraints.where
    return all(one.evaluate(values) for one in where if one.names <= values.keys() | DTYPES.keys())


@pytest.mark.parametrize(
    ("architectures", "most"),
    [pytest.param(USUAL, MANY, marks=pytest.mark.slow, id="many"), pytest.param(ARCHITECTURES, FEW, id="few")],
)
@pytest.mark.parametrize("name", SPECS)
def test_configurations_compile(pool, name, architectures, most):
    found, jobs = {}, []
    for architecture in architectures:
        chosen = modules(SPECS[name], architecture, most)
        jobs += [(module, architecture + "a" * module.arch_specific) for module, _ in chosen.values()]
        found |= chosen
    assert found
    compiled, failed = 0, []
    for (module, architecture), result in pool.compile(jobs):
        if isinstance(result, Binary) and set(module.functions) <= result.resources.keys():
            compiled += 1
        else:
            failed.append(f"{architecture}: {found[module.key][1]}: {result}")
    assert not failed
    assert compiled == len(jobs)
