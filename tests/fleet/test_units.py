"""Units as data: what they are split into, in which order, and what a worker on another machine gets."""

from __future__ import annotations

import pickle
from concurrent.futures import Future
from dataclasses import replace

import pytest

from pretuned.errors import SpecError
from pretuned.fleet import sources
from pretuned.fleet.answers import add, counts_of, difference
from pretuned.fleet.flights import Flight, Given, Paces
from pretuned.fleet.queues import UnitQueues
from pretuned.fleet.sources import KernelFiles, moved
from pretuned.fleet.units import longest_first, split
from pretuned.measure import functions
from pretuned.outcome import Crashed
from pretuned.render import candidate
from pretuned.spec import space
from pretuned.spec.loader import load
from pretuned.spec.space import all_problems
from pretuned.strategies import named
from pretuned.tune.events import Failed
from pretuned.tune.request import TuningRequest
from pretuned.tune.spending import Spending
from pretuned.tune.workbench import Demands
from simulated_fleet import DEVICE, requests
from specs import SCALE, SCALE_TEMPLATE, edited, loaded, write

HALF = (("T", "float16"),)


@pytest.fixture
def request_for_all(tmp_path):
    spec = loaded(tmp_path)
    problems = tuple(all_problems(spec))
    return TuningRequest(spec=spec, problems=problems, calls={problems[0]: 7}, select=(HALF,))


def test_a_unit_is_one_specialisation_with_all_that_was_asked_of_it(request_for_all):
    units = split([request_for_all], DEVICE, Demands())
    assert [unit.specialisations for unit in units] == [{HALF}, {(("T", "float32"),)}]
    assert [len(unit.request.problems) for unit in units] == [2, 2]
    assert [unit.request.select for unit in units] == [(HALF,), ()]
    assert [sum(unit.request.calls.values()) for unit in units] == [7, 0]
    assert not any(unit.files for unit in units)


def test_what_takes_longest_is_given_out_first(request_for_all):
    units = split([request_for_all], DEVICE, Demands())
    fewer = replace(units[0], request=replace(units[0].request, problems=units[0].request.problems[:1]))
    assert longest_first([fewer, *units]) == [*units, fewer]


def test_what_units_of_a_kernel_took_decides_what_comes_first(tmp_path):
    paces = Paces()
    queues = UnitQueues(paces)
    quick, slow = (list(map(given_of, split([one], DEVICE, Demands()))) for one in requests(tmp_path, 2))
    for given in (*quick, *slow):
        queues.add(given)
    taken = [queues.take(DEVICE.name, full=False) for _ in range(3)]
    assert taken == [*quick, slow[0]]
    queues.add(quick[1])
    for given, seconds in ((quick[0], 1.0), (slow[0], 30.0)):
        paces.learn(given, seconds)
    queues.learned.add(DEVICE.name)
    assert [queues.take(DEVICE.name, full=False) for _ in range(2)] == [slow[1], quick[1]]
    assert paces.relative(slow[1]) > 10 * paces.relative(quick[1])


def given_of(unit):
    return Given(unit=unit, expected_s=unit.expected_s)


def test_how_long_a_unit_may_be_silent_follows_from_what_others_took(tmp_path):
    paces = Paces()
    one, other = (given_of(unit) for unit in split(requests(tmp_path, 1), DEVICE, Demands()))
    flying = {Future(): Flight(given=one, since=0.0)}
    assert paces.late(flying, 900.0, 120.0, 899.0) == []
    assert [limit_s for _, limit_s in paces.late(flying, 900.0, 120.0, 901.0)] == [900.0]
    paces.learn(other, 40.0)
    flying = {Future(): Flight(given=one, since=0.0)}
    assert paces.late(flying, 900.0, 120.0, 319.0) == []  # as many times what the slowest before it took
    assert [limit_s for _, limit_s in paces.late(flying, 900.0, 120.0, 321.0)] == pytest.approx([320.0])
    assert paces.late(flying, 900.0, 120.0, 999.0) == []  # which is known
    paces = Paces()
    paces.learn(other, 0.1)
    flying = {Future(): Flight(given=one, since=0.0)}
    assert [limit_s for _, limit_s in paces.late(flying, 900.0, 120.0, 121.0)] == [120.0]
    waits = Flight(given=one, since=0.0, standing=True)
    assert paces.late({Future(): waits}, 900.0, 120.0, 9999.0) == []


def test_the_key_has_all_that_the_answer_depends_on(request_for_all):
    unit, other = split([request_for_all], DEVICE, Demands(), files=True)
    assert pickle.loads(pickle.dumps(unit)).key == unit.key
    changed = [
        other,
        replace(unit, demands=Demands(strategy=named("random"))),
        replace(unit, demands=Demands(max_configurations=3)),
        replace(unit, compiler="13.0.88"),
        replace(unit, device=replace(DEVICE, driver="999.1")),
        replace(unit, request=replace(unit.request, calls={})),
        replace(unit, files=replace(unit.files, digest="0")),
        replace(unit, version="0.0.1"),
    ]
    assert len({unit.key, *(one.key for one in changed)}) == 1 + len(changed)
    assert replace(unit, budget_s=3.0).key == unit.key  # a share of what is left, another one each time


def test_a_worker_elsewhere_renders_and_checks_the_same_kernel(tmp_path):
    folder = tmp_path / "here" / "kernels"
    for one in (folder, tmp_path / "here" / "include", folder / ".git"):
        one.mkdir(parents=True)
    (tmp_path / "here" / "include" / "twice.cuh").write_text("#define TWICE 2\n")
    (folder / ".git" / "large").write_text("x" * 1000)
    text = edited(SCALE, ("[dims]", '[compile]\ninclude = ["../include"]\n\n[dims]'))
    spec = load(write(folder, text, template='#include "twice.cuh"\n' + SCALE_TEMPLATE))
    packed = pickle.loads(pickle.dumps(KernelFiles.of(spec)))
    there = moved(pickle.loads(pickle.dumps(spec)), packed.placed())
    (folder / "scale.cu.jinja").unlink()
    assert there.folder != spec.folder
    assert there.include_folders == (there.folder.parent / "include",)
    assert not list(there.folder.rglob("large"))
    default = space.default(there)
    source = candidate(there, HALF, default).source
    assert "TWICE" in "".join(header.text for header in source.headers)
    problem = next(iter(all_problems(there)))
    assert functions.call(there, "reference.py:scale", problem, {"x": 3, "a": 2.0}) == 6


def test_a_folder_that_is_too_large_to_be_sent_is_refused(tmp_path, monkeypatch):
    spec = loaded(tmp_path)
    monkeypatch.setattr(sources, "MOST_BYTES", 100)
    with pytest.raises(SpecError, match="keep what kernels do not read elsewhere"):
        KernelFiles.of(spec)


def test_files_that_were_changed_on_the_way_are_refused(tmp_path):
    packed = KernelFiles.of(loaded(tmp_path))
    with pytest.raises(SpecError, match="its files are not those that were packed"):
        replace(packed, packed=packed.packed + b"\0").placed()


def test_what_a_worker_spends_on_a_unit_is_what_it_has_counted_since():
    kept, summed = Spending(), Spending()
    for kernel in ("first", "second"):
        before = counts_of(kept)
        kept.kernel = kernel
        with kept.stage("screening"):
            kept.launched += 3
        kept.pruned["does not fit the device"] += 1
        kept.searched.append(kernel)
        kept.count_failure(Failed(kernel=kernel, configuration=None, problem=None, failure=Crashed(message="address")))
        spent = pickle.loads(pickle.dumps(difference(counts_of(kept), before)))
        assert (spent["launched"], spent["searched"], list(spent["pruned"].values())) == (3, (kernel,), [1])
        add(summed, spent)
    assert (summed.launched, summed.seconds.keys()) == (6, kept.seconds.keys())
    assert summed.by_kernel.keys() == kept.by_kernel.keys() == {"first", "second"}
    assert summed.searched == ["first", "second"]
    assert summed.pruned == kept.pruned
    assert summed.failed == {Crashed: 2}
    assert [event.kernel for event in summed.first_failed] == ["first"]
