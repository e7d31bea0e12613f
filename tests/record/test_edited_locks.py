"""Locks that a hand or a merge has changed: every field is judged, and what is wrong is told with its place."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import H100, rows
from locks import sealed
from pretuned.errors import LockError, StorageError
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.record.rows import Choice, Row
from pretuned.spec.space import Configuration, Problem, pairs
from specs import loaded

RESTORE = "; restore the line from version control, or delete it and run `pretuned tune`"


@pytest.fixture
def document(tmp_path):
    lock = Lock().updated({H100.name: H100}, rows(loaded(tmp_path)))
    return json.loads(lockfile.dumps(lock))


def refused(document):
    with pytest.raises(LockError) as error:
        lockfile.loads(document, "lock")
    return str(error.value)


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("compute_capability", "90 --dangerous", "'90 --dangerous', not a whole number"),
        ("sm_count", 1.5, "1.5, not a whole number"),
        ("power_w", True, "True, not a whole number"),
        ("name", 7, "7, not a text"),
    ],
)
def test_a_device_with_a_field_of_the_wrong_kind(document, field, value, shown):
    document["devices"][H100.name][field] = value
    assert refused(document) == f"lock: devices[\"{H100.name}\"]: '{field}' is {shown}{RESTORE}"


def test_a_device_that_lacks_a_field(document):
    del document["devices"][H100.name]["l2_bytes"]
    assert refused(document) == f"lock: devices[\"{H100.name}\"]: lacks 'l2_bytes'{RESTORE}"


@pytest.mark.parametrize("value", ["8.0", True, None, float("nan"), float("inf")])
def test_times_and_ratios_are_finite_numbers(document, value):
    document["rows"][2]["choices"][0]["time_us"] = value
    assert refused(document) == f"lock: rows[2].choices[0]: 'time_us' is {value!r}, not a number{RESTORE}"
    document["rows"][2]["choices"][0].update(time_us=8.0, ratio=[0.5, value])
    assert refused(document) == f"lock: rows[2].choices[0]: 'ratio' is {value!r}, not a number{RESTORE}"


@pytest.mark.parametrize(
    ("spread", "message"),
    [
        ([8.0, 7.0, 9.0], "'spread_us' is [8.0, 7.0, 9.0], not three times above 0 in ascending order"),
        ([0, 7.0, 9.0], "'spread_us' is [0, 7.0, 9.0], not three times above 0 in ascending order"),
        ([7.0, 9.0], "'spread_us' is [7.0, 9.0], not a list of 3"),
        ([7.0, 8.0, "9"], "'spread_us' is '9', not a number"),
        (None, "'spread_us' is None, not a list of 3"),
    ],
)
def test_a_spread_is_three_times_in_order(document, spread, message):
    document["rows"][0]["choices"][0]["spread_us"] = spread
    assert refused(document) == f"lock: rows[0].choices[0]: {message}{RESTORE}"


@pytest.mark.parametrize("value", [0, 0.0, -1.5])
def test_times_are_positive(document, value):
    document["rows"][0]["choices"][1]["time_us"] = value
    assert refused(document) == f"lock: rows[0].choices[1]: 'time_us' is {value!r}, not a time above 0{RESTORE}"


def test_a_skipped_problem_of_an_unknown_device(document):
    entry = {key: document["rows"][0][key] for key in ("kernel", "specialisation", "problem")}
    document["skipped"] = [{**entry, "device": "NVIDIA L4", "reason": "takes 99 GB"}]
    assert (
        refused(document)
        == f"lock: skipped[0]: names the device 'NVIDIA L4', which `devices` does not describe{RESTORE}"
    )


def test_a_number_beyond_all_floats(document):
    document["rows"][0]["choices"][0]["time_us"] = 10**400
    assert refused(document) == f"lock: rows[0].choices[0]: 'time_us' is 1{'0' * 79}..., not a number{RESTORE}"


@pytest.mark.parametrize("size", ["1024", True, None, 1.0])
def test_sizes_are_integers(document, size):
    document["rows"][1]["problem"]["n"] = size
    assert refused(document) == f"lock: rows[1]: 'n' of 'problem' is {size!r}, not a size{RESTORE}"


@pytest.mark.parametrize("value", [None, [], {}, "text", 3])
@pytest.mark.parametrize(
    "key", ["choices", "specialisation", "problem", "kernel", "candidate", "ratio", "configuration"]
)
def test_whatever_stands_in_a_field_the_answer_is_a_lock_error_or_a_row(document, key, value):
    entry = document["rows"][0]
    (entry if key in entry else entry["choices"][0])[key] = value
    try:
        lockfile.dumps(lockfile.loads(document, "lock"))
    except LockError as error:
        assert str(error).startswith("lock: rows[0]")  # noqa: PT017 - some of these are sound


def test_a_file_of_nothing_but_brackets(tmp_path):
    path = tmp_path / "pretuned.lock.json"
    path.write_text("[" * 200_000)
    with pytest.raises(LockError, match=r"pretuned\.lock\.json: is not JSON"):
        lockfile.read(path)


def test_a_row_that_stands_twice_counts_once(document):
    document["rows"] = [*document["rows"], *document["rows"]]
    assert len(lockfile.loads(document, "lock").rows) == 4


def test_a_failing_write_leaves_nothing_beside_the_lock(tmp_path, monkeypatch):
    def fail(self, target):
        raise OSError(errno.ENOSPC, "No space left on device", str(self), None, str(target))

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(StorageError, match="the lock cannot be written: No space left on device; make room there"):
        lockfile.write(tmp_path / "pretuned.lock.json", Lock())
    assert list(tmp_path.iterdir()) == []


values = st.one_of(st.booleans(), st.integers(), st.text(max_size=8))
assignments = st.dictionaries(st.text(min_size=1, max_size=8), values, max_size=3).map(pairs)
times = st.floats(min_value=1e-3, max_value=1e9)
texts = st.text(max_size=12)
choices = st.builds(
    Choice,
    configuration=st.builds(Configuration, implementation=texts, values=assignments),
    candidate=texts,
    cubin=texts,
    time_us=times,
    ratio=st.tuples(times, times),
    spread_us=st.none() | st.tuples(times, times, times).map(lambda found: tuple(sorted(found))),
)
sizes = st.dictionaries(st.sampled_from(["m", "n"]), st.integers(0, 2**40), min_size=1).map(pairs)
made_up = st.builds(
    Row,
    kernel=texts,
    device=st.just(H100.name),
    problem=st.builds(Problem, specialisation=assignments, dims=sizes),
    choices=st.lists(choices, min_size=1, max_size=3).map(tuple),
    **dict.fromkeys(("space", "verification", "compiler", "driver", "date"), texts),
)


@given(st.lists(made_up, max_size=5), st.randoms())
def test_whatever_rows_hold_they_come_back_in_one_order(found, random):
    lock = Lock().updated({H100.name: H100}, found)
    text = lockfile.dumps(lock)
    assert lockfile.loads(json.loads(text), "lock") == lock
    assert lockfile.dumps(lockfile.loads(json.loads(text), "lock")) == text
    shuffled = list(lock.rows)
    random.shuffle(shuffled)
    assert lockfile.dumps(Lock().updated({H100.name: H100}, shuffled)) == text
    assert sum(line.startswith('{"kernel"') for line in text.splitlines()) == len(lock.rows)


EDITS = {
    "a time": lambda document: document["rows"][0]["choices"][0].update(time_us=0.5),
    "a ratio": lambda document: document["rows"][0]["choices"][0].update(ratio=[0.1, 0.2]),
    "a cubin": lambda document: document["rows"][0]["choices"][0].update(cubin="0" * 64),
    "the date": lambda document: document["rows"][0].update(date="2020-01-01"),
    "the driver": lambda document: document["rows"][0].update(driver="1"),
    "what is new": lambda document: document["rows"][0].update(note="mine"),
    "no digest": lambda document: document["rows"][0].pop("digest"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_line_that_was_edited_is_named_and_refused(document, edit):
    edit(document)
    with pytest.raises(LockError) as caught:
        lockfile.loads(document, "lock")
    assert str(caught.value) == (
        "lock: rows[0]: not as pretuned wrote it (its digest differs); restore the line from version control, or "
        "delete it and run `pretuned tune`; `pretuned merge` joins locks of several machines"
    )


def test_a_devices_numbers_cannot_be_edited_either(document):
    next(iter(document["devices"].values()))["sm_count"] += 1
    with pytest.raises(LockError, match=r"devices\[.*\]: not as pretuned wrote it"):
        lockfile.loads(document, "lock")


def test_lines_of_two_locks_stand_in_one_file_as_git_merges_them(document):
    there, here = dict(document), dict(document)
    there["rows"], here["rows"] = document["rows"][::2], document["rows"][1::2]
    merged = {**there, "rows": [*there["rows"], *here["rows"]]}
    assert lockfile.loads(merged, "lock") == lockfile.loads(document, "lock")


def test_two_lines_that_answer_for_the_same_are_refused(document):
    other = json.loads(json.dumps(document["rows"][0]))
    other["date"] = "2020-01-01"
    document["rows"].append(other)
    with pytest.raises(LockError, match=r"lock: two lines answer for .*; delete one of them, or take both locks"):
        lockfile.loads(sealed(document), "lock")
