"""A default that depends on the problem on a GPU: tuned against it, called at every size, asked for by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pretuned.spec import space
from pretuned.spec.loader import load
from pretuned.spec.space import Problem

cupy = pytest.importorskip("cupy")

pytestmark = pytest.mark.gpu
KERNELS = Path(__file__).parents[1] / "data" / "defaults"
SIZES = [(1, 1), (16, 512), (3, 1020), (3, 1023), (255, 1024), (256, 1025), (4096, 4096), (300, 4098)]


def default(tokens, d):
    problem = Problem(specialisation=(), dims=(("d", d), ("tokens", tokens)))
    return dict(space.default_at(load(KERNELS / "scale_rows.toml"), problem).values)


@pytest.mark.parametrize("asked", [{}, {"defaults": ["scale_rows"]}], ids=["as tuned", "defaults"])
def test_every_size_is_right(tuned, asked):
    with tuned.using(**asked):
        for tokens, d in SIZES:
            x, w = cupy.random.standard_normal((tokens, d), "float32"), cupy.random.standard_normal(d, "float32")
            for _ in range(3):  # and by the fast path
                assert bool((tuned.scale_rows(x, w) == x * w).all()), (tokens, d)
            if asked:
                assert tuned.explain("scale_rows", tokens=tokens, d=d).configuration == default(tokens, d)
        tuned.scale_rows.prepare()


def test_each_row_ends_with_the_default_of_its_problem(project):
    lock = json.loads((project / "pretuned.lock.json").read_text())
    assert lock["rows"]
    for row in lock["rows"]:
        assert row["choices"][-1]["configuration"] == default(row["problem"]["tokens"], row["problem"]["d"])
    for selection in lock["selections"]:
        assert selection["defaults"] == 6
