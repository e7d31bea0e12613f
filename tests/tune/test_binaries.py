"""Compiled modules from memory, the cache or the compiler: never of two compilers where one was asked for."""

from __future__ import annotations

import hashlib

import pytest

from pretuned.compile.result import Binary, Toolchain
from pretuned.outcome import CompileError
from pretuned.record.cache import Cache
from pretuned.render import Source
from pretuned.tune import binaries as binaries_module
from pretuned.tune.binaries import BinaryStore
from pretuned.tune.events import SourcesCompiled
from pretuned.tune.spending import Spending


def module(name):
    return Source(text=f"int {name};", options=(), functions=(name,))


ONE, TWO, BAD = module("one"), module("two"), module("bad")


class Compiler:
    """Stands in for the pool; `asked` are the sources that it compiled."""

    release = "13.0.88"
    asked: list[str]
    installed: str | None

    def __init__(self, workers=None, toolchain=None, hurried=False):
        self.waiting = []

    def put(self, jobs, *, first=False):
        self.waiting = [*self.waiting, *jobs]

    def take(self, *, wait_s):
        found, self.waiting = list(self.compile(self.waiting)), []
        return found

    def compile(self, jobs):
        for one, architecture in jobs:
            self.asked.append(one.text)
            if "bad" in one.text:
                yield (one, architecture), CompileError(line="error: bad")
                continue
            image = f"{one.text} by {self.release}".encode()
            yield (
                (one, architecture),
                Binary(
                    module=one.key,
                    architecture=architecture,
                    image=image,
                    digest=hashlib.sha256(image).hexdigest(),
                    flags=(),
                    compiler=self.release,
                    resources={},
                ),
            )

    def close(self):
        pass


TOOLCHAIN = Toolchain(worker="none", installed=lambda: Compiler.installed, any_architecture="compute_80")


@pytest.fixture
def compiler(monkeypatch):
    monkeypatch.setattr(Compiler, "asked", [], raising=False)
    monkeypatch.setattr(binaries_module, "CompilePool", Compiler)

    def use(release):
        monkeypatch.setattr(Compiler, "release", release)
        monkeypatch.setattr(Compiler, "installed", release, raising=False)

    use("13.0.88")
    return use


def build(cache, *modules, wanted=None):
    """One build: what it got, by source, and what it compiled for that."""
    Compiler.asked.clear()
    spending = Spending()
    with BinaryStore(cache, spending, toolchain=TOOLCHAIN) as library:
        found = library.all([(one, "sm_90") for one in modules], wanted)
    assert spending.compiled == len(Compiler.asked)
    return {one.text: found[one.key, "sm_90"] for one in modules}, list(Compiler.asked)


def test_a_second_build_compiles_nothing(compiler, tmp_path):
    with Cache(tmp_path) as cache:
        first, asked = build(cache, ONE, TWO)
        assert asked == ["int one;", "int two;"]
        assert build(cache, ONE, TWO) == (first, [])


def test_what_does_not_compile_is_tried_once_a_build(compiler):
    with BinaryStore(Cache(None), Spending()) as library:
        for _ in range(2):
            library.compile([(BAD, "sm_90")])
        assert library.get(BAD, "sm_90") == CompileError(line="error: bad")
    assert Compiler.asked == ["int bad;"]


def test_an_older_compilers_binaries_are_used_where_all_of_them_are_known(compiler):
    cache = Cache(None)
    build(cache, ONE, TWO)
    compiler("13.5.10")
    found, asked = build(cache, ONE, TWO, wanted="13.0.88")
    assert {binary.compiler for binary in found.values()} == {"13.0.88"}
    assert asked == []


def test_binaries_of_two_compilers_are_never_mixed(compiler):
    cache = Cache(None)
    build(cache, ONE)
    compiler("13.5.10")
    found, asked = build(cache, ONE, TWO, wanted="13.0.88")
    assert {binary.compiler for binary in found.values()} == {"13.5.10"}
    assert asked == ["int one;", "int two;"]


def test_the_compiler_is_asked_where_no_package_has_its_version(compiler, monkeypatch):
    monkeypatch.setattr(Compiler, "installed", None)
    with BinaryStore(Cache(None), Spending(), toolchain=TOOLCHAIN) as library:
        assert library.compiler == "13.0.88"
    assert len(Compiler.asked) == 1


def test_what_goes_to_the_compilers_and_what_comes_back_is_reported(compiler):
    heard = []
    with BinaryStore(Cache(None), Spending(), workers=2, toolchain=TOOLCHAIN, listen=heard.append) as library:
        library.request([(ONE, "sm_90"), (TWO, "sm_90")])
        library.request([(ONE, "sm_90")])  # which is under way
        library.poll()
        library.request([(BAD, "sm_90")])
    steps = [(0, 2), (2, 2), (2, 3)]
    assert heard == [SourcesCompiled(done=done, asked=asked, workers=2) for done, asked in steps]
