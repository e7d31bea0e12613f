"""A selection at run time decides as the builder's rule does, and of a lock it reads costs and nothing else."""

import ast
import dataclasses
import importlib
import itertools
import json
import random
import re
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import sample
from generated import assigned
from hostile_data import RAW, spoilt
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.record.selection_entries import selection_to_json
from pretuned.record.selections import PredictedChoice
from pretuned.runtime import costs
from pretuned.runtime.records import selection_of
from pretuned.spec import space
from pretuned.spec.expressions import Expression
from pretuned.spec.space import Configuration, DeviceFacts, Problem
from pretuned.tune.selection import rule
from pretuned.tune.space.columns import evaluate

PROBLEMS = 1_000_000  # of the bulk
TERMS = (
    "1",
    "cols",
    "rows * cols // 1024",
    "ceil_div(cols, 256)",
    "rows * ceil_div(cols, 512)",
    "ceil_div(rows * ceil_div(cols, 128), 264)",
    "cols % 32 != 0",
    "rows * cols if cols % 4 != 0 else 0",
    "min(cols, 4096) // 3",
    "max(rows, 7) % 5",
    "-(-rows // 64) * (cols > 1000 and rows > 3)",
)
AFFINE = {"T": "float32", "relu": False}


def selections_drawn(count):
    """Yield selections of the sample's affine with costs that are close to each other, and some without a cost."""
    draw = random.Random(14)
    shipped = [{"block": block, "vec": vec} for block, vec in ((64, 1), (64, 2), (64, 4), (128, 4), (1024, 1))]
    for _ in range(count):
        chosen = [*draw.sample(shipped, draw.randint(0, len(shipped))), {"block": 128, "vec": 1}]
        choices = []
        for values in chosen:
            terms = draw.sample(TERMS, draw.randint(0 if draw.random() < 0.1 else 1, 5))
            choices.append(
                PredictedChoice(
                    configuration=Configuration(implementation="main", values=space.pairs(values)),
                    candidate="",
                    cubin="",
                    cost=tuple(sorted((term, draw.choice([0, 1, 1000, draw.randint(0, 10**9)])) for term in terms)),
                )
            )
        (like,) = sample.selections()
        yield dataclasses.replace(
            like,
            specialisation=space.pairs(AFFINE),
            choices=tuple(choices),
            margins=(draw.choice([0, 20, 50]), draw.choice([0, 100, 400])),
            reach=(("cols", (draw.randint(1, 300), draw.randint(300, 9000))), ("rows", (2, draw.randint(2, 500)))),
        )


def literal_of(selection):
    """Return a selection as the generated table of a package has it, by way of its text."""
    planned = plan({"affine": sample.specs()["affine"]}, [], sample.DEVICES, selections=[selection], cubins=False)
    table = ast.unparse(assigned(ast.parse(files(planned, {})["__init__.py"]), "SELECTIONS"))
    return eval(table, {"min": min, "max": max})["affine"]


def agrees(tuned, count, problems):
    """Hold what the runtime decides against the builder's rule, at so many problems of so many selections."""
    runtime = {
        name: importlib.import_module(f"pkg.tuned._runtime.{name}")
        for name in ("answers", "devices", "lookup", "overrides", "problem", "refusal")
    }
    spec, draw = sample.specs()["affine"], random.Random(15)
    kernel = importlib.import_module("pkg.tuned._runtime.table").KERNELS["affine"]
    names = ("sm_count", "compute_capability", "shared_bytes", "l2_bytes")
    known = {name: getattr(sample.H100, name) for name in names}
    device, facts = runtime["devices"].Device(sample.H100.name, known), DeviceFacts(**known)
    ran, overrides = Counter(), runtime["overrides"].Overrides()
    for selection in selections_drawn(count):
        overrides.table = runtime["answers"].LockTable({sample.H100.name: known}, {}, {"affine": literal_of(selection)})
        for _ in range(problems):
            dims = {
                "cols": int(2 ** draw.uniform(0, 15)) * draw.choice([1, 1, 4]),
                "rows": int(2 ** draw.uniform(0, 20)),
            }
            called = runtime["problem"].CalledProblem(kernel, device, AFFINE, {**AFFINE, **dims})
            decision = runtime["lookup"].decide(kernel, called, lambda _name, _size: True, overrides)
            found = Configuration(implementation="main", values=space.pairs(decision.shipped.configuration))
            problem = Problem(specialisation=space.pairs(AFFINE), dims=space.pairs(dims))
            wanted, *_ = rule.ranking(selection, spec, problem, facts)
            assert found == wanted, (selection, dims, decision.why)
            assert space.legal(spec, problem, found, facts)
            ran[str(found)] += 1
    return ran


def test_the_runtime_decides_as_the_builder_does(tuned):
    ran = agrees(tuned, 16, 250)
    assert len(ran) == 6
    assert min(ran.values()) > 50


def picked(selection, columns):
    """Return the places of what the rule picks at every problem, by the arrays that the builder computes with."""
    *others, default = [
        sum(fs * evaluate(Expression.parse(term), columns, {})[0].astype(object) for term, fs in choice.cost)
        for choice in selection.predicted
    ]
    within = np.ones(len(columns["cols"]), bool)
    for name, (low, high) in selection.reach:
        within &= (columns[name] >= low) & (columns[name] <= high)
    inside, outside = selection.margins
    highest = default * (1000 - np.where(within, inside, outside).astype(object)) if others else default
    best, places = highest, np.full(len(within), len(others))
    for place, cost in enumerate(others):
        better = (cost * 1000 <= highest) & ((places == len(others)) | (cost < best))
        best, places = np.where(better, cost, best), np.where(better, place, places)
    return places.tolist()


@pytest.mark.slow
def test_a_million_picks_are_the_builders(record_property):
    begin, draw, drawn, count = time.monotonic(), np.random.default_rng(16), list(selections_drawn(100)), Counter()
    for selection in drawn:
        if not selection.choices[-1].cost:
            continue
        (literal,) = literal_of(selection)[sample.H100.name]
        found = selection_of(literal)
        exponents = {"cols": 17, "rows": 20}
        size = PROBLEMS // len(drawn)
        columns = {name: np.exp2(draw.uniform(0, most, size)).astype(np.int64) for name, most in exponents.items()}
        wanted = picked(selection, columns)
        for values, place in zip(zip(*(c.tolist() for c in columns.values()), strict=True), wanted, strict=True):
            problem = dict(zip(columns, values, strict=True))
            ranked = found.ranked(found.costs_at(problem), problem, len(found.choices) - 1)
            assert ranked[0] is found.choices[place], (selection, problem)
        count.update(wanted)
    assert sum(count.values()) >= PROBLEMS
    assert len(count) == 6
    record_property("figure", f"{sum(count.values()):,} picks, the builder's own: {time.monotonic() - begin:.0f} s")


@pytest.mark.parametrize(
    ("term", "message"),
    [
        ("cols ** 9", "is not a cost over cols, rows"),
        ("cols // rows", "is not a cost over cols, rows"),
        ("cols % 0", "is not a cost over cols, rows"),
        ("cols // -3", "is not a cost over cols, rows"),
        ("ceil_div(cols, rows)", "is not a cost over cols, rows"),
        ("block", "is not a cost over cols, rows"),
        ("__import__('os').abort()", "is not a cost over cols, rows"),
        ("cols.bit_length()", "is not a cost over cols, rows"),
        ("[cols for cols in (1,)][0]", "is not a cost over cols, rows"),
        ("(lambda: cols)()", "is not a cost over cols, rows"),
        ("cols @ rows", "is not a cost over cols, rows"),
        ("cols << 9", "is not a cost over cols, rows"),
        ("min(cols)", "is not a cost over cols, rows"),
        ("max(*[cols, rows])", "is not a cost over cols, rows"),
        ("min(cols, rows, key=cols)", "is not a cost over cols, rows"),
        ("1.5 * cols", "is not a cost over cols, rows"),
        ("9" * 30, "is not a cost over cols, rows"),
        ("cols +", "is not an expression"),
        ("(" * 1600 + "cols" + ")" * 1600, "an expression of at most 3000 characters"),
        ("-" * 400 + "cols", "is not"),
        ("cols\nimport os", "is not an expression"),
    ],
)
def test_a_term_that_is_not_in_the_language_is_refused(term, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        costs.compiled([[(term, 1)]], ("cols", "rows"))


SHARED = "ceil_div(cols, max(1, ceil_div(rows, 4)))"


def test_what_costs_have_in_common_is_computed_once_and_to_the_same_values():
    given = [
        [(SHARED, 3), ("1", 5)],
        [(f"rows % max(1, {SHARED})", 7), (f"1 if {SHARED} > 2 else 0", 11)],
        [("cols", 1)],
    ]
    found = costs.compiled(given, ("cols", "rows"))
    parts, texts = costs.shared(given, ("cols", "rows"))
    assert [name for name, _ in parts] == ["_0"]
    assert sum(text.count("max(1, -(-rows // 4))") for text in (*texts, *dict(parts).values())) == 1
    assert found.__code__.co_varnames[: found.__code__.co_argcount] == ("cols", "rows")
    for cols, rows in itertools.product((0, 1, 5, 64, 1000), repeat=2):
        strips = -(-cols // max(1, -(-rows // 4)))
        assert found(cols, rows) == (3 * strips + 5, 7 * (rows % max(1, strips)) + 11 * (strips > 2), cols)


def test_names_of_what_is_shared_are_not_those_of_dims():
    parts, _ = costs.shared([[("_0 // 3 + 1", 2)], [("_0 // 3 + 2", 2)]], ("_0",))
    assert parts == [("__0", "_0 // 3")]


@pytest.mark.parametrize("divisor", ["rows", "max(0, rows)", "min(1, rows)", "max(rows, cols)", "1 - rows"])
def test_a_term_divides_by_nothing_that_may_be_zero(divisor):
    for term in (
        f"cols // {divisor}" if " - " not in divisor else f"cols // ({divisor})",
        f"ceil_div(cols, {divisor})",
    ):
        with pytest.raises(ValueError, match="is not a cost over cols, rows"):
            costs.compiled([[(term, 1)]], ("cols", "rows"))


@pytest.mark.parametrize("femtoseconds", [-1, 2**63, True, 1.5, "1", None])
def test_the_time_of_a_term_is_a_whole_number(femtoseconds):
    with pytest.raises(ValueError, match="femtoseconds; write a number of 0 or more"):
        costs.compiled([[("cols", femtoseconds)]], ("cols",))


def test_a_cost_has_only_so_many_terms():
    with pytest.raises(ValueError, match="has 201 terms; at most 200 can be read"):
        costs.shared([[(f"cols + {step}", 1) for step in range(201)]], ("cols",))


def lock_with(folder, entry):
    """Return the path of a lock that holds the selection, and no row."""
    file = folder / "pretuned.lock.json"
    known = {name: getattr(sample.H100, name) for name in ("sm_count", "compute_capability", "memory_gbps", "l2_bytes")}
    document = {"format": 1, "devices": {sample.H100.name: known}, "rows": [], "selections": [entry]}
    file.write_text(json.dumps(document))
    return str(file)


ASKED = {"device": sample.H100.name, "rows": 16, "cols": 2048, "T": "float32", "relu": True}


def test_a_lock_brings_its_selections(tuned, tmp_path):
    (entry,) = map(selection_to_json, sample.selections())
    packaged = tuned.explain("affine", **ASKED)
    with tuned.using(table=lock_with(tmp_path, entry)):
        found = tuned.explain("affine", **ASKED)
    assert (found.configuration, found.predicted_us) == (packaged.configuration, packaged.predicted_us)
    assert str(found.certificate.outside) == str(packaged.certificate.outside)
    entry["choices"][0]["cost"] = {"1": 1}
    with tuned.using(table=lock_with(tmp_path, entry)):
        assert tuned.explain("affine", **ASKED).configuration == {"block": 64, "vec": 4}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": {"__import__('os').abort()": 1}}, "selections[0].choices[0]: the term"),
        ({"cost": {"cols ** 99": 1}}, "is not a cost over cols, rows"),
        ({"cost": {"cols": "1"}}, "write a number of 0 or more"),
        ({"configuration": {"block": 96, "vec": 1}}, "pkg.tuned.affine does not ship block=96, vec=1"),
    ],
)
def test_a_lock_whose_selection_cannot_be_read_is_refused(tuned, tmp_path, change, message):
    (entry,) = map(selection_to_json, sample.selections())
    entry["choices"][0] |= change
    with pytest.raises(ValueError, match=re.escape(message)):
        tuned.using(table=lock_with(tmp_path, entry))


def test_whatever_stands_in_a_lock_that_is_named_it_is_read_or_refused_in_words(tuned, tmp_path, monkeypatch):
    (entry,) = map(selection_to_json, sample.selections())
    path, refused, read = Path(lock_with(tmp_path, entry)), [], 0
    monkeypatch.chdir(tmp_path)
    for document in spoilt(json.loads(path.read_text())):
        path.write_text(json.dumps(document))
        try:
            with tuned.using(table=path.name):
                str(tuned.explain("affine", **ASKED))
            read += 1
        except tuned.PretunedError as error:
            refused.append(str(error))
    assert (len(refused), read) > (300, 30)
    for said in refused:
        assert said.startswith("using: 'pretuned.lock.json': selections[0]")
        assert not RAW.search(said)


def test_the_certificate_is_kept_without_an_outside(tuned, tmp_path):
    (entry,) = map(selection_to_json, sample.selections())
    del entry["certificate"]["outside"]
    with tuned.using(table=lock_with(tmp_path, entry)):
        assert "outside the sizes" not in str(tuned.explain("affine", **ASKED))
    del entry["certificate"]
    with tuned.using(table=lock_with(tmp_path, entry)):
        assert "  proof   not certified" in str(tuned.explain("affine", **ASKED))
