"""Projects of a test module's kernels, which the host device runs."""

from __future__ import annotations

import shutil

import pytest

TABLE = '[tool.hatch.build.hooks.pretuned]\nmodule = "src/mypkg/tuned"\ncubins = false\n'


@pytest.fixture
def project(request, tmp_path, monkeypatch):
    """A project of the module's KERNELS in `tmp_path`, which is the working folder, with a cache of its own."""
    (tmp_path / "pyproject.toml").write_text(TABLE)
    shutil.copytree(request.module.KERNELS, tmp_path / "kernels")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRETUNED_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path
