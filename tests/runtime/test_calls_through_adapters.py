"""Calls through every adapter, executed on the host: right results, and wrong calls in clear words.

The table is tests/support/adapter_calls.py. tests/adapters has it through arrays of further libraries.
"""

from __future__ import annotations

import pytest

import adapter_calls
from adapter_world import World, calls_rightly, cases, refuses
from pretuned.compile.host import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")
LIBRARIES = ("cupy", "torch", "interface", "dlpack", "jax")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        yield World(patch, tmp_path_factory.mktemp("adapters"))


@pytest.mark.parametrize(("library", "call"), cases(adapter_calls.RIGHT, (*LIBRARIES, "each another")))
def test_a_right_call_gives_what_the_reference_says(world, library, call):
    calls_rightly(world, library, call)


@pytest.mark.parametrize(("library", "call"), cases(adapter_calls.WRONG, LIBRARIES))
def test_a_wrong_call_is_refused_in_clear_words(world, library, call):
    refuses(world, library, call)
