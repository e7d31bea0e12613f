"""Linear algebra in one thread while a proposal is made, and as before afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from pretuned.tune import threads


def counts():
    return [get() for get, _ in threads._controls()]


@pytest.mark.skipif(
    "openblas" not in str(np.show_config(mode="dicts")["Build Dependencies"]["blas"]), reason="NumPy has another BLAS"
)
def test_openblas_has_one_thread_inside_and_what_it_had_outside():
    before = counts()
    assert before
    with threads.one_thread():
        assert counts() == [1] * len(before)
    assert counts() == before


def test_without_openblas_nothing_happens(monkeypatch, tmp_path):
    threads._controls.cache_clear()
    monkeypatch.setattr(threads, "_MAPS", tmp_path / "absent")
    with threads.one_thread():
        assert counts() == []
    threads._controls.cache_clear()
