"""examples/declared: the quickstart's kernel from Python, tuned, checked and baked by the public names alone."""

import shutil
import sys
from pathlib import Path

import pytest

import pretuned
from pretuned.spec.declarations import load_all

EXAMPLES = Path(__file__).parents[2] / "examples"
QUICK = {
    '"sizes": [256, 4096]': '"sizes": [3]',
    '"sizes": [1024, 4096, 8192]': '"sizes": [256]',
    '["float32", "float16"]': '["float32"]',
    "range(5)": "range(1, 3)",
    "[1, 2, 4, 8]": "[1, 4]",
    '"block": 256': '"block": 128',
}
EXPLAIN = """\
import declared.tuned
print(declared.tuned.explain("rms_norm", rows=3, cols=256, T="float32", device="host"))
"""


def test_it_is_the_quickstarts_kernel():
    declared = load_all(EXAMPLES / "declared" / "kernels", EXAMPLES / "declared" / "kernels" / "declared.py")
    (quickstart,) = pretuned.load_folder(EXAMPLES / "quickstart" / "kernels").values()
    (spec,) = declared.values()
    assert spec.model_copy(update={"declared": "", "folder": quickstart.folder}) == quickstart
    for name in ("rms_norm.cu.jinja", "reference.py"):
        assert (EXAMPLES / "declared" / "kernels" / name).read_bytes() == (
            EXAMPLES / "quickstart" / "kernels" / name
        ).read_bytes()


@pytest.mark.slow
def test_its_program_tunes_checks_and_bakes_it(run, tmp_path):
    """On the host device, at one small size, so that it takes seconds."""
    project = tmp_path / "declared"
    shutil.copytree(EXAMPLES / "declared", project, ignore=shutil.ignore_patterns("tuned", "__pycache__"))
    module = project / "kernels" / "declared.py"
    text = module.read_text()
    for old, new in QUICK.items():
        assert old in text
        text = text.replace(old, new)
    module.write_text(text)
    printed = run(sys.executable, "build.py", "host", cwd=project)
    assert "pretuned.lock.host.json: written; 0 rows left\n" in printed
    assert "\nfresh\n" in printed
    assert "\nsrc/declared/tuned: " in printed
    explained = run(sys.executable, "-c", EXPLAIN, cwd=project, PYTHONPATH="src")
    assert "block=" in explained
    assert "host" in explained
