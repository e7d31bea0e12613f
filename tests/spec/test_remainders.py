"""A guard may ask for any remainder of a dim, and is the same to enumeration, to the tuner and to a call."""

import numpy as np
import pytest

from pretuned.device.host import FACTS
from pretuned.spec import space
from pretuned.spec.guards import guards
from pretuned.spec.space import Problem
from pretuned.tune.space.points import Points
from pretuned.tune.trials import trials
from specs import loaded

FLOAT32 = (("T", "float32"),)
NO_ALIGN = (', align = "vec * sizeof(T)"', "")
GUARDS = [
    "vec == 1 or n % (block * vec) == 0",  # nothing but whole tiles
    "vec == 1 or n % vec != 0",  # ragged sizes alone
    "vec == 1 or 0 < n % 8 <= vec",
    "vec == 1 or n % 3 == 0 and n % 5 == 4",
    "(n + 1) % vec == 0",
    "-n % vec <= vec // 2",
    "vec == 1 or min(n % 8, 8 - n % 8) < vec",
]


@pytest.mark.parametrize("guard", GUARDS)
def test_enumeration_and_calls_agree_at_every_remainder(tmp_path, guard):
    spec = loaded(tmp_path, ("n % vec == 0", guard), NO_ALIGN)
    problems = [Problem(specialisation=FLOAT32, dims=(("n", n),)) for n in range(1, 1100, 7)]
    points = Points.of(spec, FLOAT32, problems, FACTS)
    asked = {c: guards(spec, FLOAT32, c, FACTS) for c in points}
    seen = set()
    for problem in problems:
        legal = np.array([space.legal(spec, problem, c, FACTS) for c in points])
        called = [all(eval(text, {"min": min}, dict(problem.dims)) for text in asked[c].where) for c in points]
        assert called == legal.tolist()
        assert points.legal(problem)[1:].tolist() == legal[1:].tolist()  # the default comes first, wherever it is legal
        seen.add(tuple(called))
    assert len(seen) > 1


@pytest.mark.parametrize("guard", GUARDS)
def test_what_a_remainder_admits_is_executed(tmp_path, guard):
    spec = loaded(tmp_path, ("n % vec == 0", guard), NO_ALIGN)
    assert all(trial.problems for trial in trials(spec, FLOAT32, FACTS))
