"""Other layouts of a call's arrays: what a spec allows is verified, and a kernel that is wrong there is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from judged import failures
from pretuned.compile import host
from pretuned.compile.host import CPP
from pretuned.measure.host.machine import HostMachine
from pretuned.spec import space
from pretuned.spec.loader import load

KERNELS = Path(__file__).parents[1] / "data" / "arrays"
pytestmark = pytest.mark.skipif(host.compiler() is None, reason="no C++ compiler here")


def verdicts(spec, problem):
    """Return what the host says of each configuration: None, or the message."""
    return failures(HostMachine(), spec, problem, host.HOST, CPP)


def test_what_is_wrong_in_place_alone_is_found():
    spec = load(KERNELS / "add_scaled.toml")
    for configuration, message in verdicts(spec, space.all_problems(spec)[0]).items():
        if dict(configuration.values)["late"]:
            assert message.startswith("out: ")
            assert message.endswith("; with out in place of x, and right without")
        else:
            assert message is None


def test_what_takes_more_alignment_than_is_demanded_is_found():
    spec = load(KERNELS / "double_pairs.toml")
    right, wrong = verdicts(spec, space.all_problems(spec)[0]).values()
    assert right is None
    assert wrong.startswith("y: ")
    at = "y at a multiple of 8 bytes and x at a multiple of 8 bytes"
    assert wrong.endswith(f"; with {at} and no more, and right without")


def test_a_kernel_is_verified_with_an_optional_array_and_without():
    spec = load(KERNELS / "shift.toml")
    found = {}
    for problem in space.all_problems(spec):
        if dict(problem.specialisation)["T"] == "float32":
            for configuration, message in verdicts(spec, problem).items():
                key = dict(problem.specialisation)["has_bias"], dict(configuration.values)["careless"]
                found.setdefault(key, set()).add(message is None)
    assert found == {(False, 0): {True}, (False, 1): {True}, (True, 0): {True}, (True, 1): {False}}


def test_leading_dims_are_verified_as_one_dim():
    spec = load(KERNELS / "row_sums.toml")
    assert list(verdicts(spec, space.all_problems(spec)[0]).values()) == [None, None]


def test_what_is_wrong_where_rows_lie_apart_alone_is_found():
    spec = load(KERNELS / "apart.toml")
    found = {}
    for configuration, message in verdicts(spec, space.all_problems(spec)[0]).items():
        values = dict(configuration.values)
        found[values["wrong"], values["vec"]] = message
    assert found.pop(("nothing", 1)) is found.pop(("nothing", 4)) is None
    odd, even = ((f"with x_stride = {x} (not 64) and y_stride = {y} (not 64)") for x, y in ((69, 67), (72, 68)))
    assert len(found) == 7
    for (wrong, vec), message in found.items():
        by = even if vec == 4 and wrong != "assumes" else odd
        assert message.endswith(f"; {by}, and right without")
    assert found["fills", 4] == (
        f"y: written between its rows, first at element 64 from its start; {even}, and right without"
    )


def test_planes_and_rows_may_lie_apart():
    spec = load(KERNELS / "planes.toml")
    right, wrong = verdicts(spec, space.all_problems(spec)[0]).values()
    assert right is None
    apart = "with x_plane = 162 (not 160) and y_plane = 172 (not 160) and y_row = 34 (not 32)"
    assert wrong.endswith(f"; {apart}, and right without")
