"""A problem at another place: other memory, the same inputs, and no more memory than there is."""

from __future__ import annotations

import numpy as np
import pytest

from pretuned.measure.host.machine import HostMachine
from pretuned.measure.launch import arrays
from pretuned.measure.machine import OutOfMemory
from pretuned.measure.pristine import Pools
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.measure.stage import Stage, demand_room, footprint
from pretuned.spec import space
from pretuned.spec.space import all_problems
from specs import loaded


class Machine(HostMachine):
    free = 1 << 30
    trimmed = 0

    def free_bytes(self):
        return self.free

    def held_bytes(self):
        return (1 << 30) - self.free

    def trim(self):
        self.trimmed += 1
        self.free = 1 << 30


@pytest.fixture
def stage(tmp_path):
    spec = loaded(tmp_path)
    default = CompiledCandidate(configuration=space.default(spec), image=b"", digest="0")
    request = PrepareRequest(spec=spec, problem=all_problems(spec)[-1], default=default, seed=3)
    return Stage(machine := Machine(), request, Pools(machine))


def test_what_does_not_fit_is_refused_and_what_would_fit_without_others_says_so(tmp_path):
    spec, machine = loaded(tmp_path), Machine()
    buffers = arrays(spec, all_problems(spec)[-1])
    machine.free = footprint(buffers)
    with pytest.raises(OutOfMemory) as error:
        demand_room(machine, buffers)
    assert str(error.value) == (
        "takes 0.0 GB of device memory; 80% of the free 0.0 GB are allowed; 1.1 GB are taken: end other programs that "
        "hold the GPU's memory (`nvidia-smi` lists them), or wait for their end"
    )
    assert error.value.passing
    machine.held_bytes = lambda: 0
    with pytest.raises(OutOfMemory, match=r"of the free 0\.0 GB are allowed$") as error:
        demand_room(machine, buffers)
    assert not error.value.passing


def layout(stage):
    return [region.address for regions in stage.workspace.sets for region in regions.values()]


def test_another_place_has_the_same_inputs_elsewhere(stage):
    addresses, inputs = layout(stage), stage.workspace.array(0, "x")
    stage.move(0)
    assert layout(stage) == addresses
    stage.move(1)
    assert set(layout(stage)).isdisjoint(addresses)
    np.testing.assert_array_equal(stage.workspace.array(1, "x"), inputs)


def test_where_two_layouts_do_not_fit_the_old_one_goes_first(stage):
    machine, count = stage._machine, stage.workspace.count
    stage.move(1)
    assert machine.trimmed == 0
    machine.free = stage.workspace.allocated_bytes
    stage.move(2)
    assert (machine.trimmed, stage.workspace.count) == (1, count)
