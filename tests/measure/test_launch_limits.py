"""The edges of what a device takes."""

from __future__ import annotations

import pytest

from pretuned.measure.launch import launches, scalars
from pretuned.outcome import LaunchFailed
from pretuned.spec.space import Configuration, DeviceFacts, Problem
from specs import loaded

FACTS = DeviceFacts(sm_count=132, compute_capability=90, shared_bytes=232448, l2_bytes=50 << 20)
TWO = Configuration(implementation="main", values=(("block", 128), ("vec", 2)))


def problem(n=1000):
    return Problem(specialisation=(("T", "float32"),), dims=(("n", n),))


def test_a_grid_of_zero_is_a_launch(tmp_path):
    (launch,) = launches(loaded(tmp_path), problem(0), TWO, FACTS)
    assert launch.grid == (0, 1, 1)


def test_the_largest_extents_are_taken(tmp_path):
    old = 'grid     = ["ceil_div(n, block * vec)"]\nblock    = ["block"]\n'
    new = (
        'grid     = [2147483647, 65535, 65535]\nblock    = ["block // 16", 2, 64]\n'
        'shared   = "232448 if vec == 2 else 0"\n'
    )
    (launch,) = launches(
        loaded(tmp_path, (old, new), ("default]\nblock = 256", "default]\nblock = 128")), problem(), TWO, FACTS
    )
    assert launch.grid == (2147483647, 65535, 65535)
    assert launch.block == (8, 2, 64)
    assert launch.shared_bytes == 232448


@pytest.mark.parametrize(  # each holds for the default, whose vec is 1: else the loader would refuse it
    ("old", "new", "message"),
    [
        (
            '"ceil_div(n, block * vec)"',
            'n, "65536 if vec == 2 else 1"',
            "scale: grid y is 65536; a device takes 0 to 65535",
        ),
        (
            '"ceil_div(n, block * vec)"',
            '"n - 2000 * (vec - 1)"',
            "scale: grid x is -1000; a device takes 0 to 2147483647",
        ),
        ('["block"]', '["block * (2 - vec)"]', "scale: block x is 0; a device takes 1 to 1024"),
        (
            '["block"]\n',
            '["block"]\nshared = "1 - vec"\n',
            "scale: -1 bytes of dynamic shared memory; this device gives a block 232448",
        ),
    ],
)
def test_what_no_device_takes(tmp_path, old, new, message):
    spec = loaded(tmp_path, (old, new.replace("n,", '"n",')))
    assert launches(spec, problem(), TWO, FACTS) == LaunchFailed(message=message)


def test_an_extent_without_a_value_is_a_launch_error(tmp_path):
    spec = loaded(tmp_path, ('["block"]', '["block if vec == 1 else block // (vec - 2)"]'))
    answer = launches(spec, problem(), TWO, FACTS)
    assert isinstance(answer, LaunchFailed)
    assert answer.message.startswith("scale: ")


def test_a_size_is_passed_as_the_problem_has_it(tmp_path):
    found = {scalar.name: scalar.value for scalar in scalars(loaded(tmp_path), problem(7))}
    assert found == {"a": 2.0, "n": 7}
