"""The inputs and the space of Hochgraf's study, and draws from both."""

from __future__ import annotations

import itertools
import random

SIZES = (256, 512, 1024, 4096)
INPUTS = tuple(itertools.product(SIZES, SIZES, SIZES))  # (m, n, k)
SPACE = {
    "bm": (32, 64, 128, 256),
    "bn": (32, 64, 128, 256),
    "bk": (32, 64, 128, 256),
    "num_stages": (3, 4, 5),
    "num_warps": (2, 4, 8),
}
SEED = 20  # of both draws


def drawn_inputs(count: int) -> list[tuple[int, int, int]]:
    """`count` of the inputs: the largest, then others as the seed draws them. Fewer are the first of more."""
    rest = [one for one in INPUTS if one != INPUTS[-1]]
    random.Random(SEED).shuffle(rest)
    return [INPUTS[-1], *rest][:count]


def drawn_configurations(count: int) -> list[dict[str, int]]:
    """`count` of the study's space as the seed draws them. Fewer are the first of more."""
    space = [dict(zip(SPACE, values, strict=True)) for values in itertools.product(*SPACE.values())]
    random.Random(SEED).shuffle(space)
    return space[:count]


def label(m: int, n: int, k: int) -> str:
    return f"m={m}, n={n}, k={k}"
