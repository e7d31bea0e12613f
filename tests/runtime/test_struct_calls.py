"""Structs that are passed by value: dicts, objects and bytes, by every path of a call, and what is wrong with one."""

from __future__ import annotations

import ctypes
import dataclasses
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

import fake_cuda
import sample
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.runtime.structs import Struct
from pretuned.spec.loader import load_folder

KERNELS = Path(__file__).parents[1] / "data" / "structs"
GOOD = {"clamp": True, "n": 2**40, "bias": 0.1, "weights": (0.25, 0.5, 0.125), "shift": -3}
FIELDS = ", ".join(GOOD)


class Layout(ctypes.Structure):
    """The struct as the C compiler of this machine lays it out."""

    _fields_ = (
        ("clamp", ctypes.c_bool),
        ("n", ctypes.c_longlong),
        ("bias", ctypes.c_uint16),
        ("weights", ctypes.c_float * 3),
        ("shift", ctypes.c_short),
    )


def packed(value):
    bias = int(np.float16(value["bias"]).view(np.uint16))
    weights = (ctypes.c_float * 3)(*value["weights"])
    return bytes(Layout(value["clamp"], value["n"], bias, weights, value["shift"]))


@pytest.fixture
def tuned(tmp_path, cuda, load, monkeypatch):
    made = plan(load_folder(KERNELS), [], {sample.H100.name: sample.H100})
    sample.write({"__init__.py": b""}, tmp_path / "pkg")
    sample.write(files(made, sample.binaries(made), version="0.0.0"), tmp_path / "pkg" / "tuned")
    monkeypatch.setitem(fake_cuda.SIGNATURES, "smooth", ("Q", "Q", "40s", "f"))
    monkeypatch.setenv("PRETUNED_WARN", "0")
    return load(tmp_path)


FORMS = {
    "a dict": dict,
    "a dict in another order": lambda value: dict(reversed(value.items())),
    "a dataclass": lambda value: dataclasses.make_dataclass("Params", list(value))(**value),
    "a named tuple": lambda value: namedtuple("Params", list(value))(**value),
    "numbers of NumPy": lambda value: value | {"n": np.int64(value["n"]), "weights": np.float32(value["weights"])},
    "bytes": packed,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_struct_arrives_as_c_lays_it_out(tuned, cupy, cuda, form):
    x, y = cupy.ndarray((4096,), np.float32), cupy.ndarray((4096,), np.float32)
    other = GOOD | {"shift": 7}
    for value in (GOOD, GOOD, GOOD, GOOD, other, other, other, GOOD):  # from the beginning, fast, by a packed block
        assert tuned.smooth(x, form(value), 1.5, y=y) is y
        assert cuda.launches[-1].arguments == (y.data.ptr, x.data.ptr, packed(value), 1.5)
    tuned.smooth.bind(x, form(other), 2.5, y=y)()
    assert cuda.launches[-1].arguments[2:] == (packed(other), 2.5)


def test_later_changes_of_a_dict_reach_the_next_call(tuned, cupy, cuda):
    x, value = cupy.ndarray((4096,), np.float32), dict(GOOD)
    for shift in (1, 1, 1, 2, 2, 3):
        value["shift"] = shift
        tuned.smooth(x, value, 1.5)
        assert cuda.launches[-1].arguments[2] == packed(GOOD | {"shift": shift})


WRONG = {
    "a field that is missing": (
        {name: one for name, one in GOOD.items() if name != "n"},
        "p.n: missing; expected int64 (an integer from -9223372036854775808 to 9223372036854775807)",
    ),
    "a field that there is not": (GOOD | {"shifts": 1}, "p: Params has no field 'shifts'; did you mean 'shift'?"),
    "a field unlike any": (GOOD | {"zzz": 1}, f"p: Params has no field 'zzz'; it has {FIELDS}"),
    "too few numbers": (
        GOOD | {"weights": (1.0, 2.0)},
        "p.weights: expected 3 of float32 (a number up to 3.4e38), found 2 numbers",
    ),
    "a number for an array": (
        GOOD | {"weights": 1.0},
        "p.weights: expected 3 of float32 (a number up to 3.4e38), found 1.0",
    ),
    "a list for a number": (
        GOOD | {"shift": [1]},
        "p.shift: expected int16 (an integer from -32768 to 32767), found [1]",
    ),
    "beyond the range": (
        GOOD | {"shift": 40000},
        "p.shift: expected int16 (an integer from -32768 to 32767), found 40000",
    ),
    "a float for an integer": (
        GOOD | {"shift": 1.0},
        "p.shift: expected int16 (an integer from -32768 to 32767), found 1.0",
    ),
    "beyond float16": (GOOD | {"bias": 1e6}, "p.bias: expected float16 (a number up to 6.6e04), found 1000000.0"),
    "a text": (
        GOOD | {"weights": (1.0, "2", 3.0)},
        "p.weights: expected 3 of float32 (a number up to 3.4e38), found '2' at [1]",
    ),
    "no bool": (GOOD | {"clamp": 2}, "p.clamp: expected bool (True or False), found 2"),
    "a number": (5, "p.clamp: missing; expected bool (True or False), and 5 has no such attribute"),
    "None": (None, "p.clamp: missing; expected bool (True or False), and None has no such attribute"),
    "a tuple": (
        tuple(GOOD.values()),
        (
            "p.clamp: missing; expected bool (True or False), and "
            "(True, 1099511627776, 0.1, (0.25, 0.5, 0.125), -3) has no such attribute"
        ),
    ),
    "too few bytes": (b"1234", "p: expected 40 bytes of Params, found 4"),
}


@pytest.mark.parametrize(("value", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_struct_is_refused_every_time(tuned, cupy, cuda, value, message):
    x = cupy.ndarray((4096,), np.float32)
    for _ in range(3):
        tuned.smooth(x, GOOD, 1.5)
        count = len(cuda.launches)
        for call in (tuned.smooth, tuned.smooth.bind):
            with pytest.raises(tuned.PretunedError) as caught:
                call(x, value, 1.5)
            assert str(caught.value) == f"pkg.tuned.smooth: {message}"
        assert len(cuda.launches) == count


class OnGpu:
    """A number on a GPU: reading it would wait for all that was launched."""

    __cuda_array_interface__ = {"shape": ()}  # noqa: RUF012 - as arrays have it

    def __float__(self):
        raise AssertionError("the runtime read a number from the GPU")

    __index__ = __repr__ = __float__


def test_a_number_on_the_gpu_is_refused_and_not_read(tuned, cupy):
    x, number = cupy.ndarray((4096,), np.float32), OnGpu()
    for value, at in (
        (GOOD | {"bias": number}, "bias: expected float16 (a number up to 6.6e04), found an array"),
        (GOOD | {"shift": number}, "shift: expected int16 (an integer from -32768 to 32767), found an array"),
        (
            GOOD | {"weights": (1.0, 2.0, number)},
            "weights: expected 3 of float32 (a number up to 3.4e38), found an array at [2]",
        ),
        (GOOD | {"weights": number}, "weights: expected 3 of float32 (a number up to 3.4e38), found an array"),
    ):
        with pytest.raises(tuned.PretunedError) as caught:
            tuned.smooth(x, value, 1.5)
        assert str(caught.value) == f"pkg.tuned.smooth: p.{at}"


@pytest.mark.parametrize(
    "fields",
    [
        (("a", "int8", 0), ("b", "float64", 0), ("c", "int8", 0)),
        (("a", "int8", 3), ("b", "int16", 2), ("c", "int64", 1), ("d", "bool", 0)),
        (("a", "float32", 0), ("b", "uint8", 5)),
    ],
)
def test_layouts_are_those_of_c(fields):
    native = type("Native", (ctypes.Structure,), {"_fields_": [_field(*one) for one in fields]})
    assert Struct("S", fields).size_bytes == ctypes.sizeof(native)
    assert Struct("S", fields).begins == tuple(getattr(native, name).offset for name, _, _ in fields)


def _field(name, dtype, count):
    kinds = {"int8": ctypes.c_int8, "int16": ctypes.c_int16, "int64": ctypes.c_int64, "uint8": ctypes.c_uint8}
    kinds |= {"float32": ctypes.c_float, "float64": ctypes.c_double, "bool": ctypes.c_bool}
    return name, kinds[dtype] * count if count else kinds[dtype]
