"""Caches that tests open are closed at their end: from Python 3.13 on an open database warns when it is collected."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from pretuned.record.cache import Cache


@pytest.fixture(autouse=True)
def closed_caches(monkeypatch):
    opened = []
    initialise = Cache.__init__

    def remember(self, folder, **given):
        initialise(self, folder, **given)
        opened.append(self)

    monkeypatch.setattr(Cache, "__init__", remember)
    yield
    for cache in opened:
        with contextlib.suppress(sqlite3.ProgrammingError):  # another thread's, which closed it itself
            cache.close()
