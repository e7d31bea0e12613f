"""A call's arrays as tensors of PyTorch, with what tuning fills them with, at any address."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from contest import Case, Contest, values_of
from pretuned.measure import data
from pretuned.measure.launch import arrays
from pretuned.spec.model import KernelSpec
from pretuned.spec.scalars import passed_values, tuning_values
from pretuned.spec.tolerance import tolerances

DEVICE = "cuda"
BYTES_BEHIND = 256  # of which every array begins at a multiple, plus its shift


class Sets:
    """Makes as many sets of a case's arrays as are asked for, all with the same values."""

    def __init__(self, spec: KernelSpec, case: Case, seed: int, contest: Contest) -> None:
        self._buffers, self._case, self._saved = arrays(spec, case.problem), case, contest.saved
        self._values = {
            name: torch.from_numpy(np.ascontiguousarray(one.block).view(np.uint8).ravel()).to(DEVICE)
            for name, one in data.inputs(spec, case.problem, seed).items()
        }
        self.outputs = tuple(one.name for one in self._buffers if one.role != "in")
        self.written = tuple(one.name for one in self._buffers if one.role == "out")
        self.changing = self.outputs != self.written
        self.arrays = tuple(one.name for one in self._buffers)
        passed = passed_values(spec, case.problem)
        self.scalars = {name: passed[name] for name in tuning_values(spec)}
        self.known = self.scalars | dict(contest.values) | values_of(case.problem)

    def one(self) -> dict[str, Any]:
        """Return arrays by name, then scalars, dims and specialisations, then what peers have kept."""
        given = {one.name: self._tensor(one) for one in self._buffers} | self.known
        return given | self._saved(**given)

    def _tensor(self, buffer: Any) -> torch.Tensor:
        dtype = getattr(torch, buffer.dtype)
        shift, size = self._case.shift * dtype.itemsize, buffer.nbytes
        whole = torch.zeros(size + shift + BYTES_BEHIND, dtype=torch.uint8, device=DEVICE)
        flat = whole[shift : shift + size]
        block = self._values.get(buffer.name)
        if block is not None and size:
            flat.copy_(block.repeat(math.ceil(size / block.numel()))[:size])
        return flat.view(dtype).view(buffer.shape)


def errors_of(spec: KernelSpec, case: Case, exact: Any, found: Any) -> float:
    """Return the largest error of any output as a share of its tolerance, against results in float64.

    It is judged as the tuner judges: |found - exact| <= atol + rtol * |exact|, where atol is rtol times the root mean
    square of what is exact unless the spec gives another.
    """
    worst = 0.0
    for output in spec.outputs:
        if output.name not in exact or output.name not in found:
            continue
        rtol, atol = tolerances(spec, output, case.problem.specialisation)
        wanted, of_it = (in_doubles(one[output.name]) for one in (exact, found))
        if not wanted.numel():
            continue
        if atol is None:
            atol = rtol * float(wanted.square().mean().sqrt())
        off = (of_it - wanted).abs()
        off = torch.where(of_it == wanted, torch.zeros_like(off), off)  # infinities
        share = off / (atol + rtol * wanted.abs() + 1e-300)
        share = torch.where(torch.isnan(share), torch.full_like(share, math.inf), share)
        share = torch.where(torch.isnan(of_it) & torch.isnan(wanted), torch.zeros_like(share), share)
        worst = max(worst, float(share.max()))
    return worst


def in_doubles(values: torch.Tensor) -> torch.Tensor:
    """Return the values as float64, those of complex numbers by their parts."""
    return (torch.view_as_real(values) if values.is_complex() else values).reshape(-1).double()
