"""The calls of tests/support/adapter_calls.py through the array classes of Numba, tvm-ffi and Warp themselves.

No GPU is needed, nor a driver.
"""

from __future__ import annotations

import pytest

import adapter_calls
from adapter_world import calls_rightly, cases, refuses
from pretuned.compile.host import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")
LIBRARIES = ("numba", "tvm_ffi", "warp")


@pytest.fixture
def library(request, world):
    """The library that arrays are of; skipped where it is not installed."""
    if request.param not in world.libraries:
        pytest.importorskip("numba.cuda" if request.param == "numba" else request.param)
    return request.param


@pytest.mark.parametrize(("library", "call"), cases(adapter_calls.RIGHT, LIBRARIES), indirect=["library"])
def test_a_right_call_gives_what_the_reference_says(world, library, call):
    calls_rightly(world, library, call)


@pytest.mark.parametrize(("library", "call"), cases(adapter_calls.WRONG, LIBRARIES), indirect=["library"])
def test_a_wrong_call_is_refused_in_clear_words(world, library, call):
    refuses(world, library, call)
