"""Reports' pages as programs read them: tables by rows of cells, and all that a page refers to."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br", "link", "img"}


class Page(HTMLParser):
    """What a page has.

    `rows` are the rows of tables: the table's attributes, the row's attributes, and its cells, each the attributes and
    the text. `tags` are all elements with their attributes, `unclosed` those that are open at its end, and `headings`
    the levels in order.
    """

    def __init__(self, text):
        super().__init__()
        self.rows, self.tags, self.unclosed, self.headings = [], [], [], []
        self._table = {}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag not in VOID:
            self.unclosed.append(tag)
        if tag in {"h1", "h2", "h3", "h4"}:
            self.headings.append(int(tag[1]))
        if tag == "table":
            self._table = found
        elif tag == "tr":
            self.rows.append((self._table, found, []))
        elif tag in {"td", "th"}:
            self.rows[-1][2].append([found, ""])

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.unclosed.pop() == tag

    def handle_data(self, data):
        if "td" in self.unclosed or "th" in self.unclosed:
            self.rows[-1][2][-1][1] += data

    def of_table(self, **attributes):
        """The rows of the bodies of tables with these attributes, as (attributes, values by name)."""
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return [
            (found, {cell["data-name"]: cell for cell, _ in cells if "data-name" in cell})
            for table, found, cells in self.rows
            if wanted.items() <= table.items() and not all(cell.get("scope") == "col" for cell, _ in cells)
        ]
