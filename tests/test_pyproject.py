"""What pyproject.toml has to say twice agrees."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
TABLE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ONLY_FOR_COMMANDS = {"rich", "tomlkit"}  # what the command line prints and edits with, which no build does


def by_name(requirements):
    return {Requirement(text).name: Requirement(text) for text in requirements}


def test_a_build_of_pretuned_asks_for_what_pretuned_asks_for():
    """hatch_build.py bakes the bundled kernels with the library itself, which is not installed then."""
    building = by_name(TABLE["build-system"]["requires"])
    assert (
        building.pop("hatchling").specifier
        == by_name(TABLE["project"]["optional-dependencies"]["test"])["hatchling"].specifier
    )
    installed = by_name(TABLE["project"]["dependencies"])
    assert building == {name: asked for name, asked in installed.items() if name not in ONLY_FOR_COMMANDS}


@pytest.mark.skipif(not WORKFLOW.exists(), reason="an sdist has no workflows")
def test_pythons_are_those_that_ci_runs():
    """The oldest runs all checks, the others the tests."""
    listed = [text.rpartition(" :: ")[2] for text in TABLE["project"]["classifiers"] if "Python :: 3." in text]
    workflow = WORKFLOW.read_text(encoding="utf-8")
    assert TABLE["project"]["requires-python"] == f">={listed[0]}"
    assert f'python-version: "{listed[0]}"' in workflow
    assert "python: [" + ", ".join(f'"{version}"' for version in listed[1:]) + "]" in workflow
