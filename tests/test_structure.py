"""How the package is built, by `tools/structure.py`: what must not come back once it is gone."""

from pathlib import Path

import pytest

from structure import IMPORTED, LAZY, TYPED, Package

LONGEST_FUNCTION = 60


@pytest.fixture(scope="module")
def package():
    return Package(Path(__file__).parents[1])


def test_a_class_or_alias_is_defined_in_one_module(package):
    assert package.defined_twice() == {}


@pytest.mark.parametrize("kind", [IMPORTED, TYPED, LAZY])
def test_no_modules_import_each_other_in_a_circle(package, kind):
    assert package.circles(kind) == []


def test_a_function_is_read_at_a_glance(package):
    assert [place for lines, place in package.functions() if lines > LONGEST_FUNCTION] == []


def test_a_module_docstring_is_a_plain_string(package):
    """What looks like a value to be filled in was left there by a text that is not an f-string."""
    assert package.unexpanded() == []


PACKAGE = {
    "__init__.py": "from . import a\n",
    "a.py": "from .b import B\nclass Twice: ...\nclass _Own: ...\n",
    "b.py": "import typing\nif typing.TYPE_CHECKING:\n    from pretuned import a\nclass B: ...\nTwice = int\n",
    "c/__init__.py": "def load():\n    from . import d\n    from .. import b\n",
    "c/d.py": '"""Of {nothing}."""\nfrom pretuned.c import load\nclass _Own: ...\n',
    "kernels/e.py": "class Twice: ...\n",
}


def test_what_is_counted(tmp_path):
    for name, text in PACKAGE.items():
        file = tmp_path / "generator" / "pretuned" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    package = Package(tmp_path)
    assert package.defined_twice() == {"Twice": ["a.py", "b.py"]}
    assert package.circles(IMPORTED) == []
    assert package.circles(TYPED) == [["pretuned.a", "pretuned.b"]]
    assert package.circles(LAZY) == [["pretuned.a", "pretuned.b"], ["pretuned.c", "pretuned.c.d"]]
    assert package.unexpanded() == ["c/d.py"]
