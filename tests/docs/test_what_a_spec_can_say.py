"""Each row of the page names a form and where it runs: the form stands there, and the place is there."""

import re

import pytest

from documents import PAGES, ROOT

PAGE = "docs/guide/what-a-spec-can-say.md"
GALLERY = ROOT / "examples" / "gallery" / "kernels"
ROWS = re.findall(r"^\| (?!a kernel needs|---)(.+) \| (.+) \| (.+) \|$", PAGES[PAGE].read_text(), re.MULTILINE)


def spans(text):
    return re.findall(r"`([^`]+)`", text)


def files(place):
    """What a place of the last column names: both files of a gallery's kernel, or a file of the repository."""
    if "/" in place:
        return [ROOT / place]
    return [GALLERY / f"{place}.toml", GALLERY / f"{place}.cu.jinja"]


def test_the_page_has_rows():
    assert len(ROWS) > 30


@pytest.mark.parametrize(("need", "form", "places"), ROWS, ids=[row[0] for row in ROWS])
def test_a_form_stands_where_the_row_says(need, form, places):
    texts = [" ".join(file.read_text().split()) for place in spans(places) for file in files(place)]
    assert texts
    for span in spans(form):
        assert any(" ".join(span.split()) in text for text in texts), span
