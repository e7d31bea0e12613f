"""Elements beside their references, and whether they are right, for every machine that judges."""

import math

import numpy as np

from pretuned.compile.pool import compile_all
from pretuned.measure.bench import Bench
from pretuned.measure.machine import Off
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.loader import load
from pretuned.spec.space import all_problems

RTOL = 1e-5
CASES = [
    (1.0, 1.0, True),
    (1.000005, 1.0, True),
    (1.1, 1.0, False),
    (math.inf, math.inf, True),
    (-math.inf, math.inf, False),
    (1e30, math.inf, False),
    (0.0, -math.inf, False),
    (math.nan, math.nan, True),
    (math.nan, 1.0, False),
    (1.0, math.nan, False),
]

# The same of complex numbers, whose error is the magnitude of the difference: 3 and 4 parts of five in each part.
COMPLEX_CASES = [
    (3 + 4j, 3 + 4j, True),
    (3.00002 + 4.00003j, 3 + 4j, True),
    (3.00004 + 4.00005j, 3 + 4j, False),  # each part alone is off by less than is allowed of the whole
    (1e-5 + 1j, 1j, True),  # relative to the whole, not to each part
    (-3 + 4j, 3 + 4j, False),
    (4 + 3j, 3 + 4j, False),
    (3 - 4j, 3 + 4j, False),
    (complex(math.inf, 1), complex(math.inf, 1), True),
    (complex(math.inf, 1), complex(math.inf, 1.000001), False),
    (complex(math.nan, 1), complex(math.nan, 1), True),
    (complex(math.nan, 1), complex(1, math.nan), False),
    (complex(math.nan, 1), 1 + 1j, False),
    (1 + 1j, complex(1, math.nan), False),
    (1e30 + 0j, complex(-math.inf, 0), False),
]

# Integers: dtype, what a kernel wrote, its reference, rtol, atol, and how far off it is (None: right).
INTEGER_CASES = [
    ("int8", 64, 63, 0.0, 1.0, None),
    ("int8", 65, 63, 0.0, 1.0, 2),
    ("int8", 127, -128, 0.0, 254.0, 255),
    ("int8", -128, 127, 0.0, 255.0, None),
    ("uint8", 0, 255, 0.0, 254.0, 255),
    ("uint8", 255, 0, 0.0, 0.9, 255),
    ("int16", -32768, 32767, 0.0, 0.0, 65535),
    ("uint32", 0, 2**32 - 1, 0.0, 1.0, 2**32 - 1),
    ("int32", -(2**31), 2**31 - 1, 0.0, 1.0, 2**32 - 1),
    ("int32", 110, 100, 0.1, 0.0, None),
    ("int32", 111, 100, 0.1, 0.0, 11),
    ("int32", -107, -100, 0.07, 0.0, None),
    ("int64", 2**53 + 1, 2**53, 0.0, 0.0, 1),  # float64 has the same number for both
    ("int64", 2**53 + 1, 2**53, 0.0, 1.0, None),
    ("int64", -(2**63), 2**63 - 1, 0.0, 1e18, 2**64 - 1),
    ("int64", -(2**63), 2**63 - 1, 3.0, 0.0, None),  # more is allowed than can be off
    ("int64", -(2**63), -(2**63) + 2, 0.0, 1.0, 2),
    ("uint64", 2**64 - 1, 2**64 - 3, 0.0, 1.0, 2),
    ("uint64", 0, 2**64 - 1, 0.0, 1.8e19, 2**64 - 1),
]
# Moves every element by `off` towards zero, so that each stays in the range of its type.
MOVED = """\
format = 1
arguments = [
  { name = "y", role = "out", dtype = "T", shape = ["n"] },
  { name = "x", role = "in", dtype = "T", shape = ["n"] },
  { name = "n", dtype = "int32" },
]
dims = { n = { sizes = [4096] } }
specialisations = { T = { dtypes = ["int8", "uint8", "int32", "int64", "uint64"] } }
space = { off = [0, 1, 2] }
default = { off = 0 }
launches = [{ function = "moved", grid = ["ceil_div(n, 128)"], block = [128] }]

[verify]
reference = "reference.py:moved"
inputs = "reference.py:extremes"
atol = { int8 = 1, uint8 = 1, int32 = 1, int64 = 1, uint64 = 1 }
"""
MOVED_TEMPLATE = """\
extern "C" __global__ void moved({{ T }}* y, const {{ T }}* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] > 1 ? x[i] - {{ off }} : x[i] + {{ off }};
}
"""
MOVED_REFERENCE = """\
import numpy as np

def moved(x, **_):
    return x

def extremes(generator, n, T, **_):
    kind = np.iinfo(T)
    return {"x": generator.choice(np.array([kind.min, 0, 5, kind.max], T), n)}
"""


def moved(folder):
    """Write the spec of MOVED and return it, loaded."""
    (folder / "moved.toml").write_text(MOVED, encoding="utf-8")
    (folder / "moved.cu.jinja").write_text(MOVED_TEMPLATE, encoding="utf-8")
    (folder / "reference.py").write_text(MOVED_REFERENCE, encoding="utf-8")
    return load(folder / "moved.toml")


def complex_finding(machine, out, reference):
    """Return what the machine finds of one complex128 in complex64."""
    ours, theirs = machine.allocate(8), machine.allocate(16)
    machine.write(ours.address, np.array([out], np.complex64))
    machine.write(theirs.address, np.array([reference], np.complex128))
    check = Off(address=ours.address, dtype="complex64", reference=theirs.address, size=1, rtol=RTOL, atol=0.0)
    (finding,) = machine.ask([check])
    return finding


def found(machine, dtype, out, reference, rtol, atol):
    """Return what the machine finds of one integer among two that are right."""
    ours, theirs = machine.allocate(24), machine.allocate(24)
    machine.write(ours.address, np.array([7, out, 9], dtype))
    machine.write(theirs.address, np.array([7, reference, 9], dtype))
    check = Off(address=ours.address, dtype=dtype, reference=theirs.address, size=3, rtol=rtol, atol=atol)
    (finding,) = machine.ask([check])
    return finding


def verdicts(machine, spec, architecture, toolchain):
    """Return what a machine says of each `off`, by type: None, or the message."""
    return {
        dict(problem.specialisation)["T"]: list(failures(machine, spec, problem, architecture, toolchain).values())
        for problem in all_problems(spec)
    }


def failures(machine, spec, problem, architecture, toolchain):
    """Return what a machine says of each configuration at a problem: None, or the message."""
    configurations = list(space.configurations(spec, problem, machine.facts))
    sources = [source_of(spec, problem.specialisation, one) for one in configurations]
    binaries = compile_all(sources, architecture, workers=1, toolchain=toolchain)
    entries = [
        CompiledCandidate.of(one, binaries[source.key]) for one, source in zip(configurations, sources, strict=True)
    ]
    bench = Bench(machine)
    bench.prepare(PrepareRequest(spec=spec, problem=problem, default=entries[0]))
    found = [bench.verify(entry).failure for entry in entries]
    return {one: failure and failure.message for one, failure in zip(configurations, found, strict=True)}
