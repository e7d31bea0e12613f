"""What a reference is made of: what it reads, and nothing else of its file."""

from __future__ import annotations

import pytest

from pretuned.spec.reference_texts import functions_text

MODULE = '''"""References."""

import numpy as np
from math import pi as ratio, tau

LIMIT: float = 3.0
UNUSED = 4.0


def clipped(x):
    """Return x, at most LIMIT."""
    return np.minimum(x, LIMIT)


def scale(x, a, **_):
    """Return a * x."""
    # a comment
    return clipped(a * x)


def other(x):
    return x * ratio
'''


def made_of(source, *functions):
    return functions_text(source, functions or ("scale",))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x * ratio", "x * tau"),
        ("UNUSED = 4.0", "UNUSED = 5.0"),
        ('"""Return a * x."""', '"""Return the product."""'),
        ("    # a comment\n", "    # a comment\n\n"),
        ('"""References."""', '"""All references."""'),
        ("\n\ndef other", "\n\ndef another(x):\n    return 0\n\n\ndef other"),
    ],
)
def test_what_a_function_does_not_read_changes_nothing(old, new):
    assert old in MODULE
    assert made_of(MODULE.replace(old, new)) == made_of(MODULE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a * x)", "a + x)"),
        ("LIMIT: float = 3.0", "LIMIT: float = 2.0"),
        ("np.minimum", "np.maximum"),
        ("import numpy as np", "import cupy as np"),
        ("UNUSED = 4.0", "np.seterr(all='raise')"),
        ("UNUSED = 4.0", "if LIMIT:\n    clipped = abs"),
        ("def clipped(x)", "@np.vectorize\ndef clipped(x)"),
        ("UNUSED = 4.0", "from os import *"),
        ("def scale(x, a, **_)", "def scale(x, a=2, **_)"),
    ],
)
def test_what_it_reads_changes_it(old, new):
    assert old in MODULE
    assert made_of(MODULE.replace(old, new, 1)) != made_of(MODULE)


def test_of_several_functions_all_counts_and_what_is_no_python_counts_whole():
    assert made_of(MODULE, "scale", "other") != made_of(MODULE)
    assert made_of("def f(:\n", "f") == "def f(:\n"
    assert made_of("def f(:\n\n", "f") != made_of("def f(:\n", "f")
