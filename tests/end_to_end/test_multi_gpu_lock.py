"""examples/multi-gpu-lock: two machines' locks, merged, baked into one package."""

import ast
import shutil
import sys
from pathlib import Path

import pytest

from generated import assigned

EXAMPLE = Path(__file__).parents[2] / "examples" / "multi-gpu-lock"
H100, H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"


@pytest.fixture
def example(tmp_path):
    left = shutil.ignore_patterns("tuned", "dist", "__pycache__")
    return shutil.copytree(EXAMPLE, tmp_path / EXAMPLE.name, ignore=left)


@pytest.fixture
def pretuned(run, example):
    """Run the command line in the example."""
    return lambda *arguments, **given: run(sys.executable, "-m", "pretuned", *arguments, cwd=example, **given)


def rows_of(table):
    """The winners of a generated table's text: by device, and by specialisation and sizes."""
    found = ast.literal_eval(assigned(ast.parse(table), "TABLE"))["transpose"]
    return {device: {(str(row[0]), str(row[1])): row[2][0] for row in rows} for device, rows in found.items()}


def test_the_two_machines_locks_make_the_one_that_is_committed(example, pretuned):
    lock = example / "pretuned.lock.json"
    committed = lock.read_bytes()
    for order in (("h100", "h200"), ("h200", "h100")):
        lock.unlink()
        said = pretuned("merge", *(f"locks/{name}.json" for name in order), "-o", "pretuned.lock.json")
        assert "; 0 conflicts\n" in said
        assert lock.read_bytes() == committed
    checked, note = pretuned("check").splitlines()
    assert checked == f"pretuned.lock.json: 36 rows for {H100}, {H200}, all fresh"
    assert note.startswith("warning: pretuned.lock.json: rows and no selection for transpose"), (
        "these locks have no selections"
    )
    assert pretuned("merge", "locks/h100.json").endswith("pretuned.lock.json: has all of it, nothing to write\n")


def test_the_wheel_has_the_rows_of_both(example, hatchling, contents, tmp_path):
    files = contents(hatchling(example, "wheel", tmp_path / "dist"))
    found = rows_of(files["flipped/tuned/__init__.py"])
    assert {device: len(rows) for device, rows in found.items()} == {H100: 18, H200: 18}
    differing = sum(found[H100][key][1] != found[H200][key][1] for key in found[H100])
    assert differing == 7  # as its README says
    assert not [choice for rows in found.values() for choice in rows.values() if len(choice) > 6], "none is recompiled"
    assert [name for name in files if name.endswith(".sm_90.cubin")]


def test_a_device_can_be_taken_out_again(example, pretuned, hatchling, contents, tmp_path):
    assert pretuned("prune", "--device", H200).startswith(f"transpose on {H200}: 18 rows removed\n")
    table = contents(hatchling(example, "wheel", tmp_path / "dist"))["flipped/tuned/__init__.py"]
    assert list(rows_of(table)) == [H100]


def test_a_changed_kernel_ends_the_build_until_it_is_tuned_again(example, run, tmp_path):
    template = example / "kernels" / "transpose.cu.jinja"
    text = template.read_text()
    template.write_text(text.replace('extern "C"', '__device__ int spare;\n\nextern "C"', 1))
    assert template.read_text() != text
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist")
    output = run(*command, cwd=example, status=4)
    assert "mode locked: pretuned.lock.json is not fresh; run `pretuned tune` and commit it:" in output
    assert "  and 26 more: `pretuned check`" in output
