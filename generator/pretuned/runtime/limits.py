"""Limits that all CUDA devices share, and the rule by which registers are given out."""

from __future__ import annotations

GRID_LIMITS = (2**31 - 1, 65535, 65535)  # blocks along x, y, z
BLOCK_LIMITS = (1024, 1024, 64)  # threads along x, y, z
MAX_THREADS = 1024  # of a block
REGISTERS = 65536  # of a block
WARP = 32
MAX_STATIC_SHARED_BYTES = 48 * 1024  # more shared memory per block has to be asked for
PORTABLE_CLUSTER = 8  # blocks of a cluster that every GPU with clusters takes
LARGEST_CLUSTER = 16  # that a GPU takes where its function allows more
CLUSTERS_FROM = 90  # the compute capability that brought clusters, and programmatic dependent launches
_REGISTER_UNIT = 8  # registers are given out by 8 per thread, to whole warps
_PARTS = 4  # of a multiprocessor, each with its share of the registers
RESERVED_BYTES = 1024  # of shared memory that the driver takes of each block, from compute capability 8.0 on
_AMPERE = 80
# What a multiprocessor holds, by compute capability; one that is not listed is like the one before it.
THREADS_OF_SM = {75: 1024, 80: 2048, 86: 1536, 87: 1536, 89: 1536, 90: 2048, 100: 2048, 103: 2048, 110: 1536}
BLOCKS_OF_SM = {75: 16, 80: 32, 86: 16, 87: 16, 89: 24, 90: 32, 100: 32, 103: 32, 110: 24}


def registers_taken(registers: int, threads: int) -> int:
    """Return the registers that a block takes, by the registers per thread of its entry point and its threads."""
    return -(-registers // _REGISTER_UNIT) * _REGISTER_UNIT * (-(-threads // WARP) * WARP)


def blocks_of_sm(
    compute_capability: int, shared_limit_bytes: int, *, threads: int, registers: int, shared_bytes: int
) -> int:
    """Return how many blocks a multiprocessor holds at once, by what a block takes.

    `shared_limit_bytes` is the most that a block of the device may have, `registers` those of a thread (0 where they
    are not known), `shared_bytes` static and dynamic. As cuda_occupancy.h computes it, but for barriers by name: the
    driver knows these, and has the last word.
    """

    def of(table: dict[int, int]) -> int:
        return table[max((known for known in table if known <= compute_capability), default=min(table))]

    warps = max(1, -(-threads // WARP))
    limits = [of(BLOCKS_OF_SM), of(THREADS_OF_SM) // WARP // warps]
    if registers:
        taken = -(-registers // _REGISTER_UNIT) * _REGISTER_UNIT * WARP
        limits.append(REGISTERS // _PARTS // taken * _PARTS // warps)
    reserved, unit = (RESERVED_BYTES, 128) if compute_capability >= _AMPERE else (0, 256)
    if each := -(-(shared_bytes + reserved) // unit) * unit:
        limits.append((shared_limit_bytes + reserved) // each)
    return max(0, min(limits))
