"""Selections in the lock: a line each, every field judged, and left as it was by a re-tune that confirms it."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace

import pytest

from builders import H100, losses, rows, selection, selections
from locks import sealed
from pretuned.errors import LockError
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.record.selections import Certificate
from specs import loaded

RESTORE = "; restore the line from version control, or delete it and run `pretuned tune`"
AT = (("n", 1024),)


@pytest.fixture
def spec(tmp_path):
    return loaded(tmp_path)


@pytest.fixture
def lock(spec):
    return Lock().updated({H100.name: H100}, rows(spec), (), selections(spec))


@pytest.fixture
def document(lock):
    return json.loads(lockfile.dumps(lock))


def refused(document):
    with pytest.raises(LockError) as error:
        lockfile.loads(sealed(document), "lock")
    return str(error.value)


def test_what_was_read_is_written_again_in_one_order(lock, spec):
    text = lockfile.dumps(lock)
    assert lockfile.loads(json.loads(text), "lock") == lock
    shuffled = selections(spec)
    random.Random(1).shuffle(shuffled)
    assert lockfile.dumps(Lock().updated({H100.name: H100}, rows(spec), (), shuffled)) == text
    bare = [replace(rule, certificate=None, headers=(("a.cuh", "1"),)) for rule in selections(spec)]
    bare = Lock().updated({H100.name: H100}, (), (), bare)
    assert lockfile.loads(json.loads(lockfile.dumps(bare)), "lock") == bare


def test_a_line_begins_with_what_the_rule_loses(lock):
    (line, _) = (line for line in lockfile.dumps(lock).splitlines() if '"certificate"' in line)
    assert line.startswith(
        '{"kernel": "scale", "device": "NVIDIA H100 80GB HBM3", "specialisation": {"T": "float16"}, "certificate": '
        '{"seed": 7, "inside": {"problems": 32, "mean": 0.006, "p95": 0.021, "worst": 0.043, "slower": 0.0, '
        '"worst_at": {"n": 1024}}, "outside": '
    )


CERTIFIED = Certificate(seed=8, inside=losses(AT, mean=0.008), outside=losses(AT, mean=0.010))
OTHER_COSTS = (("n", 30),)
NOT_CONFIRMED = {
    "more effort": {"effort": "thorough"},
    "is a new certificate of the same rule": {},
    "comes from another space": {"space": "other"},
    "is judged by another reference": {"verification": "other"},
    "is compiled by another NVRTC": {"compiler": "13.1.80"},
    "loses clearly less": {"certificate": replace(CERTIFIED, inside=losses(AT, mean=0.003))},
    "is slower than the default less often": {"certificate": replace(CERTIFIED, outside=losses(AT, mean=0.001))},
    "weighs by calls": {"certificate": replace(CERTIFIED, calls=True)},
}


def test_a_re_tune_that_confirms_leaves_the_line(spec, lock):
    old = lock.selections[0]
    again = replace(refitted(old), certificate=CERTIFIED, date="2027-01-01", driver="600")
    for new in (again, replace(again, space=""), replace(again, problems=100), replace(again, certificate=None)):
        assert lock.updated({}, (), (), [new]) == lock


def refitted(rule):
    return replace(rule, choices=tuple(replace(choice, cost=OTHER_COSTS) for choice in rule.choices))


def test_what_loses_more_than_is_admitted_makes_way_for_what_confirms_it(lock):
    new = replace(refitted(lock.selections[0]), certificate=CERTIFIED)
    assert lock.updated({}, (), (), [new], max_loss=0.006) == lock
    assert lock.updated({}, (), (), [new], max_loss=0.005).selections[0] == new


@pytest.mark.parametrize("change", NOT_CONFIRMED.values(), ids=NOT_CONFIRMED)
def test_a_re_tune_that_finds_something_else_writes_it(lock, change):
    rule = refitted(lock.selections[0]) if change else lock.selections[0]
    new = replace(rule, **{"certificate": CERTIFIED, **change})
    assert lock.updated({}, (), (), [new]).selections == (new, lock.selections[1])


def test_a_certificate_replaces_none_and_other_binaries_replace_all(lock):
    old = replace(lock.selections[0], certificate=None)
    bare = lock.without([old.key]).updated({}, (), (), [old])
    assert bare.updated({}, (), (), [lock.selections[0]]) == lock
    other = replace(old, choices=tuple(replace(choice, cubin="d" * 64) for choice in old.choices))
    assert lock.updated({}, (), (), [other]).selections[0] == other


def test_a_device_stays_while_a_selection_names_it(spec, lock):
    only = lock.without(lockfile.row_key(row) for row in lock.rows)
    assert (only.rows, list(only.devices)) == ((), [H100.name])
    found = only.selections[0]
    assert found.key == ("scale", H100.name, found.specialisation)
    assert only.without(only.keys) == Lock()


LARGEST = 2**62
WRONG = {
    "'margins'": (lambda rule: rule.pop("margins"), ": lacks 'margins'"),
    "a margin": (
        lambda rule: rule.update(margins=[1001, 0]),
        ": a margin is 1001, not a whole number from 0 to 1000",
    ),
    "a negative margin": (
        lambda rule: rule.update(margins=[20, -1]),
        ": a margin is -1, not a whole number from 0 to 1000",
    ),
    "a margin's kind": (
        lambda rule: rule.update(margins=[True, 0]),
        ": a margin is True, not a whole number from 0 to 1000",
    ),
    "one margin": (lambda rule: rule.update(margins=[20]), ": 'margins' is [20], not a list of 2"),
    "no choices": (
        lambda rule: rule["choices"].clear(),
        ": the number of choices is 0, not a whole number from 1 to 64",
    ),
    "choices of another kind": (lambda rule: rule.update(choices=5), ": 'choices' is 5, not a list"),
    "a choice of another kind": (
        lambda rule: rule["choices"].append("block=256"),
        ".choices[2]: is 'block=256', not an object",
    ),
    "a choice without binary": (lambda rule: rule["choices"][1].pop("cubin"), ".choices[1]: lacks 'cubin'"),
    "many choices": (
        lambda rule: rule.update(choices=[rule["choices"][0] | {"implementation": str(n)} for n in range(65)]),
        ": the number of choices is 65, not a whole number from 1 to 64",
    ),
    "one twice": (
        lambda rule: rule["choices"].append(rule["choices"][0]),
        ": 'choices' has the configuration 'block=256, vec=4' twice",
    ),
    "a cost": (
        lambda rule: rule["choices"][0]["cost"].update(n=-1),
        f".choices[0]: the cost of 'n' is -1, not a whole number from 0 to {LARGEST - 1}",
    ),
    "a large cost": (
        lambda rule: rule["choices"][0]["cost"].update(n=LARGEST),
        f".choices[0]: the cost of 'n' is {LARGEST}, not a whole number from 0 to {LARGEST - 1}",
    ),
    "a cost's kind": (
        lambda rule: rule["choices"][0]["cost"].update(n=0.5),
        f".choices[0]: the cost of 'n' is 0.5, not a whole number from 0 to {LARGEST - 1}",
    ),
    "a term's name": (
        lambda rule: rule["choices"][0]["cost"].update({"n * block": 1}),
        (
            ".choices[0]: the term 'n * block' is not a cost over n; write dims, integers, + - *, // and % and "
            "ceil_div by a positive integer or max(1, ...), comparisons, and/or/not, if/else, min, max"
        ),
    ),
    "a reach": (
        lambda rule: rule["reach"].update(n=[9, 4]),
        f": the largest 'n' is 4, not a whole number from 9 to {LARGEST}",
    ),
    "a reach's kind": (lambda rule: rule["reach"].update(n=9), ": 'n' is 9, not a list of 2"),
    "a certificate": (lambda rule: rule.update(certificate=5), ".certificate: is 5, not an object"),
    "a loss": (
        lambda rule: rule["certificate"]["inside"].update(mean=-0.1),
        ".certificate.inside: 'mean' is -0.1, not 0 or more",
    ),
    "no number": (
        lambda rule: rule["certificate"]["outside"].update(worst=None),
        ".certificate.outside: 'worst' is None, not a number",
    ),
    "NaN": (
        lambda rule: rule["certificate"]["inside"].update(mean=float("nan")),
        ".certificate.inside: 'mean' is nan, not a number",
    ),
    "a share": (
        lambda rule: rule["certificate"]["inside"].update(slower=2),
        ".certificate.inside: 'slower' is 2, not 0 to 1",
    ),
    "another dim": (
        lambda rule: rule["certificate"]["inside"].update(worst_at={"m": 1}),
        ".certificate.inside: 'worst_at' is {'m': 1}, not sizes of n",
    ),
    "a size beyond all": (
        lambda rule: rule["certificate"]["inside"].update(worst_at={"n": 10**4000}),
        f".certificate.inside: 'n' of 'worst_at' is 1{'0' * 79}..., not a whole number from 0 to {LARGEST}",
    ),
    "a seed": (
        lambda rule: rule["certificate"].update(seed="7"),
        f".certificate: 'seed' is '7', not a whole number from 0 to {LARGEST}",
    ),
    "effort": (lambda rule: rule.update(effort="quick"), ": 'effort' is 'quick', not one of fast, default, thorough"),
    "calls": (lambda rule: rule["certificate"].update(calls=1), ".certificate: 'calls' is 1, not true or false"),
}


@pytest.mark.parametrize(("edit", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_with_a_line_is_told_with_its_place(document, edit, message):
    edit(document["selections"][1])
    assert refused(document) == f"lock: selections[1]{message}{RESTORE}"


@pytest.mark.parametrize("term", ["__import__('os')", "n +", "n.real", "1 // 0", "n" * 501, "", "n ** n", "1 // n"])
def test_terms_are_of_the_language_of_costs(document, term):
    document["selections"][0]["choices"][1]["cost"] = {term: 1}
    assert re.match(r"lock: selections\[0\]\.choices\[1\]: (a cost's|the) term ", refused(document))


@pytest.mark.parametrize("value", [None, [], {}, "text", 3, [[]]])
@pytest.mark.parametrize(
    "key", ["choices", "specialisation", "reach", "margins", "problems", "certificate", "cost", "inside", "worst_at"]
)
def test_whatever_stands_in_a_field_the_answer_is_a_lock_error_or_a_selection(document, key, value):
    rule = document["selections"][0]
    places = (rule, rule["choices"][0], rule["certificate"], rule["certificate"]["inside"])
    next(place for place in places if key in place)[key] = value
    try:
        lockfile.dumps(lockfile.loads(sealed(document), "lock"))
    except LockError as error:
        assert str(error).startswith("lock: selections[0]")  # noqa: PT017 - some of these are sound


def test_a_line_that_was_edited_one_that_stands_twice_and_one_of_an_unknown_device(document, spec):
    other = json.loads(json.dumps(document))
    other["selections"][1]["certificate"]["inside"]["mean"] = 0.0001
    with pytest.raises(LockError, match=r"lock: selections\[1\]: not as pretuned wrote it"):
        lockfile.loads(other, "lock")
    other["selections"].append(document["selections"][1])
    assert refused(other).startswith(
        "lock: two lines answer for scale on NVIDIA H100 80GB HBM3 at T=float32; delete one of them, or take both"
    )
    lone = Lock(selections=(selection(spec, (("T", "float32"),)),))
    assert refused(json.loads(lockfile.dumps(lone))) == (
        f"lock: selections[0]: names the device {H100.name!r}, which `devices` does not describe{RESTORE}"
    )
