"""200 candidates of which 80 crash, hang or are wrong, in random order: each has its outcome, the GPU stays healthy."""

from __future__ import annotations

import random
import time
import tomllib
from pathlib import Path

import pytest

from killing import within
from leftovers import marked
from pretuned.config import GPU
from pretuned.outcome import Crashed, TimedOut, WrongResult
from pretuned.spec.loader import load
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import all_problems
from pretuned.tune.events import Failed
from pretuned.tune.request import TuningRequest, find_device
from pretuned.tune.session import tune

pytestmark = pytest.mark.gpu
FOLDER = Path(__file__).parent / "survival"
COUNT = 200
BUDGET_S = 240.0
EXPECTED = {3: Crashed, 7: Crashed, 5: TimedOut, 9: WrongResult}


def spec_of_many() -> KernelSpec:
    """The spec with its cases shuffled: what `case` does follows from its last digit, its place from its rank."""
    document = tomllib.loads((FOLDER / "survival.toml").read_text(encoding="utf-8"))
    numbers = [10 * rank + digit for rank in range(COUNT // 10) for digit in range(10)]
    high = random.Random(11).sample(range(1, 4 * COUNT), COUNT - 1)  # so that their order says nothing of them
    cases = [0, *(10 * place + number % 10 for place, number in zip(high, numbers[1:], strict=True))]
    return KernelSpec(**document | {"space": {"case": cases}}, name="survival", folder=FOLDER)


def test_every_candidate_has_its_outcome_and_nothing_is_left_behind(tmp_path, capsys):
    assert load(FOLDER / "survival.toml").name == "survival"
    spec, target, failures = spec_of_many(), find_device(GPU, {}), {}

    def listen(event):
        if isinstance(event, Failed):
            failures[dict(event.configuration.values)["case"]] = event.failure

    started = time.monotonic()
    request = TuningRequest(spec=spec, problems=tuple(all_problems(spec)))
    with marked() as living:
        tuned = tune([request], target, cache_folder=tmp_path, budget_s=BUDGET_S, listen=listen)
        took_s = time.monotonic() - started
        assert within(5, lambda: not living())
    with capsys.disabled():
        counts = {kind.__name__: sum(isinstance(f, kind) for f in failures.values()) for kind in set(EXPECTED.values())}
        print(f"\n{COUNT} candidates: {took_s:.1f} s, {counts}")
    assert took_s < BUDGET_S + 10
    expected = {case: EXPECTED[case % 10] for case in dict(spec.space)["case"] if case % 10 in EXPECTED}
    assert {case: type(failure) for case, failure in failures.items()} == expected
    assert len(tuned.rows) == 1
    again = tune([request], target, cache_folder=tmp_path)
    assert (again.rows, again.spending.launched) == (tuned.rows, 0)
