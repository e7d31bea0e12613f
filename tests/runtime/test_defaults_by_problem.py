"""Calls whose default depends on the problem: without rows, with them, by a selection, and by what a user asks for."""

from __future__ import annotations

import ast
import importlib
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

import fake_cuda
import sample
from generated import assigned
from pretuned.api.baking import parse_extra
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.errors import UsageError
from pretuned.record.selection_entries import selection_to_json
from pretuned.record.selections import PredictedChoice
from pretuned.report.selections import selection_table, selections_of
from pretuned.spec import space
from pretuned.spec.defaults import defaults
from pretuned.spec.loader import load as load_spec
from pretuned.spec.space import Configuration, DeviceFacts, Problem
from pretuned.tune.selection import ranking

SPEC = load_spec(Path(__file__).parents[1] / "data" / "defaults" / "scale_rows.toml")
TERMS = ("1", "d", "tokens * d // 1024", "ceil_div(d, 256)", "tokens * ceil_div(d, 512)", "d % 32 != 0", "tokens % 8")
FACTS = {name: getattr(sample.H100, name) for name in ("sm_count", "compute_capability", "shared_bytes", "l2_bytes")}
H100, WIDE = sample.H100.name, {"block": 256, "items": 2}
T4 = replace(sample.H100, name="NVIDIA T4", compute_capability=75, sm_count=40)
DEFAULTS = defaults(SPEC, ())
OTHERS = [one for one in space.combinations("main", SPEC.all_implementations["main"]) if one not in DEFAULTS]


def default(**dims):
    return dict(space.default_at(SPEC, Problem(specialisation=(), dims=space.pairs(dims))).values)


def selections_drawn(count):
    """Yield selections with costs that are close to each other; some of what may be the default has none."""
    draw = random.Random(20)
    for _ in range(count):
        choices = tuple(
            PredictedChoice(
                configuration=one,
                candidate="",
                cubin="",
                cost=()
                if draw.random() < 0.15
                else tuple(sorted((term, draw.randint(1, 10**6)) for term in draw.sample(TERMS, draw.randint(1, 4)))),
            )
            for one in (*draw.sample(OTHERS, draw.randint(0, len(OTHERS))), *DEFAULTS)
        )
        (like,) = sample.selections()
        yield replace(
            like,
            kernel="scale_rows",
            specialisation=(),
            choices=choices,
            defaults=len(DEFAULTS),
            margins=(draw.choice([0, 20, 50]), draw.choice([0, 100, 400])),
            reach=(("d", (draw.randint(1, 300), draw.randint(300, 9000))), ("tokens", (2, draw.randint(2, 500)))),
        )


def row(dims, *configurations):
    choices = [
        replace(sample.choice(2.0 + place), configuration=Configuration(implementation="main", values=space.pairs(one)))
        for place, one in enumerate(configurations)
    ]
    return sample.row("scale_rows", sample.H100, {}, dims, *choices)


def baked(folder, rows=(), selections=()):
    made = plan({"scale_rows": SPEC}, rows, {one.name: one for one in (sample.H100, T4)}, selections=selections)
    sample.write({"__init__.py": b""}, folder / "pkg")
    sample.write(files(made, sample.binaries(made), version="0.0.0"), folder / "pkg" / "tuned")
    return folder


@pytest.fixture
def run(load, tmp_path, cupy, cuda, monkeypatch):
    """Bake a package, and return what calls it and gives the configuration that ran."""
    monkeypatch.setitem(fake_cuda.SIGNATURES, "scale_rows", "QQQi")
    monkeypatch.setenv("PRETUNED_WARN", "0")

    def of(*, rows=(), selections=()):
        module = load(baked(tmp_path, rows, selections))

        def call(*, tokens, d):
            before = len(cuda.launches)
            module.scale_rows(cupy.ndarray((tokens, d), "float32"), cupy.ndarray((d,), "float32"))
            (launch,) = cuda.launches[before:]
            told = module.explain("scale_rows", tokens=tokens, d=d)
            assert launch.block == (told.configuration["block"], 1, 1)
            assert launch.grid[0] == -(-d // (told.configuration["block"] * told.configuration["items"]))
            return told.configuration

        call.module = module
        return call

    return of


def test_without_rows_each_problem_has_its_default(run):
    call = run()
    for tokens in (1, 255, 256, 4096):
        for d in (1, 3, 1020, 1023, 1024, 1025, 4096):
            for _ in range(2):  # and by the fast path
                assert call(tokens=tokens, d=d) == default(tokens=tokens, d=d), (tokens, d)


def test_all_that_it_may_be_ships_for_every_device(run, tmp_path):
    call = run()
    (kernel,) = importlib.import_module("pkg.tuned._runtime.table").KERNELS.values()
    assert [one.configuration for one in kernel.shipments[()].defaults] == [dict(one.values) for one in DEFAULTS]
    portable = [
        source
        for source, binaries in kernel.binaries.items()
        if any(image.architecture.startswith("compute_") for image in binaries.images)
    ]
    assert set(portable) == {one.source for one in kernel.shipped}
    call.module.scale_rows.prepare()


def test_builder_and_package_decide_alike(run):
    """With a selection, with one that lacks costs, and with none: 2,000 problems."""
    everything = [
        row(dims, *[dict(one.values) for one in OTHERS], default(**dims)) for dims in [{"d": 512, "tokens": 16}]
    ]
    run(rows=everything)
    names = ("answers", "devices", "lookup", "overrides", "problem")
    runtime = {name: importlib.import_module(f"pkg.tuned._runtime.{name}") for name in names}
    (kernel,) = importlib.import_module("pkg.tuned._runtime.table").KERNELS.values()
    device, facts, draw = runtime["devices"].Device(sample.H100.name, FACTS), DeviceFacts(**FACTS), random.Random(21)
    overrides, ran = runtime["overrides"].Overrides(), set()
    for selection in selections_drawn(20):
        literal = literal_of(selection)
        overrides.table = runtime["answers"].LockTable({sample.H100.name: FACTS}, {}, {"scale_rows": literal})
        for _ in range(100):
            dims = {"d": int(2 ** draw.uniform(0, 14)), "tokens": int(2 ** draw.uniform(0, 14))}
            called = runtime["problem"].CalledProblem(kernel, device, {}, dims)
            decision = runtime["lookup"].decide(kernel, called, lambda _name, _size: True, overrides)
            problem = Problem(specialisation=(), dims=space.pairs(dims))
            wanted, *_ = ranking(selection, SPEC, problem, facts)
            assert decision.shipped.configuration == dict(wanted.values), (selection, dims, decision.why)
            assert decision.default.configuration == default(**dims)
            ran.add((wanted, wanted == space.default_at(SPEC, problem)))
    assert len(ran) > 2 * len(DEFAULTS)


def literal_of(selection):
    """Return a selection as the generated table of a package has it, by way of its text."""
    planned = plan({"scale_rows": SPEC}, [], sample.DEVICES, selections=[selection], cubins=False)
    table = ast.unparse(assigned(ast.parse(files(planned, {})["__init__.py"]), "SELECTIONS"))
    return eval(table, {"min": min, "max": max})["scale_rows"]


def test_a_row_runs_and_its_default_is_that_of_its_problem(run):
    few = {"tokens": 16, "d": 512}
    call = run(rows=[row(few, WIDE, default(**few))])
    assert call(**few) == WIDE
    found = call.module.explain("scale_rows", device=H100, **few)
    assert (found.time_us, found.default_us) == (2.0, 3.0)


def test_the_nearest_row_runs_but_for_its_default(run):
    """Its choice stands; where only its default is left, the default is that of the problem that is called."""
    few = {"tokens": 16, "d": 512}
    call = run(rows=[row(few, WIDE, default(**few))])
    assert call(tokens=17, d=1030) == WIDE
    assert call(tokens=17, d=1029) == default(tokens=17, d=1029)
    assert call(tokens=999, d=1031) == default(tokens=999, d=1031)


def test_where_the_default_won_the_problems_own_default_runs(run):
    many = {"tokens": 4096, "d": 4096}
    call = run(rows=[row(many, default(**many))])
    assert call(tokens=3, d=4100) == default(tokens=3, d=4100)
    assert call.module.explain("scale_rows", device=H100, **many).why[-1] == "the row's default"


def test_what_may_be_the_default_elsewhere_wins_as_any_other(run):
    few = {"tokens": 16, "d": 512}
    elsewhere = default(tokens=4096, d=4096)
    call = run(rows=[row(few, elsewhere, default(**few))])
    assert call(**few) == elsewhere != default(**few)


def test_what_users_ask_for(run, monkeypatch):
    few = {"tokens": 16, "d": 512}
    rows = [row(few, WIDE, default(**few))]
    monkeypatch.setenv("PRETUNED_DEFAULTS", "1")
    call = run(rows=rows)
    assert call(**few) == default(**few)
    assert call(tokens=300, d=2048) == default(tokens=300, d=2048)
    monkeypatch.delenv("PRETUNED_DEFAULTS")
    monkeypatch.setenv("PRETUNED_CONFIG", "scale_rows:block=256,items=2")
    call = run(rows=rows)
    assert call(tokens=16, d=4094) == WIDE
    assert call(tokens=16, d=4095) == default(tokens=16, d=4095)  # which that configuration does not take


def test_rows_of_a_device_that_is_not_like_it_are_not_taken(run):
    few = {"tokens": 16, "d": 512}
    call = run(rows=[replace(row(few, WIDE, default(**few)), device=T4.name)])
    assert call(**few) == default(**few)
    assert call(tokens=512, d=4096) == default(tokens=512, d=4096)


def test_explain_tells_the_default_of_the_problem(run):
    selection = next(one for one in selections_drawn(9) if all(choice.cost for choice in one.choices))
    call = run(selections=[selection])
    for dims in ({"tokens": 16, "d": 512}, {"tokens": 4096, "d": 4095}):
        found = call.module.explain("scale_rows", device=H100, **dims)
        problem = Problem(specialisation=(), dims=space.pairs(dims))
        own = next(one for one in selection.choices if one.configuration == space.default_at(SPEC, problem))
        costs = sum(fs * eval(term, {**dims, "ceil_div": lambda a, b: -(-a // b)}) for term, fs in own.cost)
        assert found.default_predicted_us == pytest.approx(costs / 1e9)
    assert selection_table(selections_of(call.module)).count("(a default)") == len(DEFAULTS)


def test_a_lock_brings_its_own(run, tmp_path):
    selection = next(one for one in selections_drawn(9) if all(choice.cost for choice in one.choices))
    call, known = run(selections=[selection]), FACTS | {"memory_gbps": 3352}
    file = tmp_path / "pretuned.lock.json"
    dims = {"tokens": 16, "d": 512}
    for entry in (selection_to_json(selection), selection_to_json(replace(selection, choices=selection.choices[-2:]))):
        document = {"format": 1, "devices": {sample.H100.name: known}, "rows": [], "selections": [entry]}
        file.write_text(json.dumps(document))
        with call.module.using(table=str(file)):
            found = call.module.explain("scale_rows", device=H100, **dims)
        if len(entry["choices"]) == 2:  # without what is the default here
            assert (found.configuration, found.default_predicted_us) == (default(**dims), None)


def test_what_ships_besides_has_a_value_for_each_such_parameter():
    specs = {"scale_rows": SPEC}
    _, extra = parse_extra("scale_rows:block=256,items=2", specs)
    assert str(extra) == "block=256, items=2"
    with pytest.raises(UsageError) as caught:
        parse_extra("scale_rows:items=2", specs)
    assert str(caught.value) == (
        "--with scale_rows:items=2: name a value of block too, whose default depends on the problem"
    )
