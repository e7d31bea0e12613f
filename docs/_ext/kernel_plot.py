"""A Sphinx extension: the directive `kernel-plot`, which stands for what was measured of a bundled kernel.

    ```{kernel-plot} row_softmax
    :only: float32; float16
    ```

`only` names specialisations, as the plot's captions do; without it the first two that were measured are drawn. Where
nothing was measured yet the page says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

import plots

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class KernelPlot(SphinxDirective):
    """Draws a kernel's plots, one for each device that it was measured on."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"only": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Return the figures as HTML."""
        (kernel,) = self.arguments
        only = [name.strip() for name in self.options.get("only", "").split(";") if name.strip()]
        self.env.note_reread()  # results may come without a change of the page
        drawn = (plots.html(kernel, run, only) for run in plots.runs().values())
        found: list[nodes.Node] = [nodes.raw("", text, format="html") for text in drawn if text]
        return found or [nodes.paragraph(text="Not measured yet.")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("kernel-plot", KernelPlot)
    return {"parallel_read_safe": True}
