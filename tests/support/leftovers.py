"""The processes that a test has started, and theirs, as long as they live: whoever their parents are. Linux alone."""

from __future__ import annotations

import contextlib
import uuid
from pathlib import Path

import pytest

NAME = "STARTED_BY_TEST"


@contextlib.contextmanager
def marked():
    """Mark what is started meanwhile, and yield what returns the numbers of those of it that live."""
    mark = f"{NAME}={uuid.uuid4()}".encode()

    def living() -> list[int]:
        found = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                if folder.name.isdigit() and mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(NAME, mark.decode().partition("=")[2])
        yield living
