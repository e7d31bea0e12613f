"""NVRTC compiles the configurations of every bundled template, and of the examples'.

Of STRIDE one, and about MOST of a kernel, for three architectures always; each for one of them by those marked slow.
"""

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

STRIDE, MOST = 20, 3
ROOT = Path(__file__).parents[2]
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
USUAL = ("sm_90",)  # every configuration is compiled for it, and one of STRIDE for the others
BUNDLED = ROOT / "templates"
pytestmark = pytest.mark.untraced
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


def modules(spec, architecture, stride):
    """The distinct modules of the combinations that some problem could use there, over all specialisations.

    Of one of `stride`, evenly spread, and hardly more than MOST; of all where it is 1.
    """
    facts = DeviceFacts(
        sm_count=132, compute_capability=int(architecture[3:]), shared_bytes=232_448, l2_bytes=50 << 20
    ).environment()
    usable, found = [], {}
    for specialisation in space.specialisations(spec):
        chosen = space.choices(spec, specialisation)
        for name, implementation in spec.all_implementations.items():
            known = space.parameters(implementation) | chosen.keys() | DTYPES.keys() | facts.keys()
            where = [expression for expression in implementation.constraints.where if expression.names <= known]
            for configuration in space.combinations(name, implementation):
                values = chosen | facts | dict(configuration.values)
                need = need_of(spec, specialisation, configuration)
                if need is not None and need.capability > facts["device.compute_capability"]:
                    continue
                if all(expression.evaluate(values) for expression in where):
                    usable.append((specialisation, configuration))
    step = stride if stride == 1 else max(stride, len(usable) // MOST)
    for specialisation, configuration in usable[::step]:  # before they are rendered, which takes longest
        module = source_of(spec, specialisation, configuration)
        found.setdefault(module.key, (module, f"{space.describe(specialisation)}: {configuration}"))
    return found


@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.slow, id="all"), STRIDE])
@pytest.mark.parametrize("name", SPECS)
def test_every_configuration_compiles(pool, name, stride):
    found, jobs = {}, []
    for architecture in USUAL if stride == 1 else ARCHITECTURES:
        chosen = modules(SPECS[name], architecture, stride)
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
