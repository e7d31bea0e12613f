"""The page of a report in a real browser: at three widths, light and dark, by keyboard and in print."""

from __future__ import annotations

import base64
import json

import pytest

from builders import H100
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.report.page.html import page
from pretuned.report.project import GatheredProject, report_of
from project_home import Home

pytestmark = pytest.mark.browser

WIDTHS = (360, 768, 1440)  # a phone, a tablet, a desktop
SMALLEST_TEXT = 8.0  # CSS pixels of the letters in a plot
READABLE, VISIBLE = 4.5, 3.0  # contrast of text, and of what plots draw, as WCAG's level AA asks

OVERFLOWING = """
return [...document.querySelectorAll("main *")].filter(one =>
  one.getBoundingClientRect().right > innerWidth + 0.5 && !one.closest(".scroll")
).map(one => one.outerHTML.slice(0, 80));
"""
CONTRASTS = """
const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
const light = colour => {
  const [r, g, b] = numbers(colour).map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = one => {
  for (; one; one = one.parentElement) {
    const colour = getComputedStyle(one).backgroundColor;
    if (numbers(colour)[3] !== 0) return colour;
  }
};
const contrast = (one, other) => {
  const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
const found = {};
for (const one of document.querySelectorAll("body *:not(script)")) {
  const style = getComputedStyle(one);
  const below = ground(one);
  if ([...one.childNodes].some(node => node.nodeType === 3 && node.data.trim()) && one.localName !== "title" &&
      one.localName !== "desc") {
    const colour = one.ownerSVGElement ? style.fill : style.color;
    found[`text ${colour} on ${below}`] = ["text", contrast(colour, below)];
  }
  if (one.matches("figure svg > path:not([stroke-opacity]), .series path, .series circle") && style.stroke !== "none")
    found[`mark ${style.stroke} on ${below}`] = ["mark", contrast(style.stroke, below)];
}
return found;
"""
FOCUSED = """
const one = document.activeElement;
if (one === document.body) return null;
const style = getComputedStyle(one);
return [one.localName, one.textContent.trim(), style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2];
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_off_or_complained_about(browser, bundled, width, scheme):
    browser.open(bundled, width, scheme)
    assert browser.do("return [innerWidth, document.documentElement.scrollWidth]") == [width, width]
    browser.do("for (const one of document.querySelectorAll('details')) one.open = true")
    assert browser.do("return document.documentElement.scrollWidth") == width
    assert browser.do(OVERFLOWING) == []
    letters = browser.do("return [...document.querySelectorAll('svg text')].map(one => 11 * one.getScreenCTM().a)")
    assert min(letters) >= SMALLEST_TEXT
    assert browser.do("return performance.getEntriesByType('resource').length") == 0
    assert browser.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_marks_stand_out(browser, bundled, scheme):
    browser.open(bundled, 1440, scheme)
    found = browser.do(CONTRASTS)
    kinds = {kind for kind, _ in found.values()}
    assert kinds == {"text", "mark"}
    wanted = {"text": READABLE, "mark": VISIBLE}
    assert {name: contrast for name, (kind, contrast) in found.items() if contrast < wanted[kind]} == {}


def test_all_that_is_folded_opens_by_keyboard(browser, bundled):
    browser.open(bundled, 768)
    folded = browser.do(
        "return [...document.querySelectorAll('details:not([open]) > summary')].map(one => one.textContent.trim())"
    )
    assert len(folded) > 20
    opened = []
    for _ in range(2000):
        browser.press("Tab", 9)
        focused = browser.do(FOCUSED)
        if focused is None:
            break
        name, text, outlined = focused
        assert outlined, f"{name} {text[:40]} has no visible focus"
        if name == "summary" and text in folded:
            browser.press("Enter", 13, "\r")
            assert browser.do("return document.activeElement.parentElement.open"), text
            browser.press("Enter", 13, "\r")  # and closes, or its heads would all be next
            opened.append(text)
    assert opened == folded


def test_a_table_is_sorted_by_its_heads(browser, bundled):
    browser.open(bundled, 1440)
    values = """
        const table = document.querySelector("#losses");
        return [[...table.tBodies[0].rows].map(row => row.cells[4].textContent),
                table.tHead.rows[0].cells[4].getAttribute("aria-sort")]"""
    before, _ = browser.do(values)
    browser.do("document.querySelector('#losses').tHead.rows[0].cells[4].querySelector('button').focus()")
    browser.press("Enter", 13, "\r")
    after, sort = browser.do(values)
    numbers = [float(value.rstrip("%")) for value in after if value != "-"]
    assert (sort, sorted(after), numbers) == ("ascending", sorted(before), sorted(numbers))
    browser.press("Enter", 13, "\r")
    after, sort = browser.do(values)
    numbers = [float(value.rstrip("%")) for value in after if value != "-"]
    assert (sort, numbers) == ("descending", sorted(numbers, reverse=True))


def test_in_print_nothing_is_folded(browser, bundled):
    browser.open(bundled, 1440)
    closed = "document.querySelectorAll('details:not([open])').length"
    before = browser.do(f"return {closed}")
    browser.do(f"addEventListener('beforeprint', () => {{ window.atPrint = {closed}; }})")
    pdf = base64.b64decode(browser.driver.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert pdf.startswith(b"%PDF")
    assert before > 20
    assert browser.do("return window.atPrint") == 0
    assert browser.do(f"return {closed}") == before
    assert browser.complaints == []


def test_names_that_mean_harm_do_nothing(browser, tmp_path, monkeypatch, capsys):
    home = Home(tmp_path, monkeypatch, capsys)
    lock = Lock().updated({H100.name: H100}, home.rows())
    title = "<img src=x onerror='window.harmed=1'><script>window.harmed=1</script>"
    text = lockfile.dumps(lock)
    found = GatheredProject(title=title, name=title, text=text, lock=lock, document=json.loads(text), note=title)
    file = tmp_path / "report.html"
    file.write_text(page(report_of(found)))
    browser.open(file, 768)
    assert browser.do("return window.harmed ?? null") is None
    assert browser.do("return document.querySelector('h1').textContent") == f"{title}: what tuning found"
    assert browser.complaints == []
