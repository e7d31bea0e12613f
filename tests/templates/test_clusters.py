"""Rows that share a block are not those that have a cluster of blocks: each would wait for the other's."""

import itertools

import pytest

from kernel_folders import bundled
from pretuned.measure.launch import launches
from pretuned.spec import space
from pretuned.spec.check.promise import SOME_DEVICE
from pretuned.spec.space import Problem

SPECS = bundled()
WITH_CLUSTERS = [
    (name, implementation)
    for name, spec in SPECS.items()
    for implementation, one in spec.implementations.items()
    if set(spec.dims) == {"rows", "cols"} and max(one.space.get("cluster", [1])) > 1
]
# Columns that lanes, warps, blocks and clusters have, and where one of these ends for the items that are tuned over.
COLUMNS = (1, 100, 256, 257, 1000, 1024, 1025, 2048, 2049, 2304, 2305, 4096, 4608, 4609, 8192, 9216, 18432, 40000)


@pytest.mark.parametrize(("name", "implementation"), WITH_CLUSTERS)
def test_the_rows_of_a_cluster_share_no_block(name, implementation):
    spec, met = SPECS[name], 0
    candidates = list(space.combinations(implementation, spec.implementations[implementation]))
    for specialisation, cols, rows in itertools.product(space.specialisations(spec), COLUMNS, (8, 5000)):
        problem = Problem(specialisation=specialisation, dims=(("cols", cols), ("rows", rows)))
        for configuration in candidates:
            if dict(configuration.values)["cluster"] > 1 and space.legal(spec, problem, configuration, SOME_DEVICE):
                met += 1
                first, *_ = launches(spec, problem, configuration, SOME_DEVICE)
                assert first.block[1] == 1, f"{configuration} at {problem}"
    assert met
