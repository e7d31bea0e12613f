"""How the site is built: `sphinx-build -W --keep-going docs OUT`. It needs neither a GPU nor the network."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
sys.path.append(str(Path(__file__).parents[1] / "benchmarks" / "kernels"))  # what is measured there is drawn here
os.environ["COLUMNS"] = "100"  # the commands' help is part of a page
os.environ["NO_COLOR"] = "1"

project = "pretuned"
author = "the pretuned authors"
copyright = "the pretuned authors, Apache-2.0"  # noqa: A001 - Sphinx's name for it

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinxcontrib.programoutput",
    "from_the_code",
    "kernel_plot",
]
exclude_patterns = ["_build", "examples"]
source_suffix = {".md": "markdown"}

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_typehints = "none"
autodoc_member_order = "bysource"
highlight_language = "none"
smartquotes = False  # options begin with two hyphens

html_theme = "furo"
html_title = "pretuned"
html_static_path: list[str] = []
html_copy_source = False
