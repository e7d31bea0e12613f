"""examples/gallery: every kernel is short, executed on the host device where that can, and in the documentation."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from kernel_folders import specs_in
from pretuned.compile.host import compiler
from pretuned.compile.pool import compile_all
from pretuned.compile.result import Binary
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.tune.execute import execute
from pretuned.tune.modes import FAR, MEMORY, PLAIN, RACES

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "examples" / "gallery"
PAGE = ROOT / "docs" / "gallery.md"
LIMIT_S = 120.0  # for one configuration: a machine that does much else at a time is no finding
BUDGET_S = 30.0  # for what is marked slow, each
LINES = 60  # of a spec and its templates together that are not blank
SPECS = specs_in(GALLERY / "kernels")
AT = {  # one problem each, so small that the default run of the tests can afford it
    "add_rms_norm": {"rows": 3, "cols": 77, "T": "float16"},
    "convolution": {"h": 30, "w": 41},
    "grouped_gemm": {"groups": 5, "m": 90, "n": 70, "k": 37, "T": "bfloat16"},
    "quantise_fp8": {"rows": 3, "cols": 77, "T": "bfloat16"},
    "quantise_int8": {"rows": 3, "cols": 77, "T": "float16"},
    "rotary": {"n": 5, "heads": 3, "half": 7, "limit": 9, "T": "bfloat16", "has_positions": True, "interleaved": True},
    "silu_and_mul": {"rows": 3, "d": 77, "T": "bfloat16"},
    "silu_and_mul_backward": {"rows": 3, "d": 77, "T": "bfloat16"},
    "spmv": {"n": 20, "m": 30, "nonzeros": 100},
    "standardise": {"n": 1000},
    "topk_softmax": {"n": 3, "experts": 40, "topk": 5, "T": "bfloat16"},
    "transpose_tma": {"rows": 37, "cols": 45, "T": "float16"},
    "unit_vector": {"n": 1000},
}
GPU_ONLY = {"scan"}
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")


def test_every_kernel_is_executed_here_or_named_as_for_gpus_only():
    assert set(AT) | GPU_ONLY == set(SPECS)


@pytest.mark.parametrize("name", SPECS)
def test_a_kernel_is_short_and_described(name):
    spec = SPECS[name]
    files = [GALLERY / "kernels" / spec.file]
    files += [GALLERY / "kernels" / one.template for one in spec.all_implementations.values()]
    lines = [line for file in files for line in file.read_text().splitlines() if line.strip()]
    assert len(lines) <= LINES
    for page in (PAGE, GALLERY / "README.md"):
        assert f"`{name}`" in page.read_text(), page.name


@needs_compiler
def test_defaults_are_right_at_one_problem(tmp_path):
    specs = {name: spec for name, spec in SPECS.items() if name in AT}
    chosen = {name: [problem] for name, problem in AT.items()}
    reports = list(execute(specs, [replace(PLAIN, limit_s=LIMIT_S)], cache_folder=tmp_path, sample=1, chosen=chosen))
    assert {report.kernel: report.findings for report in reports} == {name: [] for name in AT}
    assert all(report.executions >= 1 for report in reports)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_configurations_compile(name):
    """A few, for one GPU: `pretuned check` compiles the defaults of all specialisations."""
    spec = SPECS[name]
    draw = random.Random(name)
    sources = {}
    for problem in draw.choices(space.all_problems(spec), k=3):
        configuration = draw.choice(list(space.configurations(spec, problem)))
        source = source_of(spec, problem.specialisation, configuration)
        sources[source.key] = source
    results = compile_all(list(sources.values()), "sm_90")
    assert [found for found in results.values() if not isinstance(found, Binary)] == []


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(("modes", "sample"), [((PLAIN,), 6), ((MEMORY, RACES, FAR), 1)], ids=["executed", "sanitized"])
def test_configurations_are_right_at_awkward_sizes(modes, sample, tmp_path, record_property):
    """As many as there is time for: `pretuned check --execute` and `--sanitize` with `--budget none` try the rest."""
    patient = [replace(mode, limit_s=LIMIT_S) for mode in modes]
    for report in execute(SPECS, patient, cache_folder=tmp_path, sample=sample, budget_s=BUDGET_S):
        record_property("figure", f"{report.kernel}, {report.mode}: {report.executions} executions")
        assert report.findings == [], report.kernel
        assert report.executions == 0 or report.kernel not in GPU_ONLY, report.kernel
