"""T4 results and Kernel Tuner's caches: what is read, what is written, and what a bad file is told."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretuned.errors import Error
from pretuned.exchange import kernel_tuner, t4
from pretuned.exchange.results import CORRECT, INVALIDITIES, Results

HUB = Path(__file__).parents[1] / "data" / "benchmark_hub"
FAILURES = [invalidity for invalidity in INVALIDITIES if invalidity != CORRECT]
TIMES = st.floats(1e-3, 1e7)


@st.composite
def tuned(draw):
    count = draw(st.integers(1, 6))
    kinds = draw(st.lists(st.sampled_from(INVALIDITIES), min_size=count, max_size=count))
    return Results.of(
        [{"block": index, "T": draw(st.sampled_from(["float", "half"]))} for index in range(count)],
        [draw(TIMES) for _ in kinds],
        kinds,
        [draw(st.lists(TIMES, max_size=5)) for _ in kinds],
    )


@given(results=tuned(), packed=st.booleans())
def test_what_is_written_is_read_back_equal(tmp_path_factory, results, packed):
    path = tmp_path_factory.mktemp("t4") / ("kernel_T4.json.gz" if packed else "kernel_T4.json")
    t4.write(path, results)
    assert t4.read(path) == results


def test_a_recorded_file_gives_medians_and_reasons():
    results = t4.read(HUB / "convolution_A100_T4.json.gz")
    assert len(results.times_us) == 4362
    assert min(results.times_us) == pytest.approx(549.888, rel=1e-6)
    failed = [invalid for invalid, time in zip(results.invalidity, results.times_us, strict=True) if time == math.inf]
    assert (failed.count("runtime"), failed.count("compile"), len(failed)) == (155, 6, 161)
    best = results.configurations[results.times_us.index(min(results.times_us))]
    assert dict(zip(results.names, best, strict=True))["block_size_x"] == 32


def test_a_failure_has_no_time_whatever_was_measured():
    results = Results.of([{"b": 1}, {"b": 2}], [5.0, 7.0], ["correctness", CORRECT], [[5.0], []])
    assert results.times_us == (math.inf, 7.0)
    assert results.samples_us == ((), ())


@pytest.mark.parametrize(
    ("times", "kinds", "configurations"),
    [
        ([1.0], ["slow"], [{"b": 1}]),
        ([-1.0], [CORRECT], [{"b": 1}]),
        ([math.inf], [CORRECT], [{"b": 1}]),
        ([1.0, 2.0], [CORRECT], [{"b": 1}]),
        ([1.0, 2.0], [CORRECT, CORRECT], [{"b": 1}, {"c": 1}]),
    ],
)
def test_results_that_make_no_sense_are_refused(times, kinds, configurations):
    with pytest.raises(ValueError, match=r"\w"):
        Results.of(configurations, times, kinds)


ENTRY = {
    "configuration": {"b": 1},
    "times": {"runtimes": [2.0, 1.0, 9.0]},
    "invalidity": "correct",
    "measurements": [{"name": "time", "value": 4.0}],
}


def t4_file(folder, *entries, unit="seconds"):
    path = folder / "kernel_T4.json"
    path.write_text(json.dumps({"metadata": {"timeunit": unit}, "results": entries}))
    return path


def test_units_and_single_measurements(tmp_path):
    results = t4.read(t4_file(tmp_path, ENTRY, ENTRY | {"configuration": {"b": 2}, "times": {}}))
    assert results.times_us == (2e6, 4e6)
    assert t4.read(t4_file(tmp_path, ENTRY, unit="miliseconds")).times_us == (2e3,)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (ENTRY | {"invalidity": "slow"}, "results[1].invalidity is 'slow'"),
        (ENTRY | {"times": {}, "measurements": []}, "results[1] is correct but has no time"),
        (ENTRY | {"times": {"runtimes": ["1"]}}, "results[1].times.runtimes is not a list of numbers"),
        (ENTRY | {"configuration": {"b": [1]}}, "results[1].configuration.b is neither"),
        (ENTRY | {"configuration": {"c": 1}}, "do not all have the same parameters"),
        (ENTRY | {"times": {"runtimes": [-1.0]}}, "results[1] is correct but has no time"),
        ({}, "results[1] lacks"),
        (7, "results[1] lacks"),
    ],
)
def test_a_bad_t4_file_is_told_where(tmp_path, entry, said):
    path = t4_file(tmp_path, ENTRY, entry)
    with pytest.raises(Error) as error:
        t4.read(path)
    assert str(error.value).startswith(f"{path}: ")
    assert said in str(error.value)


def test_an_unknown_unit_and_no_results_are_errors(tmp_path):
    with pytest.raises(Error, match="timeunit is 'fortnights'"):
        t4.read(t4_file(tmp_path, ENTRY, unit="fortnights"))
    with pytest.raises(Error, match="has no list 'results'"):
        t4.read(t4_file(tmp_path))


HEAD = """{
"device_name": "A100",
"kernel_name": "vector_add",
"problem_size": 1000,
"tune_params_keys": [
"block_size_x"
],
"tune_params": {"block_size_x": [32, 64, 128, 256, 512]},
"objective": "time",
"cache": {"""
LINES = (
    '"64": {"block_size_x": 64, "time": 0.5, "times": [0.5, 0.4, 0.9], "compile_time": 300}',
    '"32": {"block_size_x": 32, "time": "RuntimeFailedConfig", "compile_time": 300}',
    '"128": {"block_size_x": 128, "time": "InvalidConfig"}',
    '"512": {"block_size_x": 512, "__error__": "CompilationFailedConfig"}',
    '"256": {"block_size_x": 256, "time": 0.25}',
)
BODY = ",\n".join(LINES)


@pytest.mark.parametrize(
    "end", ["}\n}", "}}", ",", "", ',\n"1024": {"block_size_x": 10', ',\n"1024": {"block_size_x": 10,']
)
def test_a_cache_reads_closed_open_and_cut_short(tmp_path, end):
    path = tmp_path / "cache.json"
    path.write_text(f"{HEAD}\n{BODY}{end}")
    results = kernel_tuner.read(path)
    assert results.configurations == ((64,), (32,), (128,), (512,), (256,))
    assert results.times_us == (500.0, math.inf, math.inf, math.inf, 250.0)
    assert results.invalidity == (CORRECT, "runtime", "constraints", "compile", CORRECT)
    assert results.samples_us[0] == (500.0, 400.0, 900.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ("{}", "not a cache file of Kernel Tuner"),
        (HEAD, "holds no configuration yet"),
        (f'{HEAD}\n"64": {{"time": 1.0}}}}}}', "cache['64'] lacks a value for one of block_size_x"),
        (f'{HEAD}\n"64": {{"block_size_x": 64}}}}}}', "cache['64'] has neither a time nor an error"),
    ],
)
def test_a_bad_cache_is_told_where(tmp_path, text, said):
    path = tmp_path / "cache.json"
    path.write_text(text)
    with pytest.raises(Error) as error:
        kernel_tuner.read(path)
    assert str(error.value).startswith(f"{path}: ")
    assert said in str(error.value)
