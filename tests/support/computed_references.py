"""Specs with a `gpu-reference`, and what a machine computes by it."""

from __future__ import annotations

import numpy as np

from pretuned.measure import data
from pretuned.measure.pristine import Pools
from pretuned.measure.references import DeviceReferences
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.spec.loader import load
from pretuned.spec.space import Configuration, Problem
from specs import SCALE, edited, write

KEY = ("[verify]\n", '[verify]\ngpu-reference = "reference.py:on_gpu"\n')
REFERENCE = """\
import numpy as np

def scale(x, a, **_):
    return a * x

"""
NOBODY = CompiledCandidate.of_call(Configuration(implementation="main", values=()))


def spec_with(folder, on_gpu, *edits, toml=SCALE, reference=REFERENCE):
    file = write(folder, edited(toml, KEY, *edits))
    (folder / "reference.py").write_text(f"{reference}{on_gpu}", encoding="utf-8")
    return load(file)


def at(n, dtype="float32"):
    return Problem(specialisation=(("T", dtype),), dims=(("n", n),))


class Answers:
    """What a machine answers about the references of problems, one after the other."""

    def __init__(self, spec, machine):
        self.spec, self.machine = spec, machine
        self.pools = Pools(self.machine)
        self.references = DeviceReferences(self.machine, self.pools)

    def __call__(self, problem, **given):
        """The machine's `y` as NumPy has it, or None where NumPy computes."""
        request = PrepareRequest(spec=self.spec, problem=problem, default=NOBODY, **given)
        stored = data.inputs(self.spec, problem, 0)
        self.right = data.reference(self.spec, problem, stored)["y"]
        found = self.references.find(request, self.pools.lay_out(stored).inputs)
        if found is None:
            return None
        array = np.empty(found["y"].shape, found["y"].dtype)
        self.machine.read(found["y"].memory.address, array)
        return array

    @property
    def note(self):
        (note,) = self.references.notes
        return note
