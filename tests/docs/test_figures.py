"""Figures in the documentation are those of the result files that it names."""

import json
import re
import subprocess
import sys

import pytest

from documents import PAGES, ROOT

RESULTS = ROOT / "benchmarks" / "results"
CALLS = "call_h100.txt"
GEMM = "hochgraf_gemm_h100.txt"
GUARDED = "hochgraf_gemm_guarded_h100.txt"
BETWEEN = "between_sizes_h100.txt"
BEFORE = "between_sizes_h200.txt"
SIZES = "hochgraf_sizes_h100.txt"
LOOKUP = "lookup.txt"
SELECTS = "docs/guide/how-it-selects.md"

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
    ("README.md", "1.31% slower on average", BETWEEN, "all 240 1.31% 4.47% 24.70%"),
    ("README.md", "at 4 of them over 2% slower than the default", BETWEEN, "all 240 1.31% 4.47% 24.70% 4% 4 3"),
    ("README.md", "3.38% slower than the best at 137 others", SIZES, "all selection (ours) 137 3.38% 9.96% 17.72%"),
    ("README.md", "nearest input's winner 19.95%", SIZES, "all nearest 137 19.95%"),
    (SELECTS, "The aims are 1%, 4% and 12% inside", BETWEEN, "targets 1.00%, 4.00%, 12.00%"),
    (SELECTS, "The defaults lose 6.53% inside", BETWEEN, "13.88% 2% 0 0 6.53%"),
    (SELECTS, "2.69% on average and 24.70% at worst", BETWEEN, "sgemm 24 2.69% 11.80% 24.70%"),
    (SELECTS, "`axpby` least, 0.53%", BETWEEN, "axpby 72 0.53%"),
    (SELECTS, "took 13.9% longer on average", BEFORE, "all 240 13.91% 60.87% 142.48%"),
    (SELECTS, "60.9% at the 95th percentile and 142% at worst", BEFORE, "60.87% 142.48%"),
    (SELECTS, "over 1% slower than the default at 12% of 240", BEFORE, "37% 50% 6% 11% 12% 12% 15.42% 6.89%"),
    (SELECTS, "a tree loses 17.25%", SIZES, "all Helion's tree, 99 more known 137 17.25%"),
    (SELECTS, "and the nearest 18.85%", SIZES, "all nearest, 99 more known 137 18.85%"),
    (SELECTS, "takes 17.13 us of the host", LOOKUP, "a new problem: decision 17.13"),
    (SELECTS, "The whole call takes 99.03 us", LOOKUP, "a new problem: the whole call 99.03"),
    (SELECTS, "take 3.21 us a call, and one", LOOKUP, "2000 shapes in turn 3.21"),
    (SELECTS, "again and again 2.64 us", LOOKUP, "a problem that was seen 2.64"),
    ("docs/guide/trust.md", "1.31% was lost", BETWEEN, "all 240 1.31%"),
    ("docs/guide/trust.md", "it says 11.84%; 24.70%", BETWEEN, "sgemm inside: certificate 20 2.84% 9.06% 11.84%"),
    ("docs/guide/trust.md", "where 1.62% was lost", BETWEEN, "all 40 1.62%"),
    ("docs/guide/limits.md", "24.70% at worst, and 3.38%", BETWEEN, "all 240 1.31% 4.47% 24.70%"),
    ("docs/guide/limits.md", "and 3.38% over a tensor-core GEMM", SIZES, "all selection (ours) 137 3.38%"),
    ("docs/guide/how-it-tunes.md", "take 88 s on an H100", "tuning_h100.txt", "tuned in 88.0 s"),
    ("docs/guide/how-it-tunes.md", "17,192", "tuning_h100.txt", "761 sources compiled, 17192 measurements"),
    ("docs/guide/how-it-tunes.md", "for 27 inputs takes 28.1 s", SIZES, "tuned in 28.1 s: 27 inputs"),
    ("docs/guide/how-it-tunes.md", "with 4,435 measurements", SIZES, "107 sources compiled, 4435 measurements"),
    ("docs/guide/how-it-tunes.md", "trying ragged sizes takes 7.17 s", SIZES, "trying ragged sizes 7.17 s"),
    ("docs/guide/how-it-tunes.md", "choosing 1.34 s, certifying 1.42 s", SIZES, "certifying 1.42 s choosing 1.34 s"),
    (SELECTS, "cost 0.4%", "elsewhere_h200_by_h100.txt", "geomean 1.004, worst 1.044"),
    (
        SELECTS,
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
    ("docs/guide/from-triton.md", "that GEMM loses 3.38% on average", SIZES, "all selection (ours) 137 3.38%"),
    ("docs/guide/from-triton.md", "with one take 28 s too", SIZES, "tuned in 28.1 s: 27 inputs"),
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


def judged(file):
    """The lines about all kernels, or all problems, of a result file: under which heading, of what, and its figures."""
    section = rule = ""
    for line in (RESULTS / file).read_text(encoding="utf-8").splitlines():
        cells = re.split(r" {2,}", line)
        if line.endswith("at that problem"):
            section, rule = line.partition(":")[0], ""
        elif cells[1:2] == ["problems"]:
            rule = cells[0]
        elif cells[0] == "all" and len(cells) in (9, 10):
            *_, problems, mean, p95, worst, _, slower, surely, _ = cells
            yield (section, cells[1] if len(cells) == 10 else rule), [problems, mean, p95, worst, slower, surely]


@pytest.mark.parametrize(
    ("table", "file", "rows"),
    [
        (
            "losses",
            BETWEEN,
            {
                "inside the sizes": ("inside", "kernel"),
                "inside, the best of what ships": ("inside", "the best of what ships"),
                "up to twice outside": ("up to twice outside", "kernel"),
                "further outside": ("further outside", "kernel"),
            },
        ),
        (
            "rules",
            SIZES,
            {
                rule: ("", rule)
                for rule in (
                    "selection (ours)",
                    "the best of what ships",
                    "interpolation of all",
                    "Helion's tree",
                    "nearest",
                    "the default",
                    "middles of tuned sizes",
                )
            },
        ),
    ],
    ids=["losses", "rules"],
)
def test_the_tables_of_losses_are_the_result_files(table, file, rows):
    figures = dict(judged(file))
    page = PAGES[SELECTS].read_text(encoding="utf-8")
    shown = page.partition(f"<!-- checked: {table} -->\n")[2].partition("\n\n")[0].splitlines()[2:]
    assert shown == [f"| {label} | {' | '.join(figures[key])} |" for label, key in rows.items()]


def test_the_readmes_count_of_faster_rows_is_the_locks():
    command = [sys.executable, "-m", "pretuned", "show", "pretuned.lock.json"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    text = PAGES["README.md"].read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith("NVIDIA H100 80GB HBM3: ")]
    assert line in printed.splitlines()
    rows, faster = re.search(r"(\d+) rows, (\d+) faster", line).groups()
    assert f"{faster} of {rows} rows faster" in text


def test_the_readmes_count_of_cubins_is_the_locks():
    lock = json.loads((ROOT / "pretuned.lock.json").read_text(encoding="utf-8"))
    entries = [*lock["rows"], *lock["selections"]]
    cubins = {choice["cubin"] for entry in entries for choice in entry["choices"] if "cubin" in choice}
    assert f"pretuned.kernels: {len(cubins)} sm_90 cubin," in PAGES["README.md"].read_text(encoding="utf-8")


def test_what_certificates_say_together_is_the_locks():
    lock = json.loads((ROOT / "pretuned.lock.json").read_text(encoding="utf-8"))
    certificates = [selection["certificate"] for selection in lock["selections"]]
    inside, outside = (
        sum(losses["problems"] * losses["mean"] for losses in part) / sum(losses["problems"] for losses in part)
        for part in ([one["inside"] for one in certificates], [one["outside"] for one in certificates])
    )
    page = flat(PAGES["docs/guide/trust.md"].read_text(encoding="utf-8"))
    assert f"say {inside:.1%} together" in page
    assert f"{outside:.1%} together, where" in page
