"""Problems, configurations and guards."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from pretuned.spec import space
from pretuned.spec.guards import Guards
from pretuned.spec.guards import guards as guards_of
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, DeviceFacts, Problem
from specs import SCALE, SEVERAL, edited, loaded

FLOAT32 = (("T", "float32"),)
H100 = DeviceFacts(sm_count=132, compute_capability=90, shared_bytes=232_448, l2_bytes=52_428_800)
NO_ALIGN = (', align = "vec * sizeof(T)"', "")


def problem(n, specialisation=FLOAT32):
    return Problem(specialisation=specialisation, dims=(("n", n),))


def configuration(implementation="main", **values):
    return Configuration(implementation=implementation, values=space.pairs(values))


def test_a_space_is_enumerated_in_sorted_order_whatever_the_order_in_the_file(tmp_path):
    shuffled = ("block = [128, 256]\nvec   = [1, 2, 4]", "vec = [4, 1, 2, 4]\nblock = [256, 128]")
    first = [str(c) for c in space.combinations("main", loaded(tmp_path).all_implementations["main"])]
    second = [str(c) for c in space.combinations("main", loaded(tmp_path, shuffled).all_implementations["main"])]

    assert first == second
    assert first[:4] == ["block=128, vec=1", "block=128, vec=2", "block=128, vec=4", "block=256, vec=1"]


def test_the_order_does_not_depend_on_the_hash_seed(tmp_path):
    program = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[2]); from specs import *; "
        "from pretuned.spec import space; from pretuned.render import candidate; "
        "spec = loaded(Path(sys.argv[1]), toml=SEVERAL); "
        "[print(s, c, candidate(spec, s, c).key) for s in space.specialisations(spec) "
        "for p in space.problems(spec, s) for c in space.configurations(spec, p)]"
    )
    printed = set()
    for seed in ("0", "1", "4711"):
        result = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path), str(Path(__file__).parents[1] / "support")],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        )
        printed.add(result.stdout)

    assert len(printed) == 1
    assert len(printed.pop().splitlines()) == 20


def test_a_vast_space_is_counted_and_enumerated_lazily():
    vast = {f"p{index}": tuple(range(100)) for index in range(6)}
    spec = KernelSpec(
        name="vast",
        arguments=[{"name": "y", "dtype": "float32"}],
        space=vast,
        launches=[{"function": "f", "grid": [1], "block": [1]}],
    )

    assert space.count(spec.all_implementations["main"]) == 10**12
    assert [dict(c.values)["p5"] for c in islice(space.combinations("main", spec.all_implementations["main"]), 3)] == [
        0,
        1,
        2,
    ]


def test_a_constraint_prunes_by_problem_and_specialisation(tmp_path):
    spec = loaded(tmp_path, ("[1, 2, 4]", "[1, 2, 4, 8]"))

    def legal(n, dtype):
        return [str(c) for c in space.configurations(spec, problem(n, (("T", dtype),))) if "block=128" in str(c)]

    assert legal(1024, "float32") == ["block=128, vec=1", "block=128, vec=2", "block=128, vec=4"]
    assert legal(1024, "float16") == [f"block=128, vec={vec}" for vec in (1, 2, 4, 8)]
    assert legal(1022, "float16") == ["block=128, vec=1", "block=128, vec=2"]


def test_the_default_comes_first(tmp_path):
    spec = loaded(tmp_path, toml=SEVERAL)

    found = [str(c) for c in space.configurations(spec, problem(1024))]

    assert found == ["vectors: vec=1", "plain: block=128", "plain: block=256", "vectors: vec=2", "vectors: vec=4"]


def test_only_what_the_kernel_accepts_is_measured(tmp_path):
    spec = loaded(
        tmp_path,
        ("where =", 'requires = ["n > 5000", "8 // (n - 65536) == 0 or true"]\nwhere ='),
        ("1024, 65536", "1024, 65536, 262144"),
    )

    assert [str(p) for p in space.problems(spec, FLOAT32)] == ["n=262144, T=float32"]


def test_a_constraint_that_divides_by_zero_admits_nothing(tmp_path):
    spec = loaded(tmp_path, ("n % vec == 0", "n // (vec - 2) != 7"))

    assert space.legal(spec, problem(1024), configuration(block=128, vec=1))
    assert not space.legal(spec, problem(1024), configuration(block=128, vec=2))


def test_a_constraint_on_the_device_holds_on_that_device(tmp_path):
    spec = loaded(tmp_path, ("n % vec == 0", "vec < 4 or device.sm_count > 100"))
    wide = configuration(block=128, vec=4)
    small = DeviceFacts(sm_count=20, compute_capability=75, shared_bytes=65_536, l2_bytes=4_194_304)

    assert space.legal(spec, problem(1024), wide, H100)
    assert not space.legal(spec, problem(1024), wide, small)


def test_guards_are_what_a_call_has_to_satisfy(tmp_path):
    spec = loaded(tmp_path)

    found = guards_of(spec, FLOAT32, configuration(block=128, vec=4))

    assert found == Guards(where=("n % 4 == 0",), align=(("y", 16), ("x", 16)))
    assert not guards_of(spec, FLOAT32, configuration(block=128, vec=1))


def test_alignment_by_a_parameter_of_one_implementation_is_no_guard_of_another(tmp_path):
    spec = loaded(tmp_path, toml=SEVERAL)

    assert guards_of(spec, FLOAT32, configuration("vectors", vec=4)).align == (("y", 16),)
    assert guards_of(spec, FLOAT32, configuration("plain", block=256)) == Guards()


def test_alignment_by_a_plain_type_is_a_guard(tmp_path):
    spec = loaded(tmp_path, ('"vec * sizeof(T)"', '"vec * sizeof(float32)"'), ('float32", "float16', "float32"))

    assert guards_of(spec, FLOAT32, configuration(block=128, vec=2)).align == (("y", 8), ("x", 8))


@pytest.mark.parametrize(
    ("one", "other", "covers"),
    [
        (Guards(), Guards(where=("n % 4 == 0",)), True),
        (Guards(where=("n % 4 == 0",)), Guards(), False),
        (Guards(where=("a",)), Guards(where=("a", "b")), True),
        (Guards(align=(("x", 8),)), Guards(align=(("x", 16),)), True),
        (Guards(align=(("x", 16),)), Guards(align=(("x", 8),)), False),
        (Guards(align=(("x", 8),)), Guards(align=(("y", 8),)), False),
        (Guards(where=("a",), align=(("x", 8),)), Guards(where=("a",), align=(("x", 8), ("y", 2))), True),
    ],
)
def test_guards_cover_those_that_ask_for_more(one, other, covers):
    assert one.covers(other) is covers


def test_types_follow_from_others(tmp_path):
    spec = loaded(
        tmp_path,
        ("[space]", "[space]\n"),
        ("[specialisations]\n", '[specialisations]\nAcc = { from = "T", float32 = "float64", float16 = "float32" }\n'),
    )

    assert space.dtype_of(spec, "Acc", (("T", "float16"),)) == "float32"
    assert space.dtype_of(spec, "int32", FLOAT32) == "int32"
    assert [str(s) for s in space.specialisations(spec)] == ["(('T', 'float16'),)", "(('T', 'float32'),)"]


def test_constant_dims_and_flags_are_specialisations(tmp_path):
    toml = edited(
        SCALE,
        ("[specialisations]\n", "[specialisations]\ncausal = { values = [false, true] }\n"),
        ("n = { sizes = [1024, 65536] }", "n = { sizes = [1024] }\nhead = { values = [128, 64], constant = true }"),
        (
            'name = "x", role = "in", dtype = "T", shape = ["n"]',
            'name = "x", role = "in", dtype = "T", shape = ["n", "head"]',
        ),
    )
    spec = loaded(tmp_path, toml=toml)

    found = [space.describe(s) for s in space.specialisations(spec)]

    assert found[:2] == ["T=float16, causal=false, head=64", "T=float16, causal=false, head=128"]
    assert len(found) == 8
    assert [str(p) for p in space.problems(spec, next(space.specialisations(spec)))] == [
        "n=1024, T=float16, causal=false, head=64"
    ]
