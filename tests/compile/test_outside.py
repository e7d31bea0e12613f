"""Compilers of other machines that a pool shares its sources with: none of them may change a result, or delay it."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from children import worker
from lent_compilers import Elsewhere, binary_of
from pretuned.compile.pool import CompilePool
from pretuned.render import Source

COMPILE_S = 0.15
JOBS = [(Source(text=f"int a{n};", options=(), functions=("f",)), "sm_90") for n in range(24)]
EXPECTED = {job[0].key: binary_of(job) for job in JOBS}


@pytest.fixture
def compiled(monkeypatch):
    """Compile JOBS in a pool of one compiler beside those elsewhere: the results, the pool, and the seconds."""
    monkeypatch.setenv("COMPILE_S", str(COMPILE_S))

    def run(elsewhere, during=lambda _done: None, jobs=JOBS):
        with CompilePool(1, toolchain=worker("lent_compilers:compiler")) as pool:
            list(pool.compile([(Source(text="int warm;", options=(), functions=("f",)), "sm_90")]))
            pool.borrow(elsewhere.outside)
            found, began = {}, time.monotonic()
            for (source, _), result in pool.compile(jobs):
                assert source.key not in found
                found[source.key] = result
                during(len(found))
            return found, pool, time.monotonic() - began

    return run


def quick(job):
    time.sleep(COMPILE_S / 3)
    return binary_of(job)


def test_workers_elsewhere_share_the_sources(compiled):
    elsewhere = Elsewhere(one=quick, two=quick)
    elsewhere.lend(2)
    found, pool, seconds = compiled(elsewhere)
    assert found == EXPECTED
    assert set(pool.elsewhere) == {"one", "two"}
    assert pool.elsewhere.total() >= 12
    assert pool.slots == 1 + 4
    assert seconds < len(JOBS) * COMPILE_S / 2


def test_a_worker_gets_one_source_until_its_binary_is_the_one_made_here(compiled):
    def other(job):
        return replace(binary_of(job, image=b"other"), compiler="13.0.88")

    elsewhere = Elsewhere(liar=other)
    elsewhere.lend(4)
    found, pool, _ = compiled(elsewhere, jobs=JOBS[:6])
    assert found == {job[0].key: EXPECTED[job[0].key] for job in JOBS[:6]}
    assert (elsewhere.got["liar"], pool.elsewhere, pool.slots) == (1, {}, 1)
    assert elsewhere.outside.refused == {
        "liar": "it compiles a source to other bytes than the compiler beside the device"
    }


def test_a_binary_of_another_compiler_is_refused_with_a_message(compiled):
    elsewhere = Elsewhere(older=lambda job: binary_of(job, "12.9.86"))
    elsewhere.lend()
    found, _, _ = compiled(elsewhere, jobs=JOBS[:6])
    assert found == {job[0].key: EXPECTED[job[0].key] for job in JOBS[:6]}
    assert elsewhere.outside.refused == {"older": "its compiler is 12.9.86, not 13.0.88"}


def test_a_worker_that_becomes_damaged_has_its_sources_compiled_here(compiled):
    """Its first binary is right, and none that follows."""

    def damaged(job):
        right = binary_of(job)
        return right if elsewhere.got["damaged"] == 1 else replace(right, image=right.image[:-1])

    elsewhere = Elsewhere(damaged=damaged)
    elsewhere.lend()
    found, pool, _ = compiled(elsewhere)
    assert (found, pool.elsewhere) == (EXPECTED, {})


def test_what_does_not_compile_elsewhere_is_compiled_here(compiled):
    elsewhere = Elsewhere(failing=lambda job: binary_of(job) if elsewhere.got["failing"] == 1 else None)
    elsewhere.lend()
    found, pool, _ = compiled(elsewhere)
    assert (found, pool.elsewhere) == (EXPECTED, {})
    assert elsewhere.got["failing"] <= 6
    assert elsewhere.outside.refused == {"failing": "it made no binaries of 3 sources in a row"}


@pytest.mark.parametrize("after", [0, 1])
def test_a_worker_that_never_answers_costs_moments(compiled, after):
    """It hangs at its first source, or once it is trusted."""
    elsewhere = Elsewhere(hangs=lambda job: binary_of(job) if elsewhere.got["hangs"] <= after else ...)
    elsewhere.lend(4)
    found, _, seconds = compiled(elsewhere)
    assert found == EXPECTED
    assert elsewhere.got["hangs"] <= 1 + 6
    assert seconds < len(JOBS) * COMPILE_S + 3


def test_a_slow_worker_helps_as_far_as_it_does(compiled):
    def slow(job):
        time.sleep(4 * COMPILE_S)
        return binary_of(job)

    elsewhere = Elsewhere(slow=slow)
    elsewhere.lend(1)
    found, _, seconds = compiled(elsewhere)
    assert found == EXPECTED
    assert seconds < len(JOBS) * COMPILE_S + 1


def test_what_a_worker_has_that_is_gone_is_compiled_here(compiled):
    elsewhere = Elsewhere(stays=quick, goes=lambda job: binary_of(job) if elsewhere.got["goes"] == 1 else ...)
    elsewhere.lend(4)
    found, pool, _ = compiled(elsewhere, lambda done: elsewhere.lend(4, gone=["goes"]) if done == 8 else None)
    assert found == EXPECTED
    assert pool.elsewhere["goes"] == 0


def test_nothing_is_lost_with_the_connection(compiled):
    def quick_at_first(job):
        if elsewhere.got["one"] < 6:
            return quick(job)
        elsewhere.hang_up()
        return ...

    elsewhere = Elsewhere(one=quick_at_first)
    elsewhere.lend(4)
    found, pool, _ = compiled(elsewhere)
    assert found == EXPECTED
    assert pool.slots == 1


def test_what_is_out_cannot_be_withdrawn_and_still_comes(monkeypatch):
    monkeypatch.setenv("COMPILE_S", str(COMPILE_S))
    elsewhere = Elsewhere(one=quick)
    elsewhere.lend(2)
    with CompilePool(1, toolchain=worker("lent_compilers:compiler")) as pool:
        pool.borrow(elsewhere.outside)
        pool.put(JOBS)
        found = dict(pool.take(wait_s=None))
        while elsewhere.got["one"] < 3:
            found |= pool.take(wait_s=0.1)
        gone = pool.withdraw(JOBS)
        while pool.unanswered:
            found |= pool.take(wait_s=None)
    assert gone
    assert {job[0].key for job in found} | {job[0].key for job in gone} == EXPECTED.keys()
    assert len(found) + len(gone) == len(JOBS)
