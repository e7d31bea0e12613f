"""Kernels that do not take what their specs pass: `check`, `bake` and tuning refuse each, with the whole message."""

from __future__ import annotations

import importlib.util

import pytest

from fake_runner import FakeRunner, fake_workbench
from pretuned.cli import main
from pretuned.measure.runner import TuningError
from pretuned.record.cache import Cache
from pretuned.spec.loader import load_folder
from pretuned.spec.space import all_problems
from pretuned.tune.binaries import BinaryStore
from pretuned.tune.request import TuningRequest
from pretuned.tune.spending import Spending
from pretuned.tune.tuner import Tuner
from wrong_kernels import GRID_BARRIER, SOUND, SPEC, WRONG, write

TABLE = '[tool.hatch.build.hooks.pretuned]\nmodule = "src/demo/tuned"\n'
MISSING = WRONG["parameter missing"]
ALL = [*WRONG.values(), GRID_BARRIER]
# One by its size, one by its type, one by its name; tests/compile/test_contract.py compares each.
SAMPLE = [MISSING, WRONG["pointer to half"], WRONG['no extern "C"']]
ONE = ("block = [128, 256]", "block = [256]")  # configuration


class Project:
    """Projects of kernels by name, with one cache for all, so that each text is compiled once."""

    def __init__(self, folder):
        self.folder = folder
        self.cache = folder / "cache"

    def of(self, name, texts, table=TABLE, edit=("", "")):
        """Make a project of texts by kernel."""
        root = self.folder / name
        root.mkdir(exist_ok=True)
        (root / "pyproject.toml").write_text(table)
        for kernel, text in texts.items():
            write(root / "kernels", text, kernel=kernel, spec=SPEC.replace(*edit))
        return root


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return Project(tmp_path_factory.mktemp("projects"))


@pytest.fixture
def run(project, monkeypatch, capsys):
    def run(root, *arguments):
        monkeypatch.setenv("PRETUNED_CACHE_DIR", str(project.cache))
        monkeypatch.chdir(root)
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        captured = capsys.readouterr()
        return end.value.code, captured.out, captured.err

    return run


@pytest.fixture(
    scope="module", params=[pytest.param(SAMPLE, id="sample"), pytest.param(ALL, id="all", marks=pytest.mark.slow)]
)
def kernels(request):
    """Wrong kernels by name."""
    return {f"k{number:02}": wrong for number, wrong in enumerate(request.param)}


@pytest.fixture(scope="module")
def wrong(project, kernels):
    """A project of wrong kernels alone."""
    return project.of(f"wrong{len(kernels)}", {name: kernel.text for name, kernel in kernels.items()}, edit=ONE)


@pytest.mark.parametrize("command", ["check", "bake"])
def test_commands_refuse_each_with_its_line_and_what_to_write(wrong, kernels, run, command):
    status, out, err = run(wrong, command)
    *_, heading = (line for line in err.splitlines() if not line.startswith("  "))
    assert heading == f"error: invalid kernel spec ({len(kernels)} problems):"
    assert [line for line in err.splitlines() if line.startswith("  ")] == [
        f"  {name}.toml: launches[0]: {kernel.message.replace('axpy.cu', f'{name}.cu')}"
        for name, kernel in kernels.items()
    ]
    assert (status, out) == (2, "")
    assert not (wrong / "src").exists()


def test_a_cached_binary_is_held_against_the_spec_as_well(project, run):
    root = project.of("cached", {"axpy": MISSING.text}, edit=('  { name = "n", dtype = "int64" },\n', ""))
    status, _, err = run(root, "bake")
    assert status == 0, err
    write(root / "kernels", MISSING.text)  # the spec passes an argument more; the text is what it was
    status, _, err = run(root, "bake", "--check")
    assert status == 2
    assert MISSING.message in err


def test_tuning_refuses_each_before_it_is_launched(wrong, kernels, project):
    gpu = FakeRunner(lambda _values, _dims: 1.0)
    specs = load_folder(wrong / "kernels")
    requests = [TuningRequest(spec=spec, problems=tuple(all_problems(spec))) for spec in specs.values()]
    spending = Spending()
    with Cache(project.cache) as cache, BinaryStore(cache, spending) as binaries:
        workbench = fake_workbench(gpu, binaries=binaries, spending=spending)
        with pytest.raises(TuningError) as refused:
            list(Tuner(workbench).tune(requests))
    said = str(refused.value).splitlines()
    assert [line.partition(":")[0] for line in said] == list(kernels)
    assert not gpu.requests
    for line, (name, kernel) in zip(said, kernels.items(), strict=True):
        found, wanted = line, kernel.message.replace("axpy.cu", f"{name}.cu")
        if "static shared memory" in wanted:
            assert "uses too much shared data" in found  # ptxas reports it first
        else:
            assert found == f"{name}: block=256 cannot be launched: {wanted}"


def test_sound_kernels_pass_also_where_their_types_stay_unknown(project, run):
    names = ("as the spec", "beside an overload", "in a namespace")
    texts = {f"s{number}": f"{SOUND[name]} {{}}\n// {{{{ block }}}}" for number, name in enumerate(names)}
    status, _, err = run(project.of("sound", texts), "check")
    assert (status, err) == (4, "")  # there is no lock


def test_a_second_check_compiles_nothing(wrong, run, monkeypatch):
    run(wrong, "check", "--kernel", "k00")

    def start(_self):
        raise AssertionError

    monkeypatch.setattr(BinaryStore, "start", start)
    assert run(wrong, "check", "--kernel", "k00")[0] == 2


def test_without_a_compiler_check_says_in_one_line_what_it_leaves_out(wrong, run, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    status, out, err = run(wrong, "check")
    assert err == "kernels were not compared with their specs: CuPy and NVRTC are not installed\n"
    assert (status, out) == (4, "pretuned.lock.json: no rows; run `pretuned tune` on a machine with a GPU\n")


def test_a_kernel_that_does_not_compile_here_is_named_and_no_fault(project, run):
    root = project.of("broken", {"axpy": '#include "nowhere.h"\n' + next(iter(SOUND.values())) + " {}\n// {{ block }}"})
    status, _, err = run(root, "check")
    assert status == 4
    assert err == (
        "warning: axpy.toml: its kernels were not compared with it, since they do not compile: axpy.cu.jinja:3: "
        'catastrophic error: cannot open source file "nowhere.h"\n'
    )


def test_arch_specific_code_without_an_architecture_is_baked_with_a_warning(project, run):
    text = SOUND["as the spec"] + " {}\n// {{ block }}"
    edit = ("[verify]", "[compile]\narch-specific = true\n\n[verify]")
    status, _, err = run(project.of("specific", {"axpy": text}, edit=edit), "bake")
    assert status == 0
    assert (
        "warning: axpy.toml: no machine code is baked: `arch-specific` code is compiled for named architectures only, "
        'and neither the lock nor the table names one from sm_90 on; write architectures = ["sm_90"] in the table, '
        "or run `pretuned tune` on the GPU"
    ) in err.splitlines()
    named = project.of("named", {"axpy": text}, TABLE + 'architectures = ["sm_90"]\n', edit)
    status, _, err = run(named, "bake")
    assert status == 0
    assert "no machine code" not in err
