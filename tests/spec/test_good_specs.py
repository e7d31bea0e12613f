"""Sound specs, and what is read off them."""

from __future__ import annotations

import pickle

import pytest
from pydantic import ValidationError

from pretuned.build.contract import interfaces
from pretuned.spec import space
from pretuned.spec.check.launch_bounds import bound_blocks
from pretuned.spec.defaults import defaults
from pretuned.spec.loader import load_folder
from pretuned.spec.tolerance import tolerances
from specs import SCALE, SEVERAL, edited, faults, loaded, write


def test_a_spec_cannot_be_changed(tmp_path):
    spec = loaded(tmp_path)

    with pytest.raises(ValidationError, match="frozen"):
        spec.summary = "something else"


def test_a_spec_can_be_sent_to_another_process(tmp_path):
    spec = loaded(tmp_path)
    known = space.environment(spec, next(space.problems(spec, (("T", "float32"),))), space.default(spec))
    assert spec.launches[0].grid[0].evaluate(known) == 4

    assert pickle.loads(pickle.dumps(spec)) == spec


def test_arguments_are_told_apart_by_what_a_call_brings(tmp_path):
    spec = loaded(tmp_path)

    assert [argument.name for argument in spec.inputs] == ["x"]
    assert [argument.name for argument in spec.outputs] == ["y"]
    assert [argument.name for argument in spec.scalars] == ["a"]


def test_several_implementations_compete_in_one_kernel(tmp_path):
    spec = loaded(tmp_path, toml=SEVERAL)

    assert list(spec.all_implementations) == ["plain", "vectors"]
    assert str(space.default(spec)) == "vectors: vec=1"
    assert str(space.default_of(spec, "plain")) == "plain: block=128"


def test_an_implementation_may_take_part_in_some_specialisations_alone(tmp_path):
    halves = ("[implementations.plain]\n", '[implementations.plain]\nconstraints = { where = ["sizeof(T) == 2"] }\n')
    spec = loaded(tmp_path, halves, toml=SEVERAL)
    found = {}
    for specialisation in space.specialisations(spec):
        problems = list(space.problems(spec, specialisation))
        legal = {one.implementation for problem in problems for one in space.configurations(spec, problem)}
        own = [str(one) for one in defaults(spec, specialisation, "plain")]
        found[dict(specialisation)["T"]] = legal, own
    assert found == {"float16": ({"plain", "vectors"}, ["plain: block=128"]), "float32": ({"vectors"}, [])}
    assert not list(bound_blocks(spec))
    subjects = [one for one in interfaces([spec]) if one.configuration.implementation == "plain"]
    assert [dict(one.specialisation) for one in subjects] == [{"T": "float16"}]


def test_one_implementation_is_named_main_and_takes_its_template_by_the_specs_name(tmp_path):
    spec = loaded(tmp_path)

    assert list(spec.all_implementations) == ["main"]
    assert spec.all_implementations["main"].template == "scale.cu.jinja"


def test_a_space_may_be_a_list_of_configurations(tmp_path):
    listed = edited(SCALE, ("[space]\nblock = [128, 256]\nvec   = [1, 2, 4]\n", "")).replace(
        "[dims]", "space = [{ vec = 4, block = 128 }, { block = 256, vec = 1 }]\n[dims]"
    )
    spec = loaded(tmp_path, toml=listed)

    assert [str(c) for c in space.combinations("main", spec.all_implementations["main"])] == [
        "block=128, vec=4",
        "block=256, vec=1",
    ]


def test_a_parameter_may_be_a_bool(tmp_path):
    spec = loaded(
        tmp_path,
        ("vec   = [1, 2, 4]", "vec = [1, 2, 4]\nfast = [true, false]"),
        ("vec   = 1\n", "vec = 1\nfast = false\n"),
        ('block    = ["block"]', 'block = ["block if fast else 128"]'),
    )

    assert [str(c) for c in space.combinations("main", spec.all_implementations["main"])][:2] == [
        "block=128, fast=false, vec=1",
        "block=128, fast=false, vec=2",
    ]


def test_a_demand_of_the_kernel_makes_a_guarded_default_legal(tmp_path):
    spec = loaded(
        tmp_path,
        (', align = "vec * sizeof(T)"', ""),
        ("vec   = 1\n", "vec = 2\n"),
        ("where =", 'requires = ["n % 2 == 0"]\nwhere ='),
    )

    assert str(space.default(spec)) == "block=256, vec=2"


def test_a_template_sees_what_its_includer_sets(tmp_path):
    (tmp_path / "part.cuh").write_text("constexpr int two = {{ twice }};\n", encoding="utf-8")
    template = (
        '{% set twice = 2 * vec %}{% include "part.cuh" %}{% include "lost.cuh" ignore missing %}'
        'extern "C" __global__ void scale() {% for i in range(vec) %}{}{% endfor %}'
    )

    assert loaded(tmp_path, template=template).name == "scale"


def test_a_template_may_set_in_a_branch_what_only_its_include_reads(tmp_path):
    (tmp_path / "part.cuh").write_text("constexpr int two = {{ twice }};\n", encoding="utf-8")
    template = (
        '{% if vec > 1 %}{% set twice = 2 * vec %}{% include "part.cuh" %}{% endif %}'
        'extern "C" __global__ void scale() {% for i in range(vec) %}{}{% endfor %}'
    )

    assert loaded(tmp_path, template=template).name == "scale"


def test_a_folder_gives_its_kernels_by_sorted_name(tmp_path):
    named = edited(SCALE, ("format  = 1", 'format = 1\ntemplate = "scale.cu.jinja"'))
    for name in ("zeta", "alpha"):
        write(tmp_path, named, name=name)

    assert list(load_folder(tmp_path)) == ["alpha", "zeta"]


@pytest.mark.parametrize(
    ("verify", "dtype", "expected"),
    [
        ("rtol = { float32 = 1e-4 }", "float32", (1e-4, None)),
        ("rtol = { float32 = 1e-4 }", "float16", (2e-3, None)),
        ("rtol = 1e-3\natol = { float16 = 0.5 }", "float16", (1e-3, 0.5)),
        ("rtol = 1e-3\natol = { float16 = 0.5 }", "float32", (1e-3, None)),
        ("atol = 0.25", "float32", (1e-5, 0.25)),
        ("rtol = 0", "float32", (0, None)),
    ],
)
def test_tolerances_go_by_the_outputs_type(tmp_path, verify, dtype, expected):
    spec = loaded(tmp_path, ("rtol = { float32 = 1e-5, float16 = 2e-3 }", verify))

    assert tolerances(spec, spec.outputs[0], (("T", dtype),)) == expected


def test_an_integer_result_is_exact_unless_the_spec_says_otherwise(tmp_path):
    spec = loaded(tmp_path, ('role = "out", dtype = "T"', 'role = "out", dtype = "int32"'))

    assert tolerances(spec, spec.outputs[0], (("T", "float32"),)) == (0.0, None)


def test_one_number_is_for_floating_outputs_and_a_table_for_integers_as_well(tmp_path):
    integers = ('role = "out", dtype = "T"', 'role = "out", dtype = "int32"')
    given = ("rtol = { float32 = 1e-5, float16 = 2e-3 }", "atol = { int32 = 2, float32 = 0.5 }\nrtol = { int32 = 0.1 }")
    spec = loaded(tmp_path, integers, given)
    assert tolerances(spec, spec.outputs[0], (("T", "float32"),)) == (0.1, 2.0)

    one_number = ("rtol = { float32 = 1e-5, float16 = 2e-3 }", "atol = 1")
    (fault,) = faults(tmp_path, integers, one_number)
    assert fault.endswith(
        "verify.atol: write `atol = { int32 = 1 }`: one number is for floating outputs, and this kernel has none"
    )
