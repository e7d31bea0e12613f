"""The benchmark of the bundled kernels: at which problems it compares, and what it says of the aims."""

import pytest

import tables
from contest import ALIGNED, RAGGED, TUNED, Contest, Peer, bytes_of, cases
from documents import ROOT
from pretuned.spec.loader import load_folder

PEER = Peer(name="torch", call=lambda **_: None)
TEMPLATES = ROOT / "templates"


def contest(name, **others):
    return Contest(kernel=name, bound="copy", exact=lambda **_: None, peers=(PEER,), **others)


@pytest.fixture(scope="module")
def transpose():
    return load_folder(TEMPLATES, {"transpose"})["transpose"]


def test_ragged_problems_lie_within_the_tuned_sizes_and_follow_from_the_seed(transpose):
    one = contest("transpose", ragged=12)
    found = list(cases(one, transpose, 7, 1))
    assert found == list(cases(one, transpose, 7, 1))
    assert found != list(cases(one, transpose, 8, 1))
    for specialisation in {case.problem.specialisation for case in found}:
        of_it = [case for case in found if case.problem.specialisation == specialisation]
        ragged = [case for case in of_it if case.kind == RAGGED]
        assert len(ragged) == len({case.problem for case in ragged}) == 12
        assert sum(case.shift for case in ragged) == 4
        for name, dim in transpose.free_dims.items():
            sizes = [dict(case.problem.dims)[name] for case in ragged]
            tuned = {dict(case.problem.dims)[name] for case in of_it if case.kind == TUNED}
            assert min(tuned) <= min(sizes)
            assert max(sizes) <= max(tuned) + 1
            assert sum(size % 2 for size in sizes) >= 6
            assert dim.sizes is None or tuned <= {*dim.sizes}


def test_large_problems_are_met_aligned_ragged_and_misaligned(transpose):
    large = ({"rows": 8192, "cols": 8192}, {"rows": 4096, "cols": 16384})
    found = [one for one in cases(contest("transpose", large=large, ragged=0), transpose, 7, 0) if one.kind != TUNED]
    assert {(case.kind, case.shift) for case in found} == {(ALIGNED, 0), (RAGGED, 0), (RAGGED, 1)}
    assert not any(case.compiled for case in found)
    floats = [case for case in found if ("T", "float32") in case.problem.specialisation]
    assert all(bytes_of(transpose, case.problem) >= tables.LARGE for case in floats)


def measured(ours, torch, top, **others):
    return {
        "kernel": "axpby",
        "problem": {"n": 1 << 26},
        "specialisation": {"T": "float32"},
        "kind": TUNED,
        "shift": 0,
        "bytes": 1 << 28,
        "bound": "copy",
        "long": False,
        "aim": 0.93,
        "us": {"ours": ours, "torch": torch, "copy": top},
        "errors": {},
        "off": {"ours": 0.1, "torch": 0.1},
    } | others


def test_aims_are_judged_by_the_mean_the_worst_and_the_least_share():
    good = measured(100.0, 110.0, 94.0)
    assert tables.targets([good])[1:] == [
        "met: axpby beside torch: geomean 0.909 over 1 problems, worst 0.909 at n=67108864, float32, tuned",
        "met: axpby, aligned: 0.940 of the ceiling at n=67108864, float32, aim 0.93",
    ]
    slow = measured(120.0, 100.0, 94.0, kind=RAGGED, shift=1, problem={"n": 70_000_001})
    beside, aligned, misaligned = tables.targets([good, good, good, slow])[1:]
    assert beside.startswith("MISSED: axpby beside torch: geomean 0.974 over 4 problems, worst 1.200 at n=70000001")
    assert aligned.startswith("met")
    assert misaligned.startswith("MISSED: axpby, misaligned: 0.783 of the ceiling")
    long = measured(100.0, 110.0, 91.0, long=True, aim=0.90)
    assert tables.targets([long])[2].startswith("met: axpby, long rows: 0.910")


def test_a_wrong_result_is_printed_and_not_compared():
    wrong = measured(100.0, 10.0, 94.0, off={"ours": 0.1, "torch": 300.0}, errors={"Triton": "RuntimeError: no"})
    *_, failed, off = tables.problems("axpby", [wrong])
    assert failed == "  FAILED at 1, such as n=67108864, float32, tuned: Triton: RuntimeError: no"
    assert off == "  WRONG at 1: torch is off by 300 of the tolerance at n=67108864, float32, tuned"
    assert len(tables.targets([wrong])) == 2
    less = measured(100.0, 50.0, 94.0, off={"ours": 0.1, "torch": 3.0})
    assert tables.problems("axpby", [less])[-1].startswith("  LESS EXACT at 1: torch is off by 3 of the tolerance")
    assert tables.targets([less])[1].startswith("MISSED: axpby beside torch: geomean 2.000")
    ours = measured(100.0, 110.0, 94.0, off={"ours": 1.5, "torch": 0.1})
    assert tables.problems("axpby", [ours])[-1].startswith("  WRONG at 1: ours is off by 1.5 of the tolerance")
    assert tables.targets([ours])[1] == "MISSED: axpby fails or is wrong at 1, such as n=67108864, float32, tuned"
