"""Limits that all CUDA devices share, and the rule by which registers are given out."""

from __future__ import annotations

GRID_LIMITS = (2**31 - 1, 65535, 65535)  # blocks along x, y, z
BLOCK_LIMITS = (1024, 1024, 64)  # threads along x, y, z
MAX_THREADS = 1024  # of a block
REGISTERS = 65536  # of a block
WARP = 32
MAX_STATIC_SHARED_BYTES = 48 * 1024  # more shared memory per block has to be asked for
_REGISTER_UNIT = 8  # registers are given out by 8 per thread, to whole warps


def registers_taken(registers: int, threads: int) -> int:
    """Return the registers that a block takes, by the registers per thread of its entry point and its threads."""
    return -(-registers // _REGISTER_UNIT) * _REGISTER_UNIT * (-(-threads // WARP) * WARP)
