"""One launch of a kernel as a spec has it."""

from __future__ import annotations

from typing import Literal

from pydantic import StrictBool

from pretuned.spec.expressions import RESIDENT_BLOCKS, Expression
from pretuned.spec.parts import Model
from pretuned.spec.values import Expr, LaunchExtent, Name


class LaunchSpec(Model):
    """One kernel launch: the extern "C" entry point, grid and block of 1 to 3 entries, dynamic shared bytes.

    `cluster` has the blocks of a cluster, of which the grid is a multiple; `cooperative` asks for all blocks on the
    device at once; with `overlap` it may begin before what runs ahead of it on the stream has ended.
    """

    function: Name
    grid: LaunchExtent
    block: LaunchExtent
    shared: Expr = Expression("0")
    arguments: tuple[Name, ...] | None = None
    cluster: LaunchExtent | None = None
    cooperative: StrictBool = False
    overlap: Literal["pdl"] | None = None

    @property
    def reads_residency(self) -> bool:
        """Whether its grid depends on how many blocks of it a device holds at once."""
        return any(RESIDENT_BLOCKS in expression.names for expression in self.grid)
