"""Arguments of a launch in memory: each where its pointer says, whatever stands before it."""

from __future__ import annotations

import ctypes

import pytest

PackedArguments = pytest.importorskip("pretuned.measure.cuda.launching", exc_type=ImportError).PackedArguments


def test_arguments_of_any_size_stand_where_their_pointers_say():
    arguments = [b"\1" * 4, b"\2" * 128, b"\3" * 8, b"\4" * 40, b"\5", b"\6" * 128]
    packed = PackedArguments.of(arguments)
    pointers = [*packed.pointers]
    assert [ctypes.string_at(at, len(one)) for at, one in zip(pointers, arguments, strict=True)] == arguments
    assert [at % 64 for at in (pointers[1], pointers[5])] == [0, 0]
    assert all(at % 8 == 0 for at in pointers)
    assert PackedArguments.of([]).address
