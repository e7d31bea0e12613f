"""Collecting cycles seldom is of a tuning or a bake, not of the program that asks for one."""

import gc

import pytest

from pretuned.collecting import SELDOM, collecting_seldom


@collecting_seldom()
def fails():
    raise KeyError(gc.get_threshold())


def test_a_program_keeps_its_own_thresholds():
    before = gc.get_threshold()
    with pytest.raises(KeyError) as failed:
        fails()
    assert failed.value.args == (SELDOM,)
    assert gc.get_threshold() == before
