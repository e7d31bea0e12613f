"""Figures in the documentation are those of the result files that it names."""

import re
import subprocess
import sys

import pytest

from documents import PAGES, ROOT

RESULTS = ROOT / "benchmarks" / "results"
CALLS = "call_h100.txt"
GEMM = "hochgraf_gemm_h100.txt"
GUARDED = "hochgraf_gemm_guarded_h100.txt"
BETWEEN = "between_sizes_h200.txt"

# page, what it says, result file, what stands there (runs of blanks count as one, on both sides)
CLAIMS = [
    ("README.md", "tuned in 28 s, at 0.9988 of the exhaustive optimum", GUARDED, "(a) wall for all 28.15 s"),
    ("README.md", "at 0.9988 of the exhaustive optimum", GUARDED, "share of the exhaustive optimum: geomean 0.9988"),
    ("README.md", "autotuner takes 886 s for 100 configurations", GEMM, "in all 886.2 s"),
    ("README.md", "A checked call with 3 arrays: 4.75 us", CALLS, "ours, checked 3.93 (3.77, 4.49) 4.75"),
    ("README.md", "CuPy's `Function` takes 5.06", CALLS, "CuPy Function 4.37 (4.15, 5.31) 5.06"),
    ("README.md", "autotuned Triton 19.84", CALLS, "Triton, autotuned 19.84"),
    ("README.md", "it is 5.64 us, more than CuPy's 5.33", CALLS, "4.75 (4.60, 6.55) 5.64"),
    ("README.md", "more than CuPy's 5.33", CALLS, "5.06 (4.83, 6.90) 5.33"),
    ("README.md", "The first call takes 1.43 ms", CALLS, "first call 1.43, second call 0.96"),
    ("README.md", "13.91% slower on average", BETWEEN, "all 240 13.91% 60.87% 142.48%"),
    ("README.md", "142.48% at worst", BETWEEN, "all 240 13.91% 60.87% 142.48%"),
    ("docs/guide/how-it-selects.md", "took 13.9% longer on average", BETWEEN, "all 240 13.91% 60.87% 142.48%"),
    ("docs/guide/how-it-selects.md", "60.9% at the 95th percentile and 142% at worst", BETWEEN, "60.87% 142.48%"),
    ("docs/guide/how-it-selects.md", "slower than the default at 12%", BETWEEN, "37% 50% 6% 11% 12% 12% 15.42% 6.89%"),
    ("docs/guide/how-it-selects.md", "would have taken 6.9% longer", BETWEEN, "12% 12% 15.42% 6.89%"),
    ("docs/guide/how-it-selects.md", "cost 0.4%", "elsewhere_h200_by_h100.txt", "geomean 1.004, worst 1.044"),
    (
        "docs/guide/how-it-selects.md",
        "0.1% on average, and 4.4% at worst",
        "elsewhere_h100_by_h200.txt",
        "geomean 1.001",
    ),
    ("docs/guide/how-it-tunes.md", "takes 28.15 s, at 0.9988", GUARDED, "(a) wall for all 28.15 s"),
    ("docs/guide/how-it-tunes.md", "0.9722 at worst", GUARDED, "geomean 0.9988, worst 0.9722"),
    ("docs/guide/how-it-tunes.md", "103,168 configurations takes 8.04 s", "spaces_h100.txt", "1 sizes: 8.04 s"),
    ("docs/guide/how-it-tunes.md", "of each other in 64 rows and in 65", "repeat_h100.txt", "each other in 64 rows"),
    ("docs/guide/how-it-tunes.md", "1.48% apart at worst", "repeat_h100.txt", "1.48% apart"),
    ("docs/guide/how-it-tunes.md", "enumerated in under a second", "enumerate.txt", "Points 2,067,328 0.38"),
    ("docs/guide/from-triton.md", "886 s in Triton's autotuner, 28 s with pretuned", GEMM, "in all 886.2 s"),
    ("docs/guide/from-triton.md", "12.79 us with Triton, 19.84 us", CALLS, "Triton 12.79 (12.49, 17.42)"),
    ("docs/guide/calling.md", "7.74 us for three arrays (9.92 with PyTorch)", CALLS, "ours, output allocated 7.74"),
    ("docs/guide/calling.md", "(9.92 with PyTorch)", CALLS, "ours, output allocated (PyTorch) 9.92"),
    ("docs/guide/calling.md", "5.78 us with addresses that never repeat", CALLS, "addresses that never repeat 5.78"),
    ("docs/guide/calling.md", "`torch.add(out=)` takes 6.06 us", CALLS, "torch.add(out=) 6.06"),
    ("docs/guide/calling.md", "takes 1.43 ms and the second 0.96 ms", CALLS, "first call 1.43, second call 0.96"),
    ("docs/guide/calling.md", "(1.31 ms), 0.42 and 0.89 ms", CALLS, "prepare 1.31, first call 0.42, second call 0.89"),
    ("docs/guide/calling.md", "takes 0.82 ms where no array library", CALLS, "importing the package: 0.82 ms"),
    ("docs/guide/calling.md", "4.45 ms in a process that has CuPy", CALLS, "import the package 4.45"),
]


def flat(text):
    return " ".join(text.split())


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim[1])
def test_a_figure_is_its_result_files(claim):
    page, says, file, found = claim
    assert flat(says) in flat(PAGES[page].read_text(encoding="utf-8"))
    assert flat(found) in flat((RESULTS / file).read_text(encoding="utf-8"))


def test_the_table_of_call_costs_is_the_result_files():
    rows = {
        match[1]: re.findall(r"([\d.]+) \(", match[2])
        for match in re.finditer(r"^  (\S.*?)  +(\d.*)$", (RESULTS / CALLS).read_text(encoding="utf-8"), re.MULTILINE)
    }
    page = PAGES["docs/guide/calling.md"].read_text(encoding="utf-8")
    table = page.partition("<!-- checked: call-costs -->")[2].partition("\n\n")[0].strip().splitlines()[2:]
    assert table
    for line in table:
        label, *figures = (cell.strip() for cell in line.strip("|").split("|"))
        assert rows[label] == figures


def test_the_readmes_count_of_faster_rows_is_the_locks():
    command = [sys.executable, "-m", "pretuned", "show", "pretuned.lock.json"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    text = PAGES["README.md"].read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith("NVIDIA H100 80GB HBM3: ")]
    assert line in printed.splitlines()
    rows, faster = re.search(r"(\d+) rows, (\d+) faster", line).groups()
    assert f"{faster} of {rows} rows faster" in text
