"""Sizes that configurations are executed at where only correctness counts."""

import pytest

from kernel_folders import bundled
from pretuned.device.host import FACTS
from pretuned.spec import space
from pretuned.tune.trials import trials
from specs import loaded

TEMPLATES = bundled()


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name != "hgemm"])  # inline PTX: for GPUs only
def test_tails_and_vectors_of_every_configuration_run(name):
    spec = TEMPLATES[name]
    for specialisation in space.specialisations(spec):
        for trial in trials(spec, specialisation, FACTS):
            if trial.configuration.implementation == "streamed":  # clusters and inline PTX: for GPUs only
                continue
            step = 32 if trial.configuration.implementation == "vectors" else 16  # it takes whole vectors of 16 bytes
            sizes = [[value for _, value in problem.dims] for problem in trial.problems]
            if trial.configuration.implementation != "flat":  # it takes rows that are no whole vectors
                assert any(any(size % 16 == 0 and size > 32 for size in dims) for dims in sizes), trial
            assert any(any(size > 1 and size % step for size in dims) for dims in sizes), trial


def test_a_configuration_that_is_legal_only_at_large_sizes_is_not_lost(tmp_path):
    spec = loaded(tmp_path, ("[1024, 65536]", "[1024, 33554432]"), ("n % vec == 0", "vec == 1 or n >= 2 ** 24"))
    first = next(space.specialisations(spec))
    found = {dict(trial.configuration.values)["vec"]: trial.problems for trial in trials(spec, first, FACTS)}
    assert found[1]
    assert (found[2], found[4]) == ((), ())
