"""Tests that run on a GPU; elsewhere each is skipped with the reason."""

from __future__ import annotations

import importlib.util

import pytest

from pretuned.device import probe


def _missing() -> str:
    if not probe.gpus():
        return "no NVIDIA GPU here"
    return "" if importlib.util.find_spec("cupy") else "CuPy is not installed"


def pytest_collection_modifyitems(items):
    missing = _missing()
    for item in items:
        if item.get_closest_marker("gpu") and missing:
            item.add_marker(pytest.mark.skip(reason=missing))
