"""Reports' pages as programs read them: tables by rows of cells, and all that a page refers to."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br", "link", "img"}
CELLS = {"td", "th"}
ENDS = {"td": CELLS, "th": CELLS, "tr": {*CELLS, "tr"}}  # what ends where one of these begins
ENDS_IN = {"thead": {*CELLS, "tr"}, "tbody": {*CELLS, "tr"}}  # and where one of these ends


class Page(HTMLParser):
    """What a page has.

    `rows` are the rows of tables' bodies: the table's attributes, the row's attributes, and its cells, each the
    attributes and the text; `columns` are the names of each row's columns, None where a column has none. `tags` are all
    elements with their attributes, `unclosed` those that are open at its end, and `headings` the levels in order.
    """

    def __init__(self, text):
        super().__init__()
        self.rows, self.columns, self.tags, self.unclosed, self.headings = [], [], [], [], []
        self._table, self._names = {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self._close(ENDS.get(tag, ()))
        self.tags.append((tag, found))
        if tag not in VOID:
            self.unclosed.append(tag)
        if tag in {"h1", "h2", "h3", "h4"}:
            self.headings.append(int(tag[1]))
        if tag == "table":
            self._table, self._names = found, []
        elif found.get("scope") == "col":
            self._names.append(found.get("data-name"))
        elif tag == "tr" and "thead" not in self.unclosed:
            self.rows.append((self._table, found, []))
            self.columns.append(self._names)
        elif tag in CELLS:
            self.rows[-1][2].append([found, ""])

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        self._close(ENDS_IN.get(tag, ()))
        assert self.unclosed.pop() == tag

    def handle_data(self, data):
        if "tbody" in self.unclosed and CELLS & {*self.unclosed}:
            self.rows[-1][2][-1][1] += data

    def _close(self, tags):
        """End the innermost elements of these kinds, whose ends are implied."""
        while self.unclosed and self.unclosed[-1] in tags:
            self.unclosed.pop()

    def of_table(self, **attributes):
        """The rows of tables with these attributes: the row's attributes, and by the columns' names what cells say.

        That is a cell's value where its text has been rounded, and else its text.
        """
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return [
            (found, {name: own.get("data-value", text) for name, (own, text) in zip(names, cells, strict=True) if name})
            for (table, found, cells), names in zip(self.rows, self.columns, strict=True)
            if wanted.items() <= table.items()
        ]
