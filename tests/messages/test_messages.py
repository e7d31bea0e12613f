"""What people do wrong, and all that they read about it: each mistake of messages.toml, made for real."""

from __future__ import annotations

import importlib.util

import pytest

import mistakes
from mistakes import Mistake
from pretuned.cli import main
from pretuned.compile import host

ALL = list(mistakes.mistakes())
# Of those that compile, which take seconds each, the few that are always made.
SAMPLE = ("a slip in C++", "`__half` without its header, when baking", "a grid that is too small")
MADE = [
    pytest.param(m, id=m.what, marks=[pytest.mark.slow] if m.compiles and m.what not in SAMPLE else [])
    for m in ALL
    if not m.call
]
CALLS = [pytest.param(m, id=m.what) for m in ALL if m.call]


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRETUNED_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize("mistake", MADE)
def test_a_mistake_is_reported_in_these_words(mistake: Mistake, tmp_path, monkeypatch, capfd):
    compiler = host.compiler()
    if "--execute" in mistake.run and (compiler is None or not compiler.is_gcc):
        pytest.skip("the messages of g++ are compared")
    if mistake.compiles and importlib.util.find_spec("cupy") is None:
        pytest.skip("NVRTC's messages are compared")
    environment, arguments = mistakes.command(mistake)
    if "CXX" in environment:  # which a process looks at once
        assert mistakes.printed(mistake, tmp_path) == mistake.now
        return
    mistakes.make(mistake, tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        main(arguments)
    found = capfd.readouterr()
    assert mistakes.undrawn(mistakes.steady(found.out + found.err, tmp_path)) == mistakes.undrawn(mistake.now)


@pytest.mark.parametrize("mistake", CALLS)
def test_a_wrong_call_is_reported_in_these_words(mistake: Mistake):
    """The calls themselves are made in tests/runtime/test_bad_calls.py."""
    assert mistakes.CALLS[mistake.call] + "\n" == mistake.now


# What was a mistake once, and is none any more.
ALLOWED = ["a reference without `**_`"]


def test_no_mistake_passes_in_silence():
    assert [mistake.what for mistake in ALL if not mistake.now.strip()] == ALLOWED
