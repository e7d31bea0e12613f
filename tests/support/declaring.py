"""The kernel of `specs.SCALE`, declared in Python, and modules that declare kernels, executed."""

from __future__ import annotations

from pathlib import Path

from pretuned.errors import SpecError
from pretuned.spec.declarations import load_all
from specs import write

SCALE_MODULE = """\
import pretuned


def array(name, role):
    return {"name": name, "role": role, "dtype": "T", "shape": ["n"], "align": "vec * sizeof(T)"}


scale = pretuned.kernel(
    name="scale",
    summary="y = a * x.",
    arguments=[
        array("y", "out"),
        array("x", "in"),
        {"name": "a", "dtype": "float32", "value": 2.0},
        {"name": "n", "dtype": "int32"},
    ],
    dims={"n": {"sizes": [1024, 65536]}},
    specialisations={"T": {"dtypes": ["float32", "float16"]}},
    space={"block": [128, 256], "vec": [1 << i for i in range(3)]},
    default={"block": 256, "vec": 1},
    launches=[{"function": "scale", "grid": ["ceil_div(n, block * vec)"], "block": ["block"]}],
    constraints={"where": ["vec * sizeof(T) <= 16", "n % vec == 0"]},
    verify={"reference": "reference.py:scale", "rtol": {"float32": 1e-5, "float16": 2e-3}},
)
kernels = [scale]
"""


def write_module(folder: Path, text: str = SCALE_MODULE) -> Path:
    """Write a module with the files that SCALE needs, and without scale.toml; return the module's path."""
    write(folder).unlink()
    module = folder / "declared.py"
    module.write_text(text, encoding="utf-8")
    return module


def faults_of(folder: Path, text: str) -> list[str]:
    """Return the lines about each fault of a module, an empty list where it loads."""
    try:
        load_all(folder, write_module(folder, text))
    except SpecError as error:
        return [str(fault) for fault in error.faults]
    return []
