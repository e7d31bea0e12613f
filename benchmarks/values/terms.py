"""How large the terms are whose difference a result is, for kernels whose results may be far smaller.

A gradient of a norm is what is left of a row's gradients without their share along the row. In a row of one element
they cancel but for eps: float32 cannot tell the rest from 0 where x is large, and no order of sums helps. The gradients
of weight and bias are sums over rows, of either sign: what is left of one may be far smaller than such sums are.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pretuned.measure.data import HostArray, Stored, decoded
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Problem, dtype_of

NORMS = {"rms_norm_backward", "layer_norm_backward"}


def terms(
    spec: KernelSpec, problem: Problem, stored: Mapping[str, Stored], wanted: Mapping[str, HostArray]
) -> float | dict[str, HostArray]:
    """Return the size of the terms of each result, by output; 0 where results are as large as their terms.

    That of a sum is the root of the sum of its terms' squares: as large as it is where their signs are random.
    """
    if spec.name not in NORMS:
        return 0.0
    types = {one.name: dtype_of(spec, one.dtype, problem.specialisation) for one in spec.inputs}
    x, grad_out, weight = (decoded(stored[name], types[name]) for name in ("x", "grad_out", "weight"))
    (eps,) = (float(one.passed) for one in spec.arguments if one.name == "eps")
    centred = x - _mean(x) if spec.name == "layer_norm_backward" else x
    factor = 1 / np.sqrt(_mean(centred**2) + eps)
    grads = grad_out * weight
    along = (1 + np.abs(centred * factor)) * np.sqrt(_mean(grads**2))
    found = {
        "grad_x": (np.abs(grads) + along) * factor,
        "grad_weight": np.sqrt(((grad_out * centred * factor) ** 2).sum(axis=0)),
        "grad_bias": np.sqrt((grad_out**2).sum(axis=0)),
    }
    return {name: found[name] for name in wanted}


def _mean(values: HostArray) -> HostArray:
    mean: HostArray = values.sum(axis=-1, keepdims=True) / max(1, values.shape[-1])
    return mean
