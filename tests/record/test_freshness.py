"""What makes a row stale, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import rows
from pretuned.record.freshness import Judge, State
from pretuned.spec.loader import load
from specs import loaded


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
        "the space or the sizes have changed",
    ),
    ("scale.toml", "[1024, 65536]", "[1024, 65536, 99999]", State.INCOMPLETE, "the space or the sizes have changed"),
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
    assert Judge(spec).judge(row).state is State.FRESH
    verdict = Judge(edited(spec, file, old, new)).judge(row)
    assert (verdict.state, verdict.reason) == (state, reason)


def test_a_configuration_edited_by_hand_is_named(tmp_path):
    spec = loaded(tmp_path)
    row = rows(spec)[0]
    hacked = replace(row.choices[0].configuration, values=(("block", 96), ("vec", 4)))
    row = replace(row, choices=(replace(row.choices[0], configuration=hacked), row.choices[1]))
    verdict = Judge(spec).judge(row)
    assert (verdict.state, verdict.reason) == (State.STALE, "the configuration block=96, vec=4 is not in the space")
