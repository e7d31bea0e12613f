"""The one table of CUDA majors, against what pyproject.toml offers to install."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from pretuned.compile.nvrtc import INSTALL
from pretuned.runtime.cuda_majors import CUDA_MAJORS, CUPY_WHEELS

PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PYPROJECT["project"]["optional-dependencies"]


def test_there_is_an_extra_for_every_major_and_no_other():
    offered = {int(match[1]) for name in EXTRAS if (match := re.fullmatch(r"cuda(\d+)", name))}
    assert offered == {major.number for major in CUDA_MAJORS}


def test_an_extra_installs_the_cupy_and_the_toolkit_of_its_major():
    for major in CUDA_MAJORS:
        found = {requirement.name: requirement for requirement in map(Requirement, EXTRAS[f"cuda{major.number}"])}
        assert major.cupy in found
        assert found["cuda-toolkit"].specifier.contains(f"{major.number}.0.2")
        assert not found["cuda-toolkit"].specifier.contains(f"{major.number + 1}.0.0")


def test_the_newest_comes_first_and_messages_name_them_all():
    assert [major.number for major in CUDA_MAJORS] == sorted((m.number for m in CUDA_MAJORS), reverse=True)
    assert CUPY_WHEELS == "cupy-cuda13x (or cupy-cuda12x)"
    assert INSTALL == "install pretuned[cuda13], or pretuned[cuda12] for a driver older than 580"
