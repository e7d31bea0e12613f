"""Compile workers that are lost at odd moments, and logs that are easily misread."""

from __future__ import annotations

import os
import re
import signal

import pytest

from children import worker
from pretuned.compile import host
from pretuned.compile import pool as pool_module
from pretuned.compile.nvrtc import first_error, include_flags, version
from pretuned.compile.pool import CompilePool, compile_all
from pretuned.compile.result import Binary
from pretuned.outcome import CompileError, Crashed, TimedOut
from pretuned.render import Source


def module(source, *options):
    return Source(text=source, options=options, functions=("f",))


def jobs(*sources):
    return [(module(source), "sm_90") for source in sources]


@pytest.fixture
def workers():
    with CompilePool(1, toolchain=worker("odd_children:slow_compiler")) as found:
        yield found


def lines(workers, *sources):
    return [result.line for _, result in workers.compile(jobs(*sources))]


def end(child):
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


def test_a_worker_that_dies_while_idle_costs_no_job(workers):
    assert lines(workers, "int a;") == ["int a;"]
    end(workers._children[0])
    assert lines(workers, "int b;", "int c;") == ["int b;", "int c;"]


def test_a_worker_killed_at_work_is_replaced_and_its_job_crashed(workers):
    results = workers.compile(jobs("int a;", "int slow;", "int c;"))
    assert next(results)[1] == CompileError(line="int a;")
    os.kill(workers._children[0].pid, signal.SIGKILL)  # before or while it compiles the next one
    rest = {job.text: result for (job, _), result in results}
    assert rest["int c;"] == CompileError(line="int c;")
    assert rest["int slow;"] in (CompileError(line="int slow;"), Crashed(message="the compiler ended by SIGKILL"))


def test_answers_of_an_abandoned_call_are_not_taken_for_the_next_ones():
    with CompilePool(2, toolchain=worker("odd_children:slow_compiler")) as workers:
        results = workers.compile(jobs("int slow;", "int b;"))
        assert next(results)[1] == CompileError(line="int b;")
        results.close()
        answers = {job.text: result.line for (job, _), result in workers.compile(jobs("int c;", "int d;"))}
    assert answers == {"int c;": "int c;", "int d;": "int d;"}


def test_a_warning_about_a_variable_named_error_is_not_the_error():
    source = 'extern "C" __global__ void f(float* x) {\n    int error;\n}\n__device__ float g() { return missing; }\n'
    (result,) = compile_all([module(source)], "sm_90").values()
    assert result == CompileError(line='kernel.cu(4): error: identifier "missing" is undefined')
    log = 'kernel.cu(2): warning #177-D: variable "error" was declared but never referenced\nkernel.cu(4): error: bad\n'
    assert first_error(log) == "kernel.cu(4): error: bad"


@pytest.mark.parametrize(
    ("source", "options", "line"),
    [
        ("#include <nowhere.h>\n", (), "kernel.cu(1): catastrophic error: "),
        ("", ("--no-such-option",), "nvrtc: error: unrecognized option --no-such-option"),
    ],
)
def test_errors_that_are_no_mistake_in_the_kernel(source, options, line):
    (result,) = compile_all([module(source, *options)], "sm_90").values()
    assert isinstance(result, CompileError)
    assert result.line.startswith(line)


def test_flags_are_the_specs_own_too_but_no_folder_of_this_machine():
    (result,) = compile_all([module('extern "C" __global__ void f() {}', "-DWIDTH=4")], "sm_90").values()
    assert isinstance(result, Binary)
    assert result.flags[-1] == "-DWIDTH=4"
    assert include_flags()
    assert not [flag for flag in result.flags if flag.startswith(("-I", "--include-path"))]


def test_the_version_is_the_full_one():
    assert re.fullmatch(r"1[23]\.\d+\.\d+", version())


@pytest.mark.skipif(host.compiler() is None, reason="no C++ compiler here")
def test_workers_of_the_host_share_what_each_of_them_needs(tmp_path, monkeypatch):
    log, compiler = tmp_path / "log", tmp_path / "g++"
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {host.compiler().path} "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    sources = [module(f'extern "C" __global__ void f(int* x) {{ *x = {number}; }}') for number in range(2)]
    for source in sources:
        (found,) = compile_all([source], host.HOST, toolchain=host.CPP).values()
        assert isinstance(found, Binary)
    ran = log.read_text()
    assert (ran.count("runtime.cpp"), ran.count("module.cpp")) == (1, 2)


QUICK = [f"int quick{index};" for index in range(12)]


def test_a_source_that_takes_many_times_what_others_take_is_given_up(monkeypatch):
    monkeypatch.setattr(pool_module, "LEAST_S", 0.1)
    monkeypatch.setattr(pool_module, "POLL_S", 0.02)
    with CompilePool(1, toolchain=worker("odd_children:slow_compiler"), hurried=True) as workers:
        assert lines(workers, *QUICK) == QUICK
        ((_, result),) = workers.compile(jobs("int slow;"))
        assert result == TimedOut(limit_s=0.1)
        workers.put(jobs("int slow, first;"), first=True)  # a default, say
        ((_, result),) = workers.take(wait_s=None)
        assert result == CompileError(line="int slow, first;")


def test_limits_are_looked_up_for_what_takes_long_alone(monkeypatch):
    looked_up = []
    monkeypatch.setattr(pool_module, "limit_after", lambda took_s, limit_s: looked_up.append(took_s) or limit_s)
    with CompilePool(1, toolchain=worker("odd_children:slow_compiler"), hurried=True) as workers:
        assert lines(workers, *QUICK) == QUICK
    assert not looked_up


def test_a_pool_that_is_not_hurried_gives_every_source_its_time(monkeypatch):
    monkeypatch.setattr(pool_module, "LEAST_S", 0.1)
    monkeypatch.setattr(pool_module, "POLL_S", 0.02)
    with CompilePool(1, toolchain=worker("odd_children:slow_compiler")) as workers:
        assert lines(workers, *QUICK) == QUICK
        assert lines(workers, "int slow;") == ["int slow;"]


def test_what_no_worker_has_begun_with_is_taken_back():
    with CompilePool(1, toolchain=worker("odd_children:slow_compiler")) as workers:
        workers.put(jobs("int slow;", *QUICK))
        gone = {source.text for source, _ in workers.withdraw(jobs(*QUICK[4:]))}
        ended = set()
        while workers.unanswered:
            ended |= {source.text for (source, _), _ in workers.take(wait_s=None)}
    assert gone >= set(QUICK[8:])
    assert ended == {"int slow;", *QUICK} - gone


def test_limits_follow_what_others_took():
    assert pool_module.limit_after([0.2] * 3) == pool_module.LIMIT_S
    assert pool_module.limit_after([0.2] * 20) == pool_module.LEAST_S
    assert pool_module.limit_after([4.0] * 20) == pool_module.HURRY * 4.0
    assert pool_module.limit_after([40.0] * 20) == pool_module.LIMIT_S
