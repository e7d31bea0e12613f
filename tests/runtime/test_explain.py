"""`explain`: what would run, why, and on which evidence."""

import dataclasses
import re

import pytest

PROBLEM = {"rows": 16, "cols": 1024, "T": "float32", "relu": False}
DEVICE = "NVIDIA H100 80GB HBM3"


def test_tells_row_times_and_alternatives(tuned):
    found = tuned.explain("affine", device=DEVICE, **PROBLEM)
    assert (found.kernel, found.device, found.rows_of) == ("pkg.tuned.affine", DEVICE, DEVICE)
    assert (found.implementation, found.configuration) == ("main", {"block": 128, "vec": 4})
    assert found.measured == {"cols": 1024, "rows": 16}
    assert (found.time_us, found.default_us, found.ratio) == (4.0, 8.0, (0.5, 0.6))
    assert found.spread_us == (3.9, 4.0, 4.25)
    assert found.alternatives[0].spread_us is None  # its row is of before samples were kept
    assert (found.date, found.driver, found.compiler) == ("2026-11-20", "580.65.06", "13.0.88")
    assert [(one.implementation, one.configuration, one.time_us) for one in found.alternatives[:2]] == [
        ("main", {"block": 64, "vec": 1}, 5.0),
        ("main", {"block": 128, "vec": 1}, 8.0),
    ]
    assert all(one.time_us is None for one in found.alternatives[2:])
    assert dataclasses.is_dataclass(found)
    assert not found.recompiled
    assert found.tuned


def test_reads_well(tuned):
    assert str(tuned.explain(tuned.affine, device=DEVICE, **PROBLEM)) == (
        "pkg.tuned.affine(T=float32, cols=1024, relu=False, rows=16) on NVIDIA H100 80GB HBM3\n"
        "  runs    block=128, vec=4\n"
        "  why     exact device; the row's choice\n"
        "  row     NVIDIA H100 80GB HBM3: measured at cols=1024, rows=16\n"
        "  time    4.00 us, default 8.00 us, ratio 0.500 to 0.600\n"
        "  spread  10% below 3.90 us, half below 4.00 us, 90% below 4.25 us\n"
        "  on      2026-11-20, driver 580.65.06, NVRTC 13.0.88\n"
        "  else    block=64, vec=1 (5.00 us)\n"
        "  else    block=128, vec=1 (8.00 us)\n"
        "  else    block=1024, vec=1\n"
        "  else    block=64, vec=2\n"
        "  else    block=64, vec=4"
    )


def test_marks_what_was_recompiled(tuned):
    found = tuned.explain("accumulate", device=DEVICE, n=65536, lanes=2)
    assert found.recompiled
    assert "recompiled" in str(found)


def test_tells_what_was_passed_over(tuned):
    found = tuned.explain("affine", device=DEVICE, **PROBLEM | {"cols": 1023})
    assert "passed over block=128, vec=4: 'cols % vec == 0' does not hold" in found.why
    assert found.why[-1] == "the row's choice"
    found = tuned.explain("affine", device=DEVICE, **PROBLEM | {"cols": 8190, "relu": True})
    assert "passed over block=64, vec=4: 'cols % vec == 0' does not hold" in found.why


def test_shows_what_a_selection_weighs(tuned):
    found = tuned.explain("affine", device=DEVICE, **PROBLEM | {"cols": 2048, "relu": True})
    assert (found.predicted_us, found.default_predicted_us, found.margin) == (9.33216, 12.24, 0.02)
    assert (found.nearest, found.nearest_us) == ({"cols": 64, "rows": 16}, 8.0)
    assert (found.certificate.inside.problems, found.certificate.inside.worst) == (32, 0.0405)
    assert (found.time_us, found.measured, found.rows_of) == (None, None, DEVICE)
    assert str(found) == (
        "pkg.tuned.affine(T=float32, cols=2048, relu=True, rows=16) on NVIDIA H100 80GB HBM3\n"
        "  runs    block=64, vec=1\n"
        "  why     exact device; the selection's choice\n"
        "  model   9.33 us predicted, next 9.51 us, default 12.24 us\n"
        "  margin  what is to run in the default's place has to be 2.0% faster\n"
        "  near    at cols=64, rows=16, measured: block=128, vec=1 8.00 us\n"
        "  proof   certified: 32 problems, mean 0.6%, p95 2.1%, worst 4.0%, none slower than the default\n"
        "          outside the sizes: 8 problems, mean 1.2%, p95 3.1%, worst 5.0%, 12.5% slower than the default\n"
        "  on      2026-11-20, driver 580.65.06, NVRTC 13.0.88\n"
        "  else    block=64, vec=4 (predicted 9.51 us)\n"
        "  else    block=128, vec=1 (predicted 12.24 us)"
    )


def test_the_host_names_its_own_processor_and_compiler(tuned):
    found = tuned.explain("affine", device=DEVICE, **PROBLEM)
    on_host = dataclasses.replace(found, driver="AMD EPYC 9374F", compiler="g++ 13.2.0+1f2e3d4c")
    assert "\n  on      2026-11-20, AMD EPYC 9374F, g++ 13.2.0+1f2e3d4c\n" in str(on_host)


@pytest.mark.parametrize("cols", [1, 32, 100, 1022, 1024, 5000, 16384, 70000])
def test_agrees_with_the_call(tuned, cupy, cols, cuda):
    found = tuned.explain("affine", **PROBLEM | {"cols": cols})
    tuned.affine(cupy.ndarray((16, cols), "float32"), 1.0, relu=False)
    launch = cuda.launches[-1]
    assert launch.block[0] == found.configuration["block"]
    assert launch.grid[1] == -(-cols // (found.configuration["block"] * found.configuration["vec"]))


def test_a_value_that_has_one_choice_may_be_left_out(tuned):
    with pytest.raises(TypeError, match=re.escape("pkg.tuned.affine: explain needs T=... (float16 or float32)")):
        tuned.explain("affine", device=DEVICE, rows=1, cols=1, relu=False)
    with pytest.raises(TypeError, match=re.escape("pkg.tuned.accumulate: explain needs n=...")):
        tuned.explain("accumulate", device=DEVICE, lanes=2)


@pytest.mark.parametrize(
    ("kernel", "options", "message"),
    [
        ("afine", PROBLEM, "pkg.tuned has no kernel 'afine'; did you mean 'affine'?"),
        (
            "affine",
            PROBLEM | {"device": "H200"},
            "the table has no device 'H200'; known are NVIDIA A100-SXM4-40GB, ",
        ),
        ("affine", PROBLEM | {"col": 1}, "pkg.tuned.affine has no dim or specialisation 'col'; did you mean 'cols'?"),
        ("affine", PROBLEM | {"cols": -1}, "pkg.tuned.affine: cols: expected a size, found -1"),
        ("affine", PROBLEM | {"cols": 0}, "pkg.tuned.affine: requires cols >= 1, found cols=0"),
        ("affine", PROBLEM | {"T": "float64"}, "pkg.tuned.affine: not shipped for T=float64, relu=False; shipped are"),
    ],
)
def test_what_it_cannot_explain_it_names(tuned, kernel, options, message):
    with pytest.raises(tuned.PretunedError, match=re.escape(message)):
        tuned.explain(kernel, **{"device": DEVICE} | options)


def test_needs_no_cupy_where_a_device_is_named(load, baked, cupy, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    tuned = load(baked)
    assert tuned.explain("affine", device="h100 80gb hbm3", **PROBLEM).configuration == {"block": 128, "vec": 4}
    monkeypatch.setenv("PRETUNED_DEVICE", "NVIDIA A100-SXM4-40GB")
    tuned = load(baked)
    assert tuned.explain("affine", **PROBLEM).configuration == {"block": 1024, "vec": 1}
