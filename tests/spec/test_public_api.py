"""What `import pretuned` gives, and what it costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pretuned


def test_importing_pretuned_imports_none_of_the_builders_dependencies():
    program = (
        "import sys, pretuned; "
        "heavy = {'pydantic', 'jinja2', 'numpy', 'cupy', 'rich', 'platformdirs', 'importlib.metadata', 'dataclasses'}; "
        "print(sorted(heavy & sys.modules.keys()))"
    )
    here = {"PYTHONPATH": str(Path(pretuned.__file__).parents[1])}  # -S leaves out what .pth files import
    result = subprocess.run([sys.executable, "-S", "-c", program], check=True, capture_output=True, text=True, env=here)

    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("name", pretuned.__all__)
def test_every_public_name_is_there(name):
    assert getattr(pretuned, name) is getattr(pretuned, name)
    assert name in dir(pretuned)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'pretuned' has no attribute 'kernel_spec'"):
        _ = pretuned.kernel_spec


def test_the_errors_of_specs_are_errors_of_pretuned():
    assert issubclass(pretuned.SpecError, pretuned.Error)
    assert pretuned.SpecError([]).exit_code == 2
