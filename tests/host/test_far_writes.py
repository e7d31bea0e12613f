"""Writes far from their arrays: no such candidate is kept, whatever the distance, and the default is never blamed."""

from __future__ import annotations

import contextlib
import os
import pickle
import tempfile

import pytest

from far_writes import KNOWN, PLACES, one, several
from host_tuning import tuned_on_host
from killing import within
from leftovers import marked
from pretuned.compile import host
from pretuned.compile.host import CPP
from pretuned.compile.pool import compile_all
from pretuned.measure.bench import Bench
from pretuned.measure.host.machine import HostMachine
from pretuned.measure.host.pages import PAGE
from pretuned.measure.host.reports import crash_report
from pretuned.measure.requests import CompiledCandidate, PrepareRequest
from pretuned.outcome import WrongResult
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.space import Configuration

pytestmark = pytest.mark.skipif(host.compiler() is None, reason="no C++ compiler here")
DEFAULT, FAR = (Configuration(implementation="main", values=(("case", case),)) for case in (0, 1))
BANDS = 2 * PAGE  # bytes around an array, at most, that are there to be written to
ELEMENT = 4  # bytes
# Within the bands, just beyond them, and as far as an index reaches, on both sides.
SAMPLE = {("y", 1), ("y", 1500), ("y", 9000), ("y", 2**33), ("y", -1), ("y", -9000), ("x", -1), ("x", 100_000_000)}


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    """The default and the candidate, compiled once."""
    spec = one(tmp_path_factory.mktemp("kernels"), "y", 1)
    sources = {c: source_of(spec, (), c) for c in (DEFAULT, FAR)}
    binaries = compile_all(list(sources.values()), host.HOST, workers=1, toolchain=CPP)
    return {c: CompiledCandidate.of(c, binaries[source.key]) for c, source in sources.items()}


def forked(function):
    """Return what `function` returns in a fork of this process, or what the fork printed when it died."""
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as returned:
        pid = os.fork()
        if not pid:
            os.dup2(printed.fileno(), 2)
            with contextlib.suppress(BaseException):
                returned.write(pickle.dumps(function()))
                returned.flush()
            os._exit(0)
        os.waitpid(pid, 0)
        for file in (printed, returned):
            file.seek(0)
        answer = returned.read()
        return pickle.loads(answer) if answer else printed.read().decode()


@pytest.mark.parametrize(
    ("array", "distance"),
    [pytest.param(*place, marks=() if place in SAMPLE else pytest.mark.slow) for place in PLACES],
)
def test_a_far_write_is_an_outcome_of_its_candidate(array, distance, entries, tmp_path):
    spec = one(tmp_path, array, distance)
    (problem,) = space.problems(spec, ())
    bench = Bench(HostMachine())
    bench.prepare(PrepareRequest(spec=spec, problem=problem, default=entries[DEFAULT]))
    assert bench.verify(entries[DEFAULT]).failure is None
    found = forked(lambda: bench.verify(entries[FAR]).failure)
    nbytes = (abs(distance) - 1) * ELEMENT if distance > 0 else -distance * ELEMENT
    if isinstance(found, WrongResult):
        assert nbytes < BANDS
        assert found.argument == array
    else:
        place = "past the end of" if distance > 0 else "before"
        said = crash_report(found)
        assert said is not None
        assert said.startswith(f"writes {nbytes:,} bytes {place} '{array}' (block (9, 0, 0), thread")


def tuned_without(places, folder):
    """Tune the default beside candidates that write to `places`; none may be kept, and each must have failed."""
    with marked() as living:
        _, kept, failures = tuned_on_host(several(folder / "kernels", places), folder / "cache")
        assert within(5, lambda: not living())
    assert kept == [0]
    assert set(failures) == set(range(1, len(places) + 1))


def test_a_tuning_keeps_no_candidate_that_writes_far_away(tmp_path):
    tuned_without([("y", 70_000), ("y", 9000), ("x", -1500)], tmp_path)


@pytest.mark.slow
def test_a_tuning_keeps_none_of_many_that_write_far_away(tmp_path):
    assert {*KNOWN, *SAMPLE} <= set(PLACES)
    tuned_without(PLACES[::2], tmp_path)
