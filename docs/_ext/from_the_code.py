"""A Sphinx extension: `<!-- generated: NAME -->` in a page stands for a part of `reference.PARTS`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import reference

if TYPE_CHECKING:
    from sphinx.application import Sphinx  # which the tests do without

_PLACE = re.compile(r"<!-- generated: ([\w-]+) -->")


def expand(text: str) -> str:
    """Return a page with the generated parts in their places; raises KeyError for a part that does not exist."""
    return _PLACE.sub(lambda match: reference.PARTS[match[1]](), text)


def _on_source_read(app: Sphinx, _docname: str, source: list[str]) -> None:
    expanded = expand(source[0])
    if expanded != source[0]:
        source[0] = expanded
        app.env.note_reread()  # what the code says may change without the page


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", _on_source_read)
    return {"parallel_read_safe": True}
