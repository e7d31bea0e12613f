"""Forms of arguments in combination, drawn: every path of a call passes what a plain reading of the spec says."""

from __future__ import annotations

import math
import random
import struct

import numpy as np
import pytest

import fake_cuda
import sample
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.runtime.types import DTYPES
from pretuned.spec.loader import load as load_spec

FORMS = (
    *("leading", "x apart", "y apart", "bias", "acc", "list", "let", "alpha", "shift", "struct", "flag", "maps"),
    *("scratch", "zeros", "two launches", "cooperative", "pdl", "by problem", "in place"),
)
MOST = 4
CODES = {"float16": "e", "float32": "f", "complex64": "8s"}


class Drawn:
    """A spec of some of the forms, and what a call of its kernel passes."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.forms = {form for form in FORMS if draw.random() < 0.4}
        self.forms -= {"pdl"} if "cooperative" in self.forms else set()  # these are refused together
        self.forms -= {"in place"} if {"x apart", "y apart"} & self.forms else set()
        self.dtypes = draw.sample(sorted(CODES), 2)
        self.numbers = draw
        lead = "rows..." if "leading" in self.forms else "rows"
        in_place = ", in-place = true" if "in place" in self.forms else ""
        self.entries = {
            "y": ("Q", f'role = "out", dtype = "T", shape = ["{lead}", "cols"]{in_place}{self.apart("y")}'),
            "x": ("Q", f'role = "in", dtype = "T", shape = ["{lead}", "cols"]{self.apart("x")}'),
            "rows": ("i", 'dtype = "int32"'),
            "cols": ("q", 'dtype = "int64"'),
        }
        optional = {
            "bias": ("bias", "Q", 'role = "in", dtype = "T", shape = ["cols"], optional = true'),
            "acc": ("acc", "Q", 'role = "inout", dtype = "float32", shape = ["cols"], optional = true'),
            "list": ("ws", f"{8 * MOST}s", f'role = "in", dtype = "T", shape = ["cols"], count = "g", most = {MOST}'),
            "let": ("half", "i", 'dtype = "int32"'),
            "alpha": ("alpha", "T", 'dtype = "T", value = 1.5'),
            "struct": ("p", "16s", 'dtype = "Pair", value = { n = "cols", s = 2.5 }'),
            "shift": ("shift", "16s", 'dtype = "complex128", default = [1.0, 0.5]'),
            "x apart": ("x_row", "q", 'dtype = "int64"'),
            "y apart": ("y_row", "q", 'dtype = "int64"'),
            "flag": ("flag", "i", 'dtype = "int32"'),
        }
        for form, (name, code, text) in optional.items():
            if form in self.forms:
                self.entries[name] = code, text
        if "list" in self.forms:
            self.entries["g"] = "i", 'dtype = "int32"'

    def apart(self, name):
        return f', strides = ["{name}_row", 1]' if f"{name} apart" in self.forms else ""

    @property
    def taken(self):
        """What a launch takes, in order, by struct code."""
        found = {name: code for name, (code, _) in self.entries.items()}
        if "maps" in self.forms:
            found = {"x_map": "128s", **found, "y_map": "128s"}
        return found | ({"room": "Q"} if "scratch" in self.forms else {})

    def toml(self):
        forms = self.forms
        listed = "\n".join(f'  {{ name = "{name}", {text} }},' for name, (_, text) in self.entries.items())
        parts = ["format = 1", f"arguments = [\n{listed}\n]"]
        if "maps" in forms:
            maps = (f'{{ name = "{name}_map", array = "{name}", box = [8, 8] }}' for name in "xy")
            parts.append(f"tensor-maps = [{', '.join(maps)}]")
        if "scratch" in forms:
            init = ", init = 0" if "zeros" in forms else ""
            parts.append(f'scratch = [{{ name = "room", dtype = "float32", shape = ["rows"]{init} }}]')
        block = '{ at = "64 if cols < 200 else 128" }' if "by problem" in forms else "64"
        parts.append(f"space = {{ block = [64, 128] }}\ndefault = {{ block = {block} }}")
        if "let" in forms:
            parts.append('[let]\nhalf = "cols // 2"')
        if "struct" in forms:
            parts.append('[structs]\nPair = { n = "int64", s = "float64" }')
        parts.append("[dims]\nrows = { sizes = [64] }\ncols = { sizes = [128, 256] }")
        if "list" in forms:
            parts.append("g = { sizes = [2] }")
        parts.append(f"[specialisations]\nT = {{ dtypes = {list(self.dtypes)} }}")
        if "flag" in forms:
            parts.append("flag = { values = [3, 5] }")
        if "maps" in forms:
            rows = [f'"{one}_row * sizeof(T) % 16 == 0"' for one in "xy" if f"{one} apart" in forms]
            demands = ['"cols * sizeof(T) % 16 == 0"', '"aligned(x, 16)"', '"aligned(y, 16)"', *rows]
            parts.append(f"[constraints]\nrequires = [{', '.join(demands)}]")
        attributes = "cooperative = true\n" if "cooperative" in forms else ""
        attributes += 'overlap = "pdl"\n' if "pdl" in forms else ""
        arguments = ", ".join(f'"{name}"' for name in self.taken)
        launch = (
            f'[[launches]]\nfunction = "mix"\ngrid = [2]\nblock = ["block"]\narguments = [{arguments}]\n{attributes}'
        )
        return "\n".join([*parts, launch * (2 if "two launches" in forms else 1)]) + "\n"

    def template(self):
        maps = ", ".join(f"const __grid_constant__ CUtensorMap {name}_map" for name in "xy" if "maps" in self.forms)
        named = {"struct": "Pair", "list": "List"}
        declared = "".join(f"{{{{ {name} }}}}\n" for form, name in named.items() if form in self.forms)
        kernel = f'extern "C" __global__ void mix({maps}) {{}} // {{{{ block }}}} {{{{ T }}}}\n'
        return f"#include <pretuned/tma.h>\n{declared}{kernel}"


def packed(dtype, value):
    """A number as the entry point gets it."""
    if dtype.startswith("complex"):
        return DTYPES[dtype].packed(value)
    return struct.unpack(f"={CODES[dtype]}", DTYPES[dtype].packed(value))[0]


class Call:
    """A call with arrays of its own, and what it passes."""

    def __init__(self, drawn, cupy):
        draw, forms = drawn.numbers, drawn.forms
        self.dtype, cols = draw.choice(drawn.dtypes), draw.choice([128, 256])
        lead = draw.choice([(64,), (4, 16), (2, 2, 3)]) if "leading" in forms else (draw.choice([64, 48]),)
        size, rows = DTYPES[self.dtype].size_bytes, math.prod(lead)
        numpy = np.dtype(self.dtype)
        self.keywords, self.values = {}, {"rows": rows, "cols": cols, "half": cols // 2}

        def matrix(name):
            row = cols + draw.choice([0, 8, 24]) if f"{name} apart" in forms else cols
            self.values[f"{name}_row"] = row
            if row == cols:
                return cupy.ndarray((*lead, cols), numpy)
            strides = tuple(math.prod(lead[axis + 1 :]) * row * size for axis in range(len(lead)))
            return cupy.ndarray((*lead, cols), numpy, strides=(*strides, size))

        def vector(dtype=numpy):
            return cupy.ndarray((cols,), dtype)

        x = matrix("x")
        self.arrays = {"x": x}
        self.in_place = "in place" in forms and draw.random() < 0.5
        if self.in_place or "y apart" in forms or draw.random() < 0.6:
            self.arrays["y"] = x if self.in_place else matrix("y")
            self.keywords["y"] = self.arrays["y"]
        self.positional = [x]
        if "list" in forms:
            ws = [vector() for _ in range(draw.randint(1, MOST))]
            self.positional.append(draw.choice([list, tuple])(ws))
            self.values |= {
                "g": len(ws),
                "ws": struct.pack(f"{MOST}Q", *([w.data.ptr for w in ws] + [0] * MOST)[:MOST]),
            }
        for name, dtype in (("bias", numpy), ("acc", np.dtype("float32"))):
            self.values[name] = 0
            if name in forms and draw.random() < 0.5:
                self.keywords[name] = vector(dtype)
                self.values[name] = self.keywords[name].data.ptr
        self._draw_numbers(draw, forms)

    def _draw_numbers(self, draw, forms):
        if "alpha" in forms:
            alpha = draw.choice([1.5, 2, 0.0, -0.0, *([1 - 2j, -0.0j] if self.dtype == "complex64" else [])])
            self.positional.append(alpha)
            self.values["alpha"] = packed(self.dtype, alpha)
        if "struct" in forms:
            pair = {"n": draw.randint(0, 2**40), "s": draw.choice([0.5, -0.0])}
            self.positional.append(pair)
            self.values["p"] = struct.pack("=qd", pair["n"], pair["s"])
        if "shift" in forms:
            shift = draw.choice([None, 2.0, 1j])
            self.positional += [] if shift is None else [shift]
            self.values["shift"] = packed("complex128", 1 + 0.5j if shift is None else shift)
        if "flag" in forms:
            self.values["flag"] = self.keywords["flag"] = draw.choice([3, 5])

    def check(self, drawn, cuda, kernel, *, bound):
        """Make the call, and compare each launch with what it has to be."""
        before = len(cuda.launches)
        answer = (
            kernel.bind(*self.positional, **self.keywords)() if bound else kernel(*self.positional, **self.keywords)
        )
        results = answer if "acc" in drawn.forms else (answer,)
        y = results[0]
        assert y is self.keywords.get("y", y)
        assert (y.shape, str(y.dtype)) == (self.arrays["x"].shape, self.dtype)
        assert results[1:] == ((self.keywords.get("acc"),) if "acc" in drawn.forms else ())
        launched = cuda.launches[before:]
        assert len(launched) == 1 + ("two launches" in drawn.forms)
        wanted = self.values | {"x": self.arrays["x"].data.ptr, "y": y.data.ptr}
        size = DTYPES[self.dtype].size_bytes
        for one in launched:
            found = dict(zip(drawn.taken, one.arguments, strict=True))
            for name in {"x_map", "y_map"} & found.keys():
                address, number = struct.unpack("=QQ", found.pop(name)[:16])
                encoded = cuda.mapped[number - 1]
                assert address == encoded.address == wanted[name[0]]
                assert encoded.dims == (wanted["cols"], wanted["rows"])
                assert encoded.strides == (wanted.get(f"{name[0]}_row", wanted["cols"]) * size,)
            assert found.pop("room", 1)
            assert {name: repr(value) for name, value in found.items()} == {name: repr(wanted[name]) for name in found}
            large = "by problem" in drawn.forms and wanted["cols"] >= 200
            assert (one.grid, one.block) == ((2, 1, 1), (128 if large else 64, 1, 1))
            assert bool(one.attributes) == bool({"cooperative", "pdl"} & drawn.forms)


def tried(seed, folder, monkeypatch, load, cupy, cuda):
    """Draw a spec, and call its kernel by every path."""
    drawn = Drawn(seed)
    folder.mkdir()
    (folder / "mix.toml").write_text(drawn.toml())
    (folder / "mix.cu.jinja").write_text(drawn.template())
    spec = load_spec(folder / "mix.toml")
    made = plan({"mix": spec}, [], {})
    sample.write({"__init__.py": b""}, folder / "pkg")
    sample.write(files(made, sample.binaries(made), version="0.0.0"), folder / "pkg" / "tuned")
    calls = [Call(drawn, cupy) for _ in range(6)]
    for fast in ("1", "0"):
        monkeypatch.setenv("PRETUNED_FAST_PATH", fast)
        kernel = load(folder).mix
        for turn in range(5):  # from the beginning, by the fast path, packed before
            for call in drawn.numbers.sample(calls, len(calls)):
                codes = tuple(CODES[call.dtype] if code == "T" else code for code in drawn.taken.values())
                monkeypatch.setitem(fake_cuda.SIGNATURES, "mix", codes)
                call.check(drawn, cuda, kernel, bound=turn == 3)


@pytest.mark.parametrize(
    "seeds",
    [range(4), pytest.param(range(4, 20), marks=pytest.mark.slow), pytest.param(range(20, 40), marks=pytest.mark.slow)],
)
def test_every_path_passes_what_the_spec_says(seeds, tmp_path, monkeypatch, load, cupy, cuda):
    monkeypatch.setenv("PRETUNED_WARN", "0")
    for seed in seeds:
        tried(seed, tmp_path / str(seed), monkeypatch, load, cupy, cuda)
