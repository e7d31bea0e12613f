"""An error of one element, planted in a copy of the bundled templates: tests on a GPU and on the host find it."""

from __future__ import annotations

import shutil
from pathlib import Path

from pretuned.spec.loader import load_folder

TEMPLATES = Path(__file__).parents[2] / "templates"
OFF_BY_ONE = {  # by kernel, of each file that its implementations have it from: what it has, and what is wrong
    "axpby": {"elementwise.cuh.jinja": ("i * block < left", "i * block < left - 1")},
    "reduce_sum": {"reduce_rows.cuh.jinja": ("if (left > 0)", "if (left > 1)")},
    "row_softmax": {
        "row.cuh.jinja": ("i * apart < end", "i * apart < end - 1"),
        "short_row.cuh.jinja": ("i * 32 * vec < left", "i * 32 * vec < left - 1"),
    },
}


def broken(folder, name):
    """Copy the templates, with an off-by-one planted in those of kernel `name`; return its spec, of float32 alone."""
    shutil.copytree(TEMPLATES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file, (old, new) in OFF_BY_ONE[name].items():
        text = (folder / file).read_text()
        assert old in text, f"{file} no longer has {old!r}"
        (folder / file).write_text(text.replace(old, new))
    spec = load_folder(folder)[name]
    types = spec.specialisations["T"].model_copy(update={"dtypes": ("float32",)})
    return spec.model_copy(update={"specialisations": spec.specialisations | {"T": types}})
