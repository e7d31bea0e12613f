"""The host device: what it claims to be, and what it is."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Final

from pretuned.spec.space import DeviceFacts

NAME: Final = "host"  # as rows and the environment name it

# A small GPU of compute capability 9.0: few SMs, since grids that follow the device should stay small.
FACTS: Final = DeviceFacts(sm_count=8, compute_capability=90, shared_bytes=232_448, l2_bytes=32 << 20, one_by_one=True)


def processor() -> str:
    """Return the processor's name, as the operating system has it."""
    info = Path("/proc/cpuinfo")
    if info.is_file() and (
        match := re.search(r"^model name\s*:\s*(.+)$", info.read_text(encoding="utf-8"), re.MULTILINE)
    ):
        return match[1]
    return platform.processor() or platform.machine()


def memory_bytes() -> int:
    """Return the size of the main memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
