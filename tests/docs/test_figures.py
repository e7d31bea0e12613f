"""Figures in the documentation are those of the result files that it names."""

import json
import re
import statistics
import subprocess
import sys

import pytest

from documents import PAGES, ROOT

RESULTS = ROOT / "benchmarks" / "results"
CALLS = "call_h200.txt"
COLD = "call_cold_h100.txt"
GEMM = "hochgraf_gemm_h100.txt"
GUARDED = "hochgraf_gemm_guarded_h100.txt"
BETWEEN = "between_sizes_h100.txt"
BEFORE = "between_sizes_before_h200.txt"
HERE = "between_sizes_h200.txt"
SIZES = "hochgraf_sizes_h100.txt"
LOOKUP = "lookup.txt"
REPLAYED, MADE = "replay_sizes.txt", "replay_selecting.txt"
PARETO = "pareto_hochgraf.txt"
TUNES = "docs/guide/how-it-tunes.md"
WAS = "tuning_price_before.txt"
FREE = "tuning_price_unverified.txt"
PRICE = "tuning_price_after.txt"
STARTS = "tuning_starts.txt"
EFFORTS = "tuning_efforts.txt"
SELECTS = "docs/guide/how-it-selects.md"
FLEETS, TWO_GPUS = "docs/guide/fleets.md", "fleet_gpus_h100.txt"

# page, what it says, result file, what stands there (runs of blanks count as one, on both sides)
CLAIMS = [
    (SELECTS, "choices inside the sizes lose 4.67%", REPLAYED, "all inside selection (ours) 7035 4.67%"),
    (SELECTS, "and 5.01% with costs fitted alone", REPLAYED, "all inside the same, costs fitted alone 7035 5.01%"),
    (SELECTS, "and outside 3.09% and 3.68%", REPLAYED, "all outside selection (ours) 2680 3.09%"),
    (SELECTS, "and outside 3.09% and 3.68%", REPLAYED, "all outside the same, costs fitted alone 2680 3.68%"),
    (SELECTS, "the rule loses 2.00% inside the sizes with these two steps and 2.90%", MADE, "mean 2.00% 0.47%"),
    (SELECTS, "with these two steps and 2.90% without them", MADE, "mean 2.90% 1.08%"),
    (SELECTS, "and 1.54% and 1.75% outside", MADE, "2.73% 1.54% 0.41% 1.15%"),
    (SELECTS, "and 1.54% and 1.75% outside", MADE, "3.45% 1.75% 0.26% 1.52%"),
    ("README.md", "tuned in 28 s, at 0.9988 of the exhaustive optimum", GUARDED, "(a) wall for all 28.15 s"),
    ("README.md", "at 0.9988 of the exhaustive optimum", GUARDED, "share of the exhaustive optimum: geomean 0.9988"),
    ("README.md", "autotuner takes 886 s for 100 configurations", GEMM, "in all 886.2 s"),
    (
        "README.md",
        "on an H200: 5.19 us of host time",
        CALLS,
        "ours, checked 4.67 (4.53, 4.84) 5.19 (5.08, 5.52) 6.26 (5.99, 6.51)",
    ),
    (
        "README.md",
        "CuPy's `Function` takes 5.22",
        CALLS,
        "CuPy Function 4.72 (4.58, 5.10) 5.22 (5.09, 5.44) 5.55 (5.44, 5.69)",
    ),
    ("README.md", "autotuned Triton 18.79", CALLS, "Triton, autotuned 18.79"),
    ("README.md", "With 8 it is 6.26 us", CALLS, "ours, checked 4.67 (4.53, 4.84) 5.19 (5.08, 5.52) 6.26 (5.99, 6.51)"),
    (
        "README.md",
        "more than CuPy's 5.55",
        CALLS,
        "CuPy Function 4.72 (4.58, 5.10) 5.22 (5.09, 5.44) 5.55 (5.44, 5.69)",
    ),
    ("docs/guide/jax.md", "1.8 us each for a hundred calls", "jax_calls_h100.txt", "one of 100 in a jit 1.82 us"),
    ("docs/guide/jax.md", "`jax.numpy.add` takes 2.4 us", "jax_calls_h100.txt", "one of 100 in a jit 2.41 us"),
    ("docs/guide/jax.md", "up to 27 us", "jax_calls_h100.txt", "one of 100 in a jit 27.29 us"),
    (FLEETS, "| GPUs of a machine | 40 | 157.8 s | 79.0 s | 2.00 |", TWO_GPUS, "two GPUs 79.0 s 120 rows"),
    (FLEETS, "| GPUs of a machine | 8 | 37.9 s | 27.5 s | 1.38 |", TWO_GPUS, "two GPUs 27.5 s 24 rows"),
    (FLEETS, "| Dask's workers | 22 | 84.5 s | 47.0 s | 1.80 |", TWO_GPUS, "two workers 47.0 s 66 rows"),
    (FLEETS, "| Dask's workers | 12 | 50.6 s | 34.0 s | 1.49 |", TWO_GPUS, "two workers 34.0 s 36 rows"),
    (FLEETS, "one killed after 20.8 s | 12 | | 39.2 s", TWO_GPUS, "36 rows of 36; killed after 20.8 s"),
    ("README.md", "1.18% slower on average", BETWEEN, "all 626 1.18% 5.19% 15.86%"),
    ("README.md", "at 13 of them over 2% slower than the default", BETWEEN, "all 626 1.18% 5.19% 15.86% 6% 13 13"),
    ("README.md", "2.36% slower than the best at 152 others", SIZES, "all selection (ours) 152 2.36% 8.94% 37.32%"),
    ("README.md", "nearest input's winner 22.78%", SIZES, "all nearest 152 22.78%"),
    (SELECTS, "The aims are 1%, 4% and 12% inside", BETWEEN, "targets 1.00%, 4.00%, 12.00%"),
    (SELECTS, "The defaults lose 6.41% inside", BETWEEN, "13 13 6.41%"),
    (SELECTS, "2.02% on average and 9.82% at worst", BETWEEN, "reduce_sum 86 2.02% 6.83% 9.82%"),
    (SELECTS, "`axpby` least, 0.44%", BETWEEN, "axpby 176 0.44%"),
    (SELECTS, "0.98%, 4.07% and 8.22% at 230 problems", HERE, "all 230 0.98% 4.07% 8.22%"),
    (SELECTS, "up to twice outside 1.35%, and 10.61% at worst", HERE, "all 28 1.35% 7.47% 10.61%"),
    (SELECTS, "took 13.9% longer on average", BEFORE, "all 240 13.91% 60.87% 142.48%"),
    (SELECTS, "60.9% at the 95th percentile and 142% at worst", BEFORE, "60.87% 142.48%"),
    (SELECTS, "over 1% slower than the default at 12% of 240", BEFORE, "37% 50% 6% 11% 12% 12% 15.42% 6.89%"),
    (SELECTS, "a tree loses 21.27%", SIZES, "all Helion's tree, 99 more known 152 21.27%"),
    (SELECTS, "and the nearest 20.71%", SIZES, "all nearest, 99 more known 152 20.71%"),
    (SELECTS, "takes 17.13 us of the host", LOOKUP, "a new problem: decision 17.13"),
    (SELECTS, "The whole call takes 99.03 us", LOOKUP, "a new problem: the whole call 99.03"),
    (SELECTS, "take 3.21 us a call, and one", LOOKUP, "2000 shapes in turn 3.21"),
    (SELECTS, "again and again 2.64 us", LOOKUP, "a problem that was seen 2.64"),
    ("docs/guide/trust.md", "1.18% was lost", BETWEEN, "all 626 1.18%"),
    ("docs/guide/trust.md", "is 9.45%, for", BETWEEN, "reduce_sum T=float32 inside: certificate 20 2.76% 9.40% 9.45%"),
    ("docs/guide/trust.md", "where 0.79% was lost", BETWEEN, "all 17 0.79%"),
    ("docs/guide/limits.md", "15.86% at worst, and 2.36%", BETWEEN, "all 626 1.18% 5.19% 15.86%"),
    ("docs/guide/limits.md", "and 2.36% over a tensor-core GEMM", SIZES, "all selection (ours) 152 2.36%"),
    (TUNES, "took 1.12 of the 94.79 s", "tuning_h200.txt", "verifying 1.12 s"),
    (TUNES, "the 94.79 s of the bundled kernels", "tuning_h200.txt", "in all 94.79 s"),
    (TUNES, "17.17 s and", "tuning_h200.txt", "preparing 17.17 s"),
    (TUNES, "1.09 of the 266.97 s", "gallery_h100.txt", "verifying 1.09 s"),
    (TUNES, "the 266.97 s of the gallery", "gallery_h100.txt", "in all 266.97 s"),
    (TUNES, "and 73.57 s", "gallery_h100.txt", "preparing 73.57 s"),
    (TUNES, "would take 18.8 s instead of 24.0 s", FREE, "dedispersion, 28 ms a launch 18.8 0.2 12.2 0.0"),
    (TUNES, "the others at most 3% less", FREE, "convolution, 3 s a compile, 1% 90 s 49.7 48.4 0.8 0.0"),
    (TUNES, "99.5 s, 0.9961 of the optimum", WAS, "dedispersion, 28 ms a launch 99.5 0.1 73.2 12.6 13.1 3785 0.9961"),
    (TUNES, "24.0 s, 0.9970", PRICE, "dedispersion, 28 ms a launch 24.0 0.1 8.7 8.9 6.0 890 0.9970"),
    (TUNES, "91.8 s, 1.0000", WAS, "convolution, 3 s a compile 91.8 87.9 2.0 1.4 0.2 1960 1.0000"),
    (TUNES, "39.2 s, 0.9733", PRICE, "convolution, 3 s a compile 39.2 37.4 0.8 0.6 0.2 1000 0.9733"),
    (TUNES, "496.2 s, 1.0000", WAS, "convolution, 3 s a compile, 1% 90 s 496.2"),
    (TUNES, "51.0 s, 0.9911", PRICE, "convolution, 3 s a compile, 1% 90 s 51.0 49.2 0.8 0.5 0.2 993 0.9911"),
    (TUNES, "0.9903 of the optimum at worst", STARTS, "stream 9.2 8.9 9.7 0.9966 0.9903"),
    (TUNES, "0.9898 with launches of 28 ms", STARTS, "dedispersion, 28 ms a launch 24.1 23.4 24.4 0.9965 0.9898"),
    (TUNES, "34.7 to 44.5 s, 39.3 on average", STARTS, "convolution, 3 s a compile 39.3 34.7 44.5 0.9764 0.7084"),
    (TUNES, "0.9764 on average and 0.7084 at worst", STARTS, "convolution, 3 s a compile 39.3 34.7 44.5 0.9764 0.7084"),
    (TUNES, "| 9.4 s, 1.0000 | 9.5 s, 1.0000", PRICE, "convolution 9.5 5.6 2.0 1.3 0.2 2039 1.0000"),
    (TUNES, "5.9 s, 1.000, 7,554 calls", EFFORTS, "convolution fast 5.9 1.0000 2.42x 7,554"),
    (TUNES, "9.6 s, 1.000, 12,209 calls", EFFORTS, "convolution default 9.6 1.0000 2.42x 12,209"),
    (TUNES, "4.4 s, 0.998, 37,724 calls", EFFORTS, "dedispersion fast 4.4 0.9976 1.13x 37,724"),
    (TUNES, "13.8 s, 0.997, 4,278 calls", EFFORTS, "dedispersion, 28 ms a launch fast 13.8 0.9969 1.13x 4,278"),
    (TUNES, "27.9 s, 0.908, 38,836 calls", EFFORTS, "convolution, 3 s a compile fast 27.9 0.9080 2.20x 38,836"),
    (TUNES, "16.9 s, 0.999, 2,429,612 calls", EFFORTS, "hochgraf_gemm fast 16.9 0.9991 1.22x 2,429,612"),
    (TUNES, "20.5 s, 1.000, 232,894 calls", EFFORTS, "sgemm default 20.5 0.9998 1.24x 232,894"),
    (TUNES, "6.5 s, 0.986, 8,778,910 calls", EFFORTS, "row_softmax float16 fast 6.5 0.9861 1.10x 8,778,910"),
    (TUNES, "13.8 s, 0.991, 18,709,130 calls", EFFORTS, "row_softmax float16 default 13.8 0.9911 1.11x 18,709,130"),
    (TUNES, "takes 36.0 s for Hochgraf's GEMM, at 0.9986", "tuning_thorough.txt", "hochgraf_gemm thorough 36.0 0.9986"),
    (TUNES, "34.0 s for `sgemm`, at 1.0000", "tuning_thorough.txt", "sgemm thorough 34.0 1.0000"),
    ("docs/guide/how-it-tunes.md", "0.9991 of the optimum after 13.4 s", PARETO, "exhaustive all 13.4 0.9991"),
    ("docs/guide/how-it-tunes.md", "takes 22.5 s", PARETO, "random draws, everywhere 106 drawn 22.5"),
    (TUNES, "settled a quarter of its rows", PARETO, "exhaustive 6 s 6.0 0.9568 0.9561 0.4600 18"),
    ("docs/guide/how-it-tunes.md", "0.9434 in 5.6 s", PARETO, "random draws, everywhere 8 drawn 5.6 0.9434"),
    ("docs/guide/how-it-tunes.md", "take 95.5 s on an H200", "tuning_h200.txt", "tuned in 95.5 s"),
    ("docs/guide/how-it-tunes.md", "20,196", "tuning_h200.txt", "761 sources compiled, 20196 measurements"),
    ("docs/guide/how-it-tunes.md", "for 27 inputs takes 28.1 s", SIZES, "tuned in 28.1 s: 27 inputs"),
    ("docs/guide/how-it-tunes.md", "with 5,333 measurements", SIZES, "107 sources compiled, 5333 measurements"),
    ("docs/guide/how-it-tunes.md", "trying ragged sizes takes 9.90 s", SIZES, "trying ragged sizes 9.90 s"),
    ("docs/guide/how-it-tunes.md", "choosing 1.00 s, certifying 1.50 s", SIZES, "certifying 1.50 s choosing 1.00 s"),
    (
        SELECTS,
        "takes 0.85% longer than with its own",
        "elsewhere_h200_by_h100.txt",
        "this GPU's own: mean 0.85%, worst 10.20%",
    ),
    (SELECTS, "and 10.20% at worst", "elsewhere_h200_by_h100.txt", "over 5% at 6 of 140 problems"),
    (SELECTS, "takes 4.19% longer at worst", "elsewhere_h100_by_h200.txt", "this GPU's own: mean -0.10%, worst 4.19%"),
    ("docs/guide/how-it-tunes.md", "takes 28.15 s, at 0.9988", GUARDED, "(a) wall for all 28.15 s"),
    ("docs/guide/how-it-tunes.md", "0.9722 at worst", GUARDED, "geomean 0.9988, worst 0.9722"),
    ("docs/guide/how-it-tunes.md", "103,168 configurations takes 8.04 s", "spaces_h100.txt", "1 sizes: 8.04 s"),
    (TUNES, "certificate, 30.09 s", "spaces_with_selections_h100.txt", "1 sizes: 30.09 s"),
    ("docs/guide/how-it-tunes.md", "of each other in 64 rows and in 65", "repeat_h100.txt", "each other in 64 rows"),
    ("docs/guide/how-it-tunes.md", "1.48% apart at worst", "repeat_h100.txt", "1.48% apart"),
    ("docs/guide/how-it-tunes.md", "enumerated in under a second", "enumerate.txt", "Points 2,067,328 0.38"),
    ("docs/guide/from-triton.md", "886 s in Triton's autotuner, 28 s with pretuned", GEMM, "in all 886.2 s"),
    ("docs/guide/from-triton.md", "that GEMM loses 2.36% on average", SIZES, "all selection (ours) 152 2.36%"),
    ("docs/guide/from-triton.md", "with one take 28 s too", SIZES, "tuned in 28.1 s: 27 inputs"),
    ("docs/guide/from-triton.md", "12.14 us with Triton, 18.79 us", CALLS, "Triton 12.14 ("),
    (
        "docs/guide/from-triton.md",
        "A call costs 5.19 us",
        CALLS,
        "ours, checked 4.67 (4.53, 4.84) 5.19 (5.08, 5.52) 6.26 (5.99, 6.51)",
    ),
    ("docs/guide/calling.md", "takes 1.43 ms and the second 0.96 ms", COLD, "first call 1.43, second call 0.96"),
    ("docs/guide/calling.md", "(1.31 ms), 0.42 and 0.89 ms", COLD, "prepare 1.31, first call 0.42, second call 0.89"),
    ("docs/guide/calling.md", "takes 0.82 ms where no array library", COLD, "importing the package: 0.82 ms"),
    ("docs/guide/calling.md", "4.45 ms in a process that has CuPy", COLD, "import the package 4.45"),
    (
        "docs/guide/hgemm.md",
        "| the 64 | 0.985 |",
        "hgemm_vs_cublas_h100.txt",
        "cold, 64 inputs: geomean 0.985 of the best peer, worst 0.786",
    ),
    (
        "docs/guide/hgemm.md",
        "| 0.985 | 1.011 |",
        "hgemm_vs_cublas_h100.txt",
        "cold, 64 inputs: geomean 1.011 of the best peer, worst 0.786",
    ),
    (
        "docs/guide/hgemm.md",
        "| 1.011 | 1.019 |",
        "hgemm_vs_cublas_h200.txt",
        "cold, 64 inputs: geomean 1.019 of the best peer, worst 0.773",
    ),
    (
        "docs/guide/hgemm.md",
        "| 1.019 | 1.003 |",
        "hgemm_vs_cublas_h200.txt",
        "cold, 64 inputs: geomean 1.003 of the best peer, worst 0.826",
    ),
    (
        "docs/guide/hgemm.md",
        "| 0.786 | 0.786 | 0.773 | 0.826 |",
        "hgemm_vs_cublas_h200.txt",
        "worst 0.826 at",
    ),
    (
        "docs/guide/hgemm.md",
        "= 4096 | 0.989 |",
        "hgemm_vs_cublas_h100.txt",
        "175.84 us 175.81 us 0.989",
    ),
    (
        "docs/guide/hgemm.md",
        "773 and 809 TFLOP/s",
        "hgemm_vs_cublas_h100.txt",
        "4096, 4096, 4096 808.6",
    ),
    (
        "docs/guide/hgemm.md",
        "| 0.989 | 1.004 |",
        "hgemm_vs_cublas_h100.txt",
        "173.28 us 170.70 us 1.004",
    ),
    (
        "docs/guide/hgemm.md",
        "| 1.004 | 1.006 |",
        "hgemm_vs_cublas_h200.txt",
        "180.70 us 180.27 us 1.006",
    ),
    (
        "docs/guide/hgemm.md",
        "= 8192 | 1.014 | 1.031 |",
        "hgemm_vs_cublas_h100.txt",
        "1490.98 us 1490.05 us 1.031",
    ),
    (
        "docs/guide/hgemm.md",
        "| 1.024 | 1.039 |",
        "hgemm_vs_cublas_h200.txt",
        "1558.10 us 1556.69 us 1.039",
    ),
    (
        "docs/guide/hgemm.md",
        "untuned | 0.731 | 0.726 |",
        "hgemm_vs_cublas_h100.txt",
        "untuned 0.731 of the best peer",
    ),
    (
        "docs/guide/hgemm.md",
        "| 0.717 | 0.711 |",
        "hgemm_vs_cublas_h200.txt",
        "untuned 0.711 of the best peer",
    ),
    ("docs/gallery.md", "all 156 rows of the gallery", "gallery_h100.txt", "156 rows of 14 kernels to tune"),
    (
        "docs/gallery.md",
        "111 are faster than the kernel's default",
        "gallery_h100.txt",
        "156 rows, 111 faster than the default",
    ),
    (
        "docs/gallery.md",
        "At 600 sizes drawn between and beyond",
        "gallery_h100.txt",
        "30 selections certified at 600 problems: mean 1.8%, worst 39.2%",
    ),
    ("docs/gallery.md", "at 9 of them slower than the default", "gallery_h100.txt", "9 slower than the default"),
]


def flat(text):
    return " ".join(text.split())


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim[1])
def test_a_figure_is_its_result_files(claim):
    page, says, file, found = claim
    assert flat(says) in flat(PAGES[page].read_text(encoding="utf-8"))
    assert flat(found) in flat((RESULTS / file).read_text(encoding="utf-8"))


def test_the_tables_of_call_costs_are_the_result_files():
    one, two = (RESULTS / CALLS).read_text(encoding="utf-8").split("\n2 GPUs visible\n")
    routes, _, _ = one.partition("\nan output that is allocated")
    rows = {
        match[1]: re.findall(r"([\d.]+) \(", match[2])
        for match in re.finditer(r"^  (\S.*?)  +(\d.*)$", routes, re.MULTILINE)
    }
    for label, *figures in shown("docs/guide/calling.md", "call-costs"):
        assert rows[label] == figures
    wholes = []
    for text in (one, two):
        parts = re.findall(r"^(\S.*), us a call\n((?:  .*\n?)+)", text, re.MULTILINE)
        wholes.append(
            {
                f"{what}: {match[1]}": match[2]
                for what, lines in parts
                for match in re.finditer(r"^  (\S.*?)  +([\d.]+) \(", lines, re.MULTILINE)
            }
        )
    for label, *figures in shown("docs/guide/calling.md", "whole-calls"):
        assert [found[label] for found in wholes] == figures


def test_the_table_of_pytorch_costs_is_the_result_files():
    text = (RESULTS / "torch_ops_h100.txt").read_text(encoding="utf-8")
    measured = dict(re.findall(r"^(\S.*?)  +([\d.]+) us$", text, re.MULTILINE))
    for label, figure in shown("docs/guide/pytorch.md", "torch-costs"):
        assert measured[label] == figure


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
    (line,) = re.findall("^pretuned.kernels: .*", PAGES["README.md"].read_text(encoding="utf-8"), re.MULTILINE)
    assert sum(map(int, re.findall(r"(\d+) sm_90a? cubin", line))) >= len(cubins)  # and defaults without rows


def shown(page, table):
    """The cells of a table behind its mark, without the head."""
    text = PAGES[page].read_text(encoding="utf-8").partition(f"<!-- checked: {table} -->\n")[2].partition("\n\n")[0]
    assert text
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]


def test_the_table_of_launch_attributes_is_the_result_files():
    text = (RESULTS / "launch_attributes_h200.txt").read_text(encoding="utf-8")
    measured = dict(re.findall(r"^(\S.*?)  +stream +([\d.]+) us", text, re.MULTILINE))
    graphs = dict(re.findall(r"^(\S.*?)  +graph +([\d.]+) us", text, re.MULTILINE))
    names = [f"{order}, n={n}" for n in ("1,000", "100,000", "1,000,000") for order in ("in_order", "early")]
    names += ["cooperative grid_sum, n=1,000,000", "cluster_rows, 100 x 10,000"]
    figures = [[measured[name], graphs[name]] for name in names]
    assert [row[1:] for row in shown("docs/guide/launch-attributes.md", "attributes")] == figures


def test_the_table_of_tensor_maps_is_the_result_files():
    text = (RESULTS / "tensor_map_calls_h100.txt").read_text(encoding="utf-8")
    us = {match[:2]: match[2] for match in re.findall(r"^three (.*?)  +(.*?)  +([\d.]+) us", text, re.MULTILINE)}
    figures = [[us[by, how] for by in ("tensor maps", "pointers")] for how in ("bound", "seen", "never seen")]
    assert [row[1:] for row in shown("docs/guide/tensor-maps.md", "maps")] == figures
    assert "take 38 us to make" in flat(PAGES["docs/guide/tensor-maps.md"].read_text(encoding="utf-8"))
    assert round(float(figures[2][0]) - float(figures[2][1])) == 38


def test_the_table_of_the_gallery_is_the_result_files():
    gains = {}
    for name, gain in re.findall(r"^(\w+) .* ([\d.]+)x  ", (RESULTS / "gallery_h100.txt").read_text(), re.MULTILINE):
        gains.setdefault(f"`{name}`", []).append(float(gain))
    figures = [
        [name, str(len(found)), f"{statistics.geometric_mean(found):.2f}", f"{max(found):.2f}"]
        for name, found in gains.items()
    ]
    assert sum(map(len, gains.values())) == 156
    assert shown("docs/gallery.md", "gallery") == figures


def test_the_pages_count_of_small_selections_is_the_locks():
    found = re.search(
        r"lock's (\d+) selections for the H100, which were tuned with\s+twenty, (\d+) end below twelve",
        PAGES[SELECTS].read_text(encoding="utf-8"),
    )
    lock = json.loads((ROOT / "pretuned.lock.json").read_text(encoding="utf-8"))
    counts = [
        len(one["choices"]) - one.get("defaults", 1) + 1
        for one in lock["selections"]
        if one["device"] == "NVIDIA H100 80GB HBM3"
    ]
    assert (len(counts), sum(count < 12 for count in counts)) == tuple(map(int, found.groups()))
