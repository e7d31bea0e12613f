"""What users of the bundled kernels get: pretuned's own wheel."""

import re
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMPORT = """\
import sys
import pretuned.kernels
builder = {"pydantic", "jinja2", "platformdirs", "filelock", "packaging", "rich", "pynvml", "numpy", "cupy"}
assert not builder & sys.modules.keys()
print(*sorted(name for name in ("axpby", "reduce_sum", "row_softmax") if callable(getattr(pretuned.kernels, name))))
"""


def test_the_bundled_kernels_need_nothing_of_the_builder(own_wheel, bare_python, run, tmp_path):
    """The environment has no dependency of pretuned's installed at all."""
    assert run(bare_python(own_wheel), "-I", "-c", IMPORT, cwd=tmp_path) == "axpby reduce_sum row_softmax\n"


def test_the_wheel_holds_library_templates_and_kernels_once(own_wheel, contents):
    files = contents(own_wheel)
    assert {
        "pretuned/py.typed",
        "pretuned/templates/axpby.toml",
        "pretuned/templates/reference.py",
        "pretuned/kernels/__init__.py",
        "pretuned/frontends/hatch_hook.py",
    } <= files.keys()
    assert not [name for name in files if not name.startswith("pretuned/")]
    assert [name for name in files if re.search(r"sm_90.*\.cubin$", name)]


@pytest.mark.slow
def test_a_wheel_from_the_sdist_is_the_same(own_wheel, hatchling, developers_cache, contents, tmp_path):
    sdist = hatchling(ROOT, "sdist", tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # since Python 3.11.4
        archive.extractall(tmp_path)
    (folder,) = tmp_path.glob("pretuned-*")
    wheel = hatchling(folder, "wheel", tmp_path / "wheel", **developers_cache)
    assert contents(wheel) == contents(own_wheel)
