"""RMS norm of the quickstart, declared in Python: the same kernel, and so the same package and the same lock."""

from typing import Literal

import pretuned


def rows(name: str, role: Literal["in", "out"], *shape: str) -> pretuned.ArgumentKeys:
    """Return an array of the kernel's type, which is loaded `vec` elements at a time."""
    return {"name": name, "role": role, "dtype": "T", "shape": shape, "align": "vec * sizeof(T)"}


kernels = [
    pretuned.kernel(
        "rms_norm",
        summary="RMS norm of every row: out[i, :] = x[i, :] / sqrt(mean(x[i, :] ** 2) + eps) * weight.",
        arguments=[
            rows("out", "out", "rows", "cols"),
            rows("x", "in", "rows", "cols"),
            rows("weight", "in", "cols"),
            {"name": "eps", "dtype": "float32", "value": 1e-5},
            {"name": "cols", "dtype": "int32"},
        ],
        dims={"rows": {"sizes": [256, 4096]}, "cols": {"sizes": [1024, 4096, 8192]}},
        specialisations={"T": {"dtypes": ["float32", "float16"]}},
        space={"block": [64 << doubled for doubled in range(5)], "vec": [1, 2, 4, 8]},
        default={"block": 256, "vec": 1},
        launches=[{"function": "rms_norm", "grid": ["rows"], "block": ["block"]}],
        constraints={"where": ["vec * sizeof(T) <= 16", "cols % vec == 0"], "requires": ["cols >= 1"]},
        verify={"reference": "reference.py:rms_norm", "rtol": {"float32": 1e-5, "float16": 2e-3}},
    )
]
