"""Lists of arrays, executed in the modes of the host device: each array lies by itself, and has its own extent."""

from __future__ import annotations

from pathlib import Path

import pytest

from pretuned.compile.host import compiler
from pretuned.spec.loader import load
from pretuned.tune.execute import execute
from pretuned.tune.modes import PLAIN, SANITIZERS

KERNELS = Path(__file__).parents[1] / "data" / "lists"
pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")


def findings(names, mode):
    specs = {name: load(KERNELS / f"{name}.toml") for name in names}
    return {report.kernel: report.findings for report in execute(specs, [mode], cache_folder=None)}


def test_arrays_of_different_extents_are_computed_and_what_takes_one_for_another_is_found():
    found = findings(["grouped"], PLAIN)["grouped"]
    wrong = {dict(one.configuration.values)["wrong"]: str(one) for one in found}
    assert wrong.keys() == {"even", "first", "beyond"}
    assert "c[" in wrong["first"]
    assert "elements are off" in wrong["first"]
    assert "c[0]: written" in wrong["beyond"]
    assert "past its end" in wrong["beyond"]


def test_lists_are_joined_to_one_array_and_changed_in_place():
    assert findings(["concatenate", "descend"], PLAIN) == {"concatenate": [], "descend": []}


@pytest.mark.slow
def test_a_sanitizer_names_the_array_of_a_list():
    found = findings(["grouped", "concatenate"], SANITIZERS[0])
    assert found["concatenate"] == []
    details = {dict(one.configuration.values)["wrong"]: one.detail for one in found["grouped"]}
    assert "past the end of 'a[0]': grouped.cu.jinja:" in details["beyond"]
    assert "past the end of 'a[1]': grouped.cu.jinja:" in details["even"]
