"""`check --execute` at first contact: what it says of errors, what it leaves out, what it takes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pretuned.cli.chosen import chosen_problems
from pretuned.compile.host import compiler
from pretuned.errors import UsageError
from pretuned.report.execution import finding_lines
from pretuned.spec.loader import load
from pretuned.tune.execute import execute
from pretuned.tune.modes import PLAIN, SANITIZERS
from specs import SCALE_TEMPLATE, loaded

HERE = Path(__file__).parent
MANY = HERE / "many"
TABLE = '[tool.hatch.build.hooks.pretuned]\nmodule = "src/mypkg/tuned"\n'
HALVES = "#include <cuda_fp16.h>\n" + SCALE_TEMPLATE
FEW = ("block = [128, 256]", "block = [256]")  # configurations
pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache folder that keeps what tests have compiled for those behind them."""
    return tmp_path_factory.mktemp("cache")


def test_equal_compile_errors_are_printed_once_and_the_rest_is_not_compiled(tmp_path):
    folder = shutil.copytree(MANY, tmp_path / "kernels")
    template = folder / "topk_softmax.cu.jinja"
    template.write_text(template.read_text().replace("-1e30f", "-LARGEST"))
    spec = load(folder / "topk_softmax.toml")
    (report,) = execute({spec.name: spec}, [PLAIN], cache_folder=None)
    assert (len(report.findings), report.uncompiled, report.executions) == (3, 213, 0)
    first, last = finding_lines(report, spec)
    assert first.startswith("topk_softmax: 216 configurations: block=128; ...\n  host: compile error: topk_softmax.cu")
    assert last == "  the first 3 fail alike, so the other 213 were not compiled"


def test_a_reference_that_never_returns_is_a_finding(tmp_path, cache, monkeypatch):
    monkeypatch.setattr("pretuned.tune.execute.CANDIDATE_S", 1.0)
    spec = loaded(tmp_path, FEW, ("vec   = [1, 2, 4]", "vec   = [1]"), template=HALVES)
    (tmp_path / "reference.py").write_text("def scale(x, a, **_):\n    while True:\n        pass\n")
    (report,) = execute({"scale": spec}, [PLAIN], cache_folder=cache, budget_s=12.0)
    assert report.executions == 0
    assert report.findings
    for finding in report.findings:
        assert re.fullmatch(r"its inputs and references were not made within \d+ s", finding.detail)


def test_where_no_problem_can_be_judged_that_is_said_once(tmp_path, cache):
    spec = loaded(tmp_path, FEW, ("vec   = [1, 2, 4]", "vec   = [1]"), template=HALVES)
    (tmp_path / "reference.py").write_text("def scale(x, a, **_):\n    raise ValueError\n")
    (report,) = execute({"scale": spec}, [PLAIN], cache_folder=cache)
    assert report.notes == ["stopped: the first 3 problems could not be judged"]


def test_a_reference_that_raises_is_a_finding_and_other_kernels_go_on(tmp_path, cache):
    for name in ("bad", "good"):
        (tmp_path / name).mkdir()
    bad, good = (
        loaded(tmp_path / name, FEW, ("vec   = [1, 2, 4]", "vec   = [1]"), template=HALVES) for name in ("bad", "good")
    )
    (tmp_path / "bad" / "reference.py").write_text("def scale(x, a, **_):\n    return a * x / x.max()\n")
    bad = bad.model_copy(update={"name": "bad"})
    found = {r.kernel: r for r in execute({"bad": bad, "scale": good}, [PLAIN], cache_folder=cache)}
    assert {(finding.outcome, finding.configuration) for finding in found["bad"].findings if not finding.failure} == {
        ("error", None)
    }
    assert any("zero-size array" in finding.detail for finding in found["bad"].findings)
    assert (found["scale"].findings, found["scale"].configurations) == ([], 2)


def test_a_reference_that_is_rounded_as_the_kernel_is_is_named_once(tmp_path, cache):
    spec = loaded(tmp_path, FEW, ("vec   = [1, 2, 4]", "vec   = [1]"), template=HALVES)
    (tmp_path / "reference.py").write_text("def scale(x, a, T, **_):\n    return (a * x).astype(T)\n")
    (report,) = execute({spec.name: spec}, [PLAIN], cache_folder=cache)
    assert report.findings == []
    (note,) = report.notes
    assert re.fullmatch(
        r"reference.py:1: scale returns (float\d\d) for 'y', which is \1: it is rounded as the kernel's results are, "
        "so that errors of that size are not seen; compute in float64, as inputs come, and return float64",
        note,
    )


@pytest.mark.parametrize("tiles", ["[4, 32]", pytest.param("[1, 4, 16, 32]", marks=pytest.mark.slow)])
def test_groups_of_threads_are_those_of_cuda(tmp_path, cache, tiles):
    folder = shutil.copytree(HERE / "groups", tmp_path / "groups")
    text = (folder / "groups.toml").read_text()
    (folder / "groups.toml").write_text(text.replace("values = [1, 4, 16, 32]", f"values = {tiles}"))
    spec = load(folder / "groups.toml")
    (report,) = execute({spec.name: spec}, [PLAIN], cache_folder=cache)
    assert (report.findings, report.configurations) == ([], tiles.count(",") + 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("n", "write NAME=VALUE, as in `--at rows=7,cols=50257`: found 'n'"),
        ("m=3", "there is no dim or specialisation 'm'; known are T, n"),
        ("T=float16", "scale needs a size for n too"),
        ("n=-3", "'-3' is not a size of n; write an integer of 0 or more"),
        ("n=3,T=half", "scale has T = float16, float32; found 'half'"),
        ("n=3,n=4", "names 'n' twice; repeat --at for a second problem"),
        ("n=3000000000", "a size is larger than its argument's type holds"),
    ],
)
def test_a_problem_that_cannot_be_chosen(tmp_path, text, said):
    with pytest.raises(UsageError) as error:
        chosen_problems([text], {"scale": loaded(tmp_path)})
    assert str(error.value) == f"--at {text}: {said}"


def test_chosen_problems_alone_are_executed(tmp_path, cache):
    spec = loaded(tmp_path, FEW, template=HALVES)
    chosen = chosen_problems(["n=12,T=float32", "n=5"], {"scale": spec})
    (report,) = execute({"scale": spec}, [PLAIN], cache_folder=cache, chosen=chosen)
    assert report.findings == []
    assert report.executions == 3 + 1 + 1  # all at 12 in float32; at 5, vec 1 in both types
    assert {reason for _, _, reason in report.nowhere} == {
        "where[1] 'n % vec == 0' refuses it at every size that was tried"
    }


def test_a_constant_dim_may_be_chosen_that_the_spec_does_not_list():
    spec = load(MANY / "topk_softmax.toml")
    chosen = chosen_problems(["n=3,experts=32,T=float32,first=0,topk=2,normalise=true"], {spec.name: spec})
    (report,) = execute({spec.name: spec}, [PLAIN], cache_folder=None, chosen=chosen)
    assert (report.findings, report.total, report.executions) == ([], 3, 3)


@pytest.mark.slow
def test_every_sanitizer_executes_the_default_though_time_is_short(tmp_path):
    spec = loaded(tmp_path, template=HALVES)
    reports = execute({"scale": spec}, SANITIZERS, cache_folder=None, sample=1, budget_s=40)
    assert {report.mode: report.executions > 0 for report in reports} == {"memory": True, "races": True, "far": True}


@pytest.mark.slow
def test_what_runs_when_the_time_is_over_is_cut_off_and_no_finding(tmp_path):
    spec = loaded(
        tmp_path,
        template=HALVES.replace("    const int", "    for (volatile unsigned i = 0; n == 5; ++i) {}\n    const int"),
    )
    chosen = chosen_problems(["n=5,T=float32"], {"scale": spec})
    (report,) = execute({"scale": spec}, [PLAIN], cache_folder=None, chosen=chosen, budget_s=15)
    assert (report.findings, report.executions, len(report.cut)) == ([], 0, 2)
    assert report.left == 2  # those of vec 1


@pytest.mark.slow
def test_72_specialisations_take_a_minute_and_a_gigabyte_at_most(tmp_path, record_property):
    shutil.copytree(MANY, tmp_path / "kernels")
    (tmp_path / "pyproject.toml").write_text(TABLE)
    environment = os.environ | {"PRETUNED_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "pretuned", "check", "--execute"]
    begun, peak = time.monotonic(), 0
    with subprocess.Popen(command, cwd=tmp_path, env=environment, text=True, stderr=subprocess.PIPE) as process:
        while process.poll() is None:
            peak = max(peak, _proportional_bytes(process.pid))
            time.sleep(0.2)
        assert process.stderr is not None
        said = process.stderr.read()
    seconds = time.monotonic() - begun
    record_property(
        "figure", f"72 specialisations: {seconds:.0f} s, {peak / 1e6:.0f} MB at most: {said.splitlines()[-1]}"
    )
    assert process.returncode == 0
    assert seconds < 90  # the budget ends after 50, whatever runs; a busy machine starts and ends slowly
    assert "0 findings" in said
    assert re.search(r"executed \d+ of 216 configurations", said)
    assert peak < 1e9


def _proportional_bytes(pid, parent=b""):
    """What a process and those it started take: of pages that are shared, each its part."""
    found = 0
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        if command == parent:
            return 0  # it has not begun with its own program, and has its parent's memory
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        found = sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += sum(_proportional_bytes(child, command) for child in (task / "children").read_text().split())
    except OSError:
        pass  # it has ended
    return found
