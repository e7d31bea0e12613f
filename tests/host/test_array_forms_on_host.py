"""What specs say of arrays beside dtype and shape, executed in every mode of the host device."""

from __future__ import annotations

from pathlib import Path

import pytest

from pretuned.compile.host import compiler
from pretuned.spec.loader import load
from pretuned.tune.execute import execute
from pretuned.tune.modes import PLAIN, SANITIZERS

KERNELS = Path(__file__).parents[1] / "data" / "arrays"
pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")
PLANTED = {
    "accumulated": ("forget", {1}),
    "add_rows": ("wrong", {1}),
    "add_scaled": ("late", {1}),
    "apart": ("wrong", {"assumes", "fills", "reads", "swaps"}),
    "double_pairs": ("assumed", {16}),
    "planes": ("wrong", {1}),
    "shift": ("careless", {1}),
}


def findings(names, modes):
    """Return the configurations of kernels that are found wrong, by kernel, as their parameters have it."""
    specs = {name: load(KERNELS / f"{name}.toml") for name in names}
    reports = execute(specs, modes, cache_folder=None)
    return {r.kernel: {dict(f.configuration.values)[PLANTED[r.kernel][0]] for f in r.findings} for r in reports}


def test_races_are_looked_for_in_every_layout():
    """The library of a kernel is loaded once, also where it is called in several layouts."""
    races = [mode for mode in SANITIZERS if mode.name == "races"]
    assert findings(["double_pairs"], races) == {"double_pairs": {16}}


@pytest.mark.slow
@pytest.mark.parametrize("mode", [PLAIN, SANITIZERS[0]], ids=lambda mode: mode.name)
def test_what_is_planted_is_found_and_nothing_else(mode):
    names = PLANTED if mode is PLAIN else ["add_scaled", "double_pairs"]
    wrong = {name: PLANTED[name][1] for name in names}
    assert findings(names, [mode]) == wrong
