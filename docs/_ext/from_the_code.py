"""A Sphinx extension: `<!-- generated: NAME -->` in a page stands for a part of `reference.PARTS`.

What stands between that and `<!-- end -->` is that part as it was last, for those who read the pages as they are:
`python docs/_ext/from_the_code.py` writes it anew. Parts that Python's version has a say in have no such end: they
are in the site alone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import reference

if TYPE_CHECKING:
    from sphinx.application import Sphinx  # which the tests do without

PAGES = Path(__file__).parents[1]
_PLACE = re.compile(r"<!-- generated: ([\w-]+) -->(?P<kept>\n.*?<!-- end -->)?", re.DOTALL)


def expand(text: str) -> str:
    """Return a page with the generated parts in their places; raises KeyError for a part that does not exist."""
    return _PLACE.sub(lambda match: reference.PARTS[match[1]](), text)


def renewed(text: str) -> str:
    """Return a page as it is written, what it keeps of generated parts as the code has it now."""

    def kept(match: re.Match[str]) -> str:
        head = f"<!-- generated: {match[1]} -->"
        return f"{head}\n\n{reference.PARTS[match[1]]().strip()}\n\n<!-- end -->" if match["kept"] else match[0]

    return _PLACE.sub(kept, text)


def _on_source_read(app: Sphinx, _docname: str, source: list[str]) -> None:
    expanded = expand(source[0])
    if expanded != source[0]:
        source[0] = expanded
        app.env.note_reread()  # what the code says may change without the page


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", _on_source_read)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    for page in sorted(PAGES.rglob("*.md")):
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")
