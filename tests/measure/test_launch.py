"""What a call launches, worked out without a GPU."""

from __future__ import annotations

import pytest

from pretuned.measure.launch import BoundLaunch, arrays, initialised, launches, scalars, scratch
from pretuned.outcome import LaunchFailed
from pretuned.spec.space import Configuration, DeviceFacts, Problem
from specs import SEVERAL, loaded

FACTS = DeviceFacts(sm_count=132, compute_capability=90, shared_bytes=232448, l2_bytes=50 << 20)
PROBLEM = Problem(specialisation=(("T", "float16"),), dims=(("n", 1000),))


def main(**values):
    return Configuration(implementation="main", values=tuple(sorted(values.items())))


def test_extents_and_arguments(tmp_path):
    spec = loaded(tmp_path)
    (launch,) = launches(spec, PROBLEM, main(block=128, vec=4), FACTS)
    assert launch == BoundLaunch(
        function="scale", grid=(2, 1, 1), block=(128, 1, 1), shared_bytes=0, arguments=("y", "x", "a", "n")
    )


def test_arrays_and_scalars(tmp_path):
    spec = loaded(tmp_path)
    assert [(b.name, b.role, b.dtype, b.shape, b.nbytes) for b in arrays(spec, PROBLEM)] == [
        ("y", "out", "float16", (1000,), 2000),
        ("x", "in", "float16", (1000,), 2000),
    ]
    assert [(s.name, s.dtype, s.value) for s in scalars(spec, PROBLEM)] == [("a", "float32", 2.0), ("n", "int32", 1000)]


@pytest.mark.parametrize(  # each holds for the default, whose vec is 1: else the loader would refuse it
    ("old", "new", "message"),
    [
        (
            '["block"]',
            '["block", "16 if vec == 2 else 1"]',
            "scale: a block of 4096 threads; a device takes at most 1024",
        ),
        ('["block"]', '[1, 1, "65 if vec == 2 else 1"]', "scale: block z is 65; a device takes 1 to 64"),
        (
            '"ceil_div(n, block * vec)"',
            '"n * 10000000 if vec == 2 else block"',
            "scale: grid x is 10000000000; a device takes 0 to 2147483647",
        ),
        (
            '["block"]',
            '["block"]\nshared = "300 * 1024 if vec == 2 else 0"',
            "scale: 307200 bytes of dynamic shared memory; this device gives a block 232448",
        ),
    ],
)
def test_what_no_device_takes_is_a_launch_error(tmp_path, old, new, message):
    spec = loaded(tmp_path, (old, new))
    assert launches(spec, PROBLEM, main(block=256, vec=2), FACTS) == LaunchFailed(message=message)


SCRATCH = """
scratch  = [{ name = "partial", dtype = "T", shape = ["block", "device.sm_count"], init = 0 }]
launches = [{ function = "scale", grid = ["ceil_div(n, block)"], block = ["block"], arguments = ["y", "partial"] }]
"""


def test_scratch_and_initial_values_depend_on_the_configuration(tmp_path):
    old = 'launches = [{ function = "scale", grid = ["ceil_div(n, block)"], block = ["block"] }]\n'
    spec = loaded(
        tmp_path,
        (old, SCRATCH),
        ('template = "scale.cu.jinja"', 'init = ["y"]\ntemplate = "scale.cu.jinja"'),
        toml=SEVERAL,
    )
    plain = Configuration(implementation="plain", values=(("block", 128),))
    vectors = Configuration(implementation="vectors", values=(("vec", 1),))
    (buffer,) = scratch(spec, PROBLEM, plain, FACTS)
    assert (buffer.name, buffer.role, buffer.dtype, buffer.shape) == ("partial", "scratch", "float16", (128, 132))
    assert scratch(spec, PROBLEM, vectors, FACTS) == ()
    assert initialised(spec, plain) == {"partial"}
    assert initialised(spec, vectors) == {"y"}
