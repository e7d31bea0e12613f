"""What makes a row stale, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import rows, selection, selections
from pretuned.record.freshness import FreshnessJudge, Standing, State, space_key
from pretuned.spec.loader import load
from specs import SEVERAL, loaded


def edited(spec, file, old, new):
    path = spec.folder / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return load(spec.folder / "scale.toml")


EDITS = [
    ("scale.cu.jinja", "// y = a * x,", "// y is a times x,", State.FRESH, ""),
    ("scale.toml", 'summary = "y = a * x."', 'summary = "Scales."', State.FRESH, ""),
    (
        "scale.toml",
        "vec   = [1, 2, 4]",
        "vec   = [1, 2, 4, 8]",
        State.INCOMPLETE,
        "the space, the sizes, `requires` or terms of costs have changed",
    ),
    (
        "scale.toml",
        "[verify]",
        '[cost]\nterms = ["n"]\n\n[verify]',
        State.INCOMPLETE,
        "the space, the sizes, `requires` or terms of costs have changed",
    ),
    (
        "scale.toml",
        "[constraints]",
        '[constraints]\nrequires = ["n % 64 == 0"]',
        State.INCOMPLETE,
        "the space, the sizes, `requires` or terms of costs have changed",
    ),
    (
        "scale.toml",
        "[1024, 65536]",
        "[1024, 65536, 99999]",
        State.INCOMPLETE,
        "the space, the sizes, `requires` or terms of costs have changed",
    ),
    (
        "scale.toml",
        "float32 = 1e-5",
        "float32 = 1e-6",
        State.UNVERIFIED,
        "the reference, the inputs or the tolerances have changed",
    ),
    (
        "reference.py",
        "return a * x",
        "return x * a",
        State.UNVERIFIED,
        "the reference, the inputs or the tolerances have changed",
    ),
    (
        "scale.toml",
        "block = 256\nvec   = 1",
        "block = 128\nvec   = 1",
        State.STALE,
        "the default is now block=128, vec=1",
    ),
    (
        "scale.cu.jinja",
        "a * static_cast<float>(x[i])",
        "static_cast<float>(x[i]) * a",
        State.STALE,
        "the template, options, launches or arguments of block=256, vec=4 have changed",
    ),
    (
        "scale.toml",
        'block    = ["block"]',
        'block    = ["block", 1]',
        State.STALE,
        "the template, options, launches or arguments of block=256, vec=4 have changed",
    ),
]


@pytest.mark.parametrize(("file", "old", "new", "state", "reason"), EDITS)
def test_edits(tmp_path, file, old, new, state, reason):
    spec = loaded(tmp_path)
    row = next(row for row in rows(spec) if dict(row.specialisation)["T"] == "float32")
    assert FreshnessJudge(spec).judge(row).state is State.FRESH
    verdict = FreshnessJudge(edited(spec, file, old, new)).judge(row)
    assert (verdict.state, verdict.reason) == (state, reason)


def test_a_configuration_edited_by_hand_is_named(tmp_path):
    spec = loaded(tmp_path)
    row = rows(spec)[0]
    hacked = replace(row.choices[0].configuration, values=(("block", 96), ("vec", 4)))
    row = replace(row, choices=(replace(row.choices[0], configuration=hacked), row.choices[1]))
    verdict = FreshnessJudge(spec).judge(row)
    assert (verdict.state, verdict.reason) == (State.STALE, "the configuration block=96, vec=4 is not in the space")


NARROW = ("scale.toml", '"vec * sizeof(T) <= 16"', '"vec * sizeof(T) <= 8"')


def test_a_constraint_that_excludes_a_choice_makes_its_row_stale(tmp_path):
    spec = loaded(tmp_path)
    before = rows(spec)
    judge = FreshnessJudge(edited(spec, *NARROW))
    verdicts = {(dict(row.specialisation)["T"], dict(row.problem.dims)["n"]): judge.judge(row) for row in before}
    assert verdicts["float32", 1024] == Standing(
        state=State.STALE, reason="the constraint 'vec * sizeof(T) <= 8' does not admit block=256, vec=4"
    )
    assert verdicts["float16", 1024].state is State.INCOMPLETE


def test_a_guard_that_excludes_the_measured_size_does_too_and_one_on_the_device_does_not(tmp_path):
    spec = loaded(tmp_path)
    row = rows(spec)[0]
    guarded = edited(spec, "scale.toml", '"n % vec == 0"', '"n % vec == 0", "vec <= 2 or n > 2000"')
    assert (
        FreshnessJudge(guarded).judge(row).reason
        == "the constraint 'vec <= 2 or n > 2000' does not admit block=256, vec=4"
    )
    on_device = edited(spec, "scale.toml", '"vec <= 2 or n > 2000"', '"vec <= 2 or device.sm_count > 500"')
    assert FreshnessJudge(on_device).judge(row).state is State.INCOMPLETE


def test_a_row_whose_search_was_cut_short_is_incomplete(tmp_path):
    spec = loaded(tmp_path)
    verdict = FreshnessJudge(spec).judge(replace(rows(spec)[0], space=""))
    assert (verdict.state, verdict.reason) == (State.INCOMPLETE, "the budget ended its search early")


def test_an_implementation_for_other_types_alone_leaves_rows_fresh(tmp_path):
    halves = ("[implementations.plain]\n", "[implementations.plain]\nconstraints = { where = [\"T == 'float16'\"] }\n")
    without = SEVERAL[: SEVERAL.index("[implementations.plain]")] + SEVERAL[SEVERAL.index("[verify]") :]
    spec = loaded(tmp_path, toml=without)
    before = [*rows(spec), *selections(spec)]
    judge = FreshnessJudge(loaded(tmp_path, halves, toml=SEVERAL))
    states = {(dict(entry.specialisation)["T"], judge.judge(entry).state) for entry in before}
    assert states == {("float16", State.INCOMPLETE), ("float32", State.FRESH)}


def test_a_lock_whose_rows_name_the_space_of_all_types_is_fresh(tmp_path):
    halves = ("[implementations.plain]\n", "[implementations.plain]\nconstraints = { where = [\"T == 'float16'\"] }\n")
    spec = loaded(tmp_path, halves, toml=SEVERAL)
    row = next(row for row in rows(spec) if dict(row.specialisation)["T"] == "float32")
    own = space_key(spec, row.specialisation)
    assert own != space_key(spec)
    assert {FreshnessJudge(spec).judge(replace(row, space=key)).state for key in (own, space_key(spec))} == {
        State.FRESH
    }


def test_a_type_that_the_spec_no_longer_has_makes_its_rows_stale(tmp_path):
    spec = loaded(tmp_path)
    before = rows(spec)
    judge = FreshnessJudge(edited(spec, "scale.toml", '"float32", "float16"]', '"float32"]'))
    states = {(dict(row.specialisation)["T"], judge.judge(row).state, judge.judge(row).reason) for row in before}
    assert states == {("float16", State.STALE, "the spec has no T=float16"), ("float32", State.FRESH, "")}


@pytest.mark.parametrize(("file", "old", "new", "state", "reason"), EDITS)
def test_a_selection_stands_as_a_row_does(tmp_path, file, old, new, state, reason):
    spec = loaded(tmp_path)
    chosen = selection(spec, (("T", "float32"),))
    assert FreshnessJudge(spec).judge(chosen).state is State.FRESH
    verdict = FreshnessJudge(edited(spec, file, old, new)).judge(chosen)
    assert (verdict.state, verdict.reason) == (state, reason)


def test_a_selection_that_time_ended_or_whose_dims_or_type_are_gone(tmp_path):
    spec = loaded(tmp_path)
    chosen = selection(spec, (("T", "float32"),))
    judge = FreshnessJudge(spec)
    ended = judge.judge(replace(chosen, certificate=None, space=""))
    assert (ended.state, ended.reason) == (State.INCOMPLETE, "the budget ended before it was certified")
    assert judge.judge(replace(chosen, reach=(("m", (1, 2)),))).reason == "the spec has other dims"
    narrower = FreshnessJudge(edited(spec, "scale.toml", '"float32", "float16"]', '"float16"]'))
    assert narrower.judge(chosen).reason == "the spec has no T=float32"


def test_what_is_left_of_a_stale_selection_compares_with_its_default_as_before(tmp_path):
    spec = loaded(tmp_path)
    chosen = selection(spec, (("T", "float32"),))
    winner, default = chosen.choices
    judge = FreshnessJudge(edited(spec, *NARROW))
    assert judge.judge(chosen).reason == "the constraints do not admit block=256, vec=4"
    left = judge.selection_remnant(chosen)
    assert left == replace(chosen, choices=(default,), certificate=None, space="")
    assert judge.judge(left).state is State.INCOMPLETE
    other = replace(winner, candidate="of yesterday", configuration=replace(winner.configuration, values=(("vec", 9),)))
    three = replace(chosen, choices=(other, *chosen.choices))
    judge = FreshnessJudge(load(spec.folder / "scale.toml"))
    assert judge.selection_remnant(three).choices == (default,)
    wide = FreshnessJudge(edited(spec, "scale.toml", '"vec * sizeof(T) <= 8"', '"vec * sizeof(T) <= 16"'))
    assert wide.selection_remnant(three).choices == chosen.choices
    assert wide.selection_remnant(replace(chosen, specialisation=(("T", "int8"),))) is None
    stale_default = replace(chosen, choices=(winner, replace(default, candidate="of yesterday")))
    assert wide.selection_remnant(stale_default) is None
