"""Library functions as candidates: found, called, judged, timed, and refused with a reason."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from library_specs import loaded
from pretuned.measure import runner as runner_module
from pretuned.measure.bench import Bench
from pretuned.measure.host.judge import view
from pretuned.measure.host.machine import HostMachine
from pretuned.measure.libraries import apply, function_of, release
from pretuned.measure.machine import Refused
from pretuned.measure.requests import CompiledCandidate, PrepareRequest, RaceRequest, ScreenRequest
from pretuned.measure.runner import Runner
from pretuned.outcome import LaunchFailed, Timed, TimedOut, WrongResult
from pretuned.spec.library import LibraryCall
from pretuned.spec.space import Configuration, all_problems

LIBRARY = Configuration(implementation="library", values=())
DEFAULT = CompiledCandidate(
    configuration=Configuration(implementation="plain", values=(("block", 128),)), image=b"", digest="d"
)


def call_of(function, *, module="json", arguments=("a", "b"), out="keyword"):
    return LibraryCall(module=module, function=function, arguments=arguments, out=out)


def refusal(call):
    with pytest.raises(Refused) as caught:
        function_of(call)
    assert isinstance(caught.value.outcome, LaunchFailed)
    return caught.value.outcome.message


# What a spec names, in whatever package there is: here in the standard library's.


def test_a_function_is_found_below_its_library():
    import json.decoder  # noqa: PLC0415 - to compare with

    assert function_of(call_of("decoder.scanstring")) is json.decoder.scanstring


def test_what_cannot_be_called_is_refused_with_the_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # as where it is not installed
    assert refusal(call_of("matmul", module="torch")) == "torch is not installed here"
    assert refusal(call_of("dumbs")) == "json: has no 'dumbs'; did you mean 'dumps'?"
    assert refusal(call_of("decoder.no_such")).startswith("json.decoder: has no 'no_such'")
    assert refusal(call_of("decoder")) == "json.decoder is not a function"


def test_a_library_goes_by_the_version_that_is_installed():
    from importlib.metadata import version  # noqa: PLC0415 - to compare with

    assert release("numpy") == f"numpy {version('numpy')}"
    assert release("no_such_library") == "no_such_library"


def test_a_result_reaches_the_output_by_keyword_or_copy():
    a, b, out = np.arange(4.0), np.full(4, 3.0), np.zeros(4)
    apply(call_of("multiply"), np.multiply, [a, b], out)
    assert out.tolist() == [0.0, 3.0, 6.0, 9.0]
    apply(call_of("add", out="copy"), lambda x, y: x + y, [a, b], out)  # which takes no `out`
    assert out.tolist() == [3.0, 4.0, 5.0, 6.0]


# The bench, on a machine whose library is NumPy.


class NumpyKernel:
    def __init__(self, call, buffers, output):
        self.call, self.buffers, self.output = call, buffers, output

    def launch(self, addresses):
        views = {}
        for name, region in self.buffers.sets[0].items():
            buffer = region.buffer
            views[name] = view(addresses[name], np.dtype(buffer.dtype), buffer.size).reshape(buffer.shape)
        function = getattr(np, self.call.function)
        apply(self.call, function, [views[name] for name in self.call.arguments], views[self.output])

    def watching(self, _regions):
        return nullcontext()

    def unload(self):
        pass


class NumpyMachine(HostMachine):
    def load_call(self, call, buffers, *, output):
        if not hasattr(np, call.function):
            raise Refused(LaunchFailed(message=f"has no {call.function}"))
        return NumpyKernel(call, buffers, output)


def prepared(folder, *edits, machine=NumpyMachine):
    spec = loaded(folder, *edits)
    bench = Bench(machine())
    bench.prepare(PrepareRequest(spec=spec, problem=all_problems(spec)[0], default=DEFAULT))
    return bench


@pytest.mark.parametrize("out", ["keyword", "copy"])
def test_a_right_call_is_verified_screened_raced_and_judged(tmp_path, out):
    edit = ('call = "cupy:multiply"', f'call = "cupy:multiply"\nout = "{out}"')
    bench, entry = prepared(tmp_path, edit), CompiledCandidate.of_call(LIBRARY)
    assert bench.verify(entry).failure is None
    (screened,) = bench.screen(ScreenRequest(entries=(entry,)))
    assert isinstance(screened.outcome, Timed)
    raced = bench.race(RaceRequest(entries=(entry, entry), estimates_us=(1.0, 1.0), rounds=3, judge=True))
    assert raced.failures == (None, None)
    assert [len(times) for times in raced.times_us] == [3, 3]


def judged(folder, body, *edits):
    """Return what a `compare` of this body makes of the library's call."""
    (folder / "own.py").write_text(
        f"import numpy as np\n\ndef judge(name, out, ref, *, inputs, outputs, references, standard, n):\n    {body}\n"
    )
    compare = ('reference = "reference.py:product"', 'reference = "reference.py:product"\ncompare = "own.py:judge"')
    return prepared(folder, compare, *edits).verify(CompiledCandidate.of_call(LIBRARY)).failure


def test_compare_is_given_inputs_outputs_references_and_the_usual_judgement(tmp_path):
    same = "np.array_equal(outputs['y'], out) and np.array_equal(references['y'], ref)"
    of_inputs = "np.allclose(inputs['a'] * inputs['b'], out, rtol=1e-5) and not inputs['a'].flags.writeable"
    assert (
        judged(tmp_path, f"return bool({same} and {of_inputs} and set(inputs) == {{'a', 'b'}} and standard())") is None
    )


def test_compare_may_leave_it_to_the_usual_judgement(tmp_path):
    wrong = judged(tmp_path, "return standard()", ("cupy:multiply", "cupy:add"))
    assert wrong.message.startswith("y: 1,")
    assert "elements are off by up to" in wrong.message
    (tmp_path / "other").mkdir()
    lenient = judged(tmp_path / "other", "return standard() or 'as expected'", ("cupy:multiply", "cupy:add"))
    assert lenient.message == "y: as expected"


def test_a_call_that_computes_something_else_is_a_wrong_result(tmp_path):
    bench = prepared(tmp_path, ("cupy:multiply", "cupy:add"))
    assert isinstance(bench.verify(CompiledCandidate.of_call(LIBRARY)).failure, WrongResult)
    (screened,) = bench.screen(ScreenRequest(entries=(CompiledCandidate.of_call(LIBRARY),)))
    assert isinstance(screened.outcome, WrongResult)


class ShortOfMemory(NumpyMachine):
    """Its library leaves the result as it is, without a word, until memory that is held in vain has been given back."""

    short = True

    def trim(self):
        self.short = False

    def load_call(self, call, buffers, *, output):
        kernel = super().load_call(call, buffers, output=output)
        launch = kernel.launch
        kernel.launch = lambda addresses: None if self.short else launch(addresses)
        return kernel


@pytest.mark.parametrize("asked", ["verify", "screen"])
def test_a_library_that_ran_short_of_memory_is_asked_again_before_it_counts_as_wrong(tmp_path, asked):
    bench, entry = prepared(tmp_path, machine=ShortOfMemory), CompiledCandidate.of_call(LIBRARY)
    if asked == "verify":
        assert bench.verify(entry).failure is None
    else:
        (screened,) = bench.screen(ScreenRequest(entries=(entry,)))
        assert isinstance(screened.outcome, Timed)


def test_who_cannot_be_loaded_for_a_race_is_to_blame_alone(tmp_path):
    other = ("[implementations.library]", '[implementations.other]\ncall = "cupy:newest"\n[implementations.library]')
    bench = prepared(tmp_path, other)
    entries = (
        CompiledCandidate.of_call(LIBRARY),
        CompiledCandidate.of_call(Configuration(implementation="other", values=())),
    )
    raced = bench.race(RaceRequest(entries=entries, estimates_us=(1.0, 1.0), rounds=3))
    assert raced.failures == (None, LaunchFailed(message="has no newest"))
    assert raced.times_us == ((), ())


def test_the_host_device_refuses_library_calls(tmp_path):
    bench = prepared(tmp_path, machine=HostMachine)
    (screened,) = bench.screen(ScreenRequest(entries=(CompiledCandidate.of_call(LIBRARY),)))
    assert screened.outcome == LaunchFailed(message="cupy.multiply runs on a GPU only")


# The process around it.


def test_a_library_gets_time_to_load_that_a_module_does_not(tmp_path, monkeypatch):
    monkeypatch.setattr(runner_module, "LIBRARY_S", 1.5)
    spec, hang = loaded(tmp_path), Configuration(implementation="library", values=(("do", 2),))
    with Runner("children:gpu", candidate_s=0.5) as gpu:
        assert gpu.prepare(PrepareRequest(spec=spec, problem=all_problems(spec)[0], default=DEFAULT)) is None
        found = gpu.screen(
            [CompiledCandidate.of_call(hang), CompiledCandidate(configuration=hang, image=b"", digest="module")]
        )
        assert [screened.outcome for screened in found] == [TimedOut(limit_s=1.5), TimedOut(limit_s=0.5)]


# How a GPU's timer samples them.


def scripted(**replaced):
    timing = pytest.importorskip("pretuned.measure.cuda.timing", reason="no CuPy here", exc_type=ImportError)

    class Scripted(timing.Timer):
        """A device on which a call of a kernel takes its `takes_us`; everything enqueued is noted."""

        def __init__(self):
            self.held, self.captured = [], []

        def _held(self, kernel, _buffers, groups):
            self.held.append((kernel.name, *groups))
            return [kernel.takes_us * count for count in groups], [0]

        def _capture(self, kernel, buffers, launches):
            self.captured.append((kernel.name, launches))
            return timing.Replay(graph=kernel, buffers=buffers, launches=launches)

        def _sample(self, source):
            if isinstance(source, timing.Replay):
                return lambda: source.graph.takes_us * source.launches
            return super()._sample(source)

    for name, value in replaced.items():
        setattr(Scripted, name, value)
    return Scripted()


def loaded_kernel(name, takes_us, *, captured=True, most_calls=None):
    return SimpleNamespace(name=name, takes_us=takes_us, captured=captured, most_calls=most_calls)


BUFFERS = SimpleNamespace(count=50, restores=False)


def sampled(timer, *kernels):
    """Samples of each kernel, each begun before any is read, as a race's round has it."""
    samplers = timer.samplers([(kernel, BUFFERS) for kernel in kernels], [kernel.takes_us for kernel in kernels])
    rounds = [[ended() for ended in [begin() for begin in samplers]] for _ in range(5)]
    return [[sample.time_us for sample in samples] for samples in zip(*rounds, strict=True)]


def test_a_race_replays_graphs_while_everyone_can_be_captured():
    timer = scripted()
    kernels = [loaded_kernel("plain", 10.0), loaded_kernel("library", 8.0)]
    times_us = sampled(timer, *kernels)
    assert not timer.held
    assert {launches for _, launches in timer.captured} == {25}
    assert times_us == [pytest.approx([10.0] * 5), pytest.approx([8.0] * 5)]


def test_a_race_with_one_that_cannot_be_captured_samples_everyone_alike():
    timer = scripted()
    kernels = [loaded_kernel("plain", 10.0), loaded_kernel("library", 8.0, captured=False, most_calls=12)]
    times_us = sampled(timer, *kernels)
    assert not timer.captured
    assert {launches for _, launches in timer.held} == {12}  # as many as the host enqueues in time, for both
    assert [name for name, _ in timer.held].count("plain") == [name for name, _ in timer.held].count("library") == 6
    assert times_us == [pytest.approx([10.0] * 5), pytest.approx([8.0] * 5)]


def test_a_function_that_a_graph_refuses_is_timed_all_the_same():
    def refuse(_self, _kernel, _buffers, _launches):
        raise Refused(LaunchFailed(message="calling cuBLAS API during stream capture is currently unsupported"))

    timer = scripted(_timed=lambda _self, _parts: ([9.0], True), _capture=refuse)
    kernel = loaded_kernel("library", 9.0, captured=None)
    assert timer.prepare_call(kernel, BUFFERS)
    assert kernel.captured is False
    assert kernel.most_calls > 1


def test_a_function_that_waits_for_the_device_cannot_be_timed():
    timer = scripted(_timed=lambda _self, _parts: ([5000.0], False))
    assert not timer.prepare_call(loaded_kernel("library", 9.0), BUFFERS)
    assert not timer.captured
