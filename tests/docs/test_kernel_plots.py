"""The plots of the bundled kernels show what was measured, and the tables below them have every figure."""

import json
import re
from html import unescape
from xml.etree import ElementTree as ET

import pytest

import plots
from documents import ROOT

PROVENANCE = {"device": "NVIDIA H100 80GB HBM3", "driver": "580", "torch": "2.11.0", "date": "2026-11-23"}
COMMAND = "python benchmarks/kernels --out FOLDER --kernels <some>"


def measured(bytes_, us, **others):
    return {
        "kernel": "row_softmax",
        "problem": {"cols": 1000, "rows": bytes_},
        "specialisation": {"T": "float32"},
        "kind": "tuned",
        "shift": 0,
        "bytes": bytes_,
        "bound": "copy",
        "us": us,
        "errors": {},
        "off": dict.fromkeys(us, 0.1),
    } | others


MEASURED = [
    measured(1_000_000, {"ours": 2.004, "torch": 4.01, "copy": 1.8}),
    measured(9_000_000, {"ours": 8.0, "torch": 7.5, "copy": 6.0}, kind="ragged", shift=1),
    measured(9_000_001, {"ours": 8.1, "torch": 1.0, "copy": 6.0}, kind="ragged", off={"ours": 0.2, "torch": 140.0}),
    measured(9_000_002, {"ours": 8.2, "copy": 6.0}, errors={"torch": "RuntimeError: no"}),
    measured(5, {"ours": 1.0, "torch": 1.0, "copy": 1.0}, specialisation={"T": "float16"}),
    measured(5, {"ours": 1.0, "torch": 1.0, "copy": 1.0}, kernel="other"),
]


@pytest.fixture
def run(tmp_path):
    file = tmp_path / "kernels_h100.json"
    file.write_text(json.dumps({"provenance": PROVENANCE | {"command": COMMAND}, "measurements": MEASURED}))
    return plots.runs(tmp_path)[file]


def cells(text, place):
    """The rows of a table of the figure."""
    table = re.findall(r"<table.*?</table>", text, re.DOTALL)[place]
    return [[unescape(cell) for cell in re.findall(r"<td>(.*?)</td>", row)] for row in table.split("<tr>")[2:]]


def test_the_table_has_every_problem_with_its_figures(run):
    assert cells(plots.html("row_softmax", run, ["float32"]), 1) == [
        ["cols=1000, rows=1000000, float32", "tuned", "2.00", "0.898", "4.01"],
        ["cols=1000, rows=9000000, float32", "ragged, misaligned", "8.00", "0.75", "7.50"],
        ["cols=1000, rows=9000001, float32", "ragged", "8.10", "0.741", "1.00 (wrong)"],
        ["cols=1000, rows=9000002, float32", "tuned", "8.20", "0.732", "failed"],
    ]


def test_the_summary_leaves_out_wrong_results(run):
    worst = "cols=1000, rows=9000000, float32, ragged, misaligned"
    assert cells(plots.html("row_softmax", run, ["float32"]), 0) == [["torch", "0.500", "1.067", "1.067", worst]]


def test_a_marker_has_its_figures_and_stands_where_they_say(run):
    (svg,) = re.findall(r"<svg.*?</svg>", plots.html("row_softmax", run, ["float32"]), re.DOTALL)
    root = ET.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title").text == "row_softmax, float32, on an NVIDIA H100 80GB HBM3"
    ours = {float(one.get("cy")): one for one in root.iter(f"{space}circle") if one.find(f"{space}title") is not None}
    assert len(ours) == 4
    filled = [one.get("fill") != "none" for _, one in sorted(ours.items())]
    assert filled == [True, False, False, True]  # of the fastest first, for y goes down
    assert "2.00 us, 0.898" in ours[min(ours)].find(f"{space}title").text
    titles = [one.text for one in root.iter(f"{space}title")]
    assert sum(text.startswith("torch: ") for text in titles) == 2  # what is wrong is not drawn


def test_each_specialisation_has_a_figure_with_its_origin(run):
    text = plots.html("row_softmax", run)
    assert text.count("<figure") == 2
    assert (
        text.count(f"NVIDIA H100 80GB HBM3, driver 580, PyTorch 2.11.0, 2026-11-23: <code>{COMMAND[:-6]}&lt;some&gt;")
        == 2
    )


def test_what_was_not_measured_has_no_figure(run):
    assert plots.html("transpose", run) == ""
    assert plots.html("row_softmax", run, ["bfloat16"]) == ""


def test_the_pages_plots_are_of_kernels_and_specialisations_that_were_measured():
    """A page whose kernel was measured shows its figures: those of the results beside the benchmark."""
    pages = {file.stem: file.read_text(encoding="utf-8") for file in (ROOT / "docs" / "kernels").glob("*.md")}
    asked = {name: re.findall(r"```\{kernel-plot\} (\w+)\n(?::only: (.*)\n)?```", text) for name, text in pages.items()}
    assert {name for name, found in asked.items() if not found} == {"index", "how-we-measure"}
    for run in plots.runs().values():
        known = {one["kernel"] for one in run.measurements}
        for kernel, only in (one for found in asked.values() for one in found):
            if kernel in known:
                names = [name.strip() for name in only.split(";") if name.strip()]
                drawn = plots.html(kernel, run, names).count("<figure")
                assert drawn == len(names) if names else drawn


def test_every_bundled_kernel_has_its_page():
    """Those of a family share one, such as a kernel and its gradient; hgemm's has tables."""
    pages = {file.name: file.read_text(encoding="utf-8") for file in (ROOT / "docs" / "kernels").glob("*.md")}
    drawn = {name for text in pages.values() for name in re.findall(r"```\{kernel-plot\} (\w+)\n", text)}
    assert {file.stem for file in (ROOT / "templates").glob("*.toml")} <= drawn | {"hgemm"}
    listed = set(re.findall(r"^\| \[`\w+`\]\((\w+\.md)\)", pages["index.md"], re.MULTILINE))
    assert pages.keys() - listed == {"index.md", "how-we-measure.md"}
