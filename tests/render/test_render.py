"""From configurations to modules and candidates."""

from __future__ import annotations

import pytest

from pretuned.render import candidate, source_of, verification_key
from pretuned.spec import space
from pretuned.spec.space import Configuration
from pretuned.spec.templates import RenderError
from specs import SCALE_TEMPLATE, SEVERAL, edited, loaded, write

FLOAT32 = (("T", "float32"),)
FLOAT16 = (("T", "float16"),)
OPTIONS = '[compile]\noptions = ["-DBLOCK={{ block }}", "--use_fast_math"]\n\n[constraints]'


def configuration(implementation="main", **values):
    return Configuration(implementation=implementation, values=space.pairs(values))


def test_a_type_is_rendered_as_cuda_spells_it(tmp_path):
    spec = loaded(tmp_path)

    assert "void scale(float* y, const float* x" in source_of(spec, FLOAT32, space.default(spec)).text
    assert "void scale(__half* y, const __half* x" in source_of(spec, FLOAT16, space.default(spec)).text


def test_a_bool_is_rendered_as_cuda_spells_it(tmp_path):
    template = SCALE_TEMPLATE + "constexpr bool wide = {{ vec > 1 }};\n{% if vec > 1 %}// wide\n{% endif %}"
    spec = loaded(tmp_path, template=template)

    assert source_of(spec, FLOAT32, configuration(block=128, vec=1)).text.endswith("constexpr bool wide = false;\n")
    assert source_of(spec, FLOAT32, configuration(block=128, vec=2)).text.endswith("wide = true;\n// wide\n")


def test_an_include_becomes_part_of_the_text(tmp_path):
    (tmp_path / "part.cuh").write_text("constexpr int twice = {{ 2 * vec }};\n", encoding="utf-8")
    spec = loaded(tmp_path, template='{% include "part.cuh" %}\n' + SCALE_TEMPLATE)

    module = source_of(spec, FLOAT32, configuration(block=128, vec=4))

    assert module.text.startswith("constexpr int twice = 8;\n// y = a * x")


def test_options_are_rendered(tmp_path):
    spec = loaded(tmp_path, ("[constraints]", OPTIONS))

    assert source_of(spec, FLOAT32, configuration(block=128, vec=1)).options == ("-DBLOCK=128", "--use_fast_math")


def test_entry_points_are_those_of_the_launches(tmp_path):
    spec = loaded(tmp_path, toml=SEVERAL)

    assert source_of(spec, FLOAT32, configuration("plain", block=128)).functions == ("scale",)


def test_configurations_that_differ_in_the_launch_share_a_module_but_are_two_candidates(tmp_path):
    spec = loaded(tmp_path)
    one, other = (candidate(spec, FLOAT32, configuration(block=block, vec=2)) for block in (128, 256))

    assert one.source == other.source
    assert one.source.key == other.source.key
    assert one.key != other.key


def test_options_tell_modules_apart(tmp_path):
    spec = loaded(tmp_path, ("[constraints]", OPTIONS))
    one, other = (source_of(spec, FLOAT32, configuration(block=block, vec=2)) for block in (128, 256))

    assert one.text == other.text
    assert one.key != other.key


def test_a_reworded_comment_changes_no_key(tmp_path):
    spec = loaded(tmp_path)
    before = candidate(spec, FLOAT32, space.default(spec))
    reworded = edited(
        SCALE_TEMPLATE, ("// y = a * x,", "/* Scales:\n * x by a,\n */\n\n\n  //"), ("    const int", "\tconst int")
    )
    spec = loaded(tmp_path, ('"y = a * x."', '"Scales."'), template=reworded)
    after = candidate(spec, FLOAT32, space.default(spec))

    assert before.source.text != after.source.text
    assert (before.source.key, before.key) == (after.source.key, after.key)


def test_with_line_information_a_moved_line_is_another_module(tmp_path):
    options = ("[constraints]", '[compile]\noptions = ["-lineinfo"]\n\n[constraints]')
    spec = loaded(tmp_path, options)
    before = source_of(spec, FLOAT32, space.default(spec)).key
    spec = loaded(tmp_path, options, template="\n" + SCALE_TEMPLATE)

    assert source_of(spec, FLOAT32, space.default(spec)).key != before


@pytest.mark.parametrize(
    "edit",
    [
        ('"ceil_div(n, block * vec)"', '"ceil_div(n, block)"'),
        ('block    = ["block"]', 'block = ["block"]\nshared = "16"'),
        ('block    = ["block"]', 'block = ["block"]\narguments = ["y", "x", "a", "n"]'),
        ('dtype = "int32"', 'dtype = "int64"'),
        ('name = "y", role = "out"', 'name = "y", role = "out", init = 0'),
        ('name = "x", role = "in"', 'name = "x", role = "inout"'),
        (', align = "vec * sizeof(T)"', ""),
    ],
)
def test_what_a_measurement_depends_on_changes_the_candidate_but_not_the_module(tmp_path, edit):
    spec = loaded(tmp_path)
    before = candidate(spec, FLOAT32, space.default(spec))
    spec = loaded(tmp_path, edit)
    after = candidate(spec, FLOAT32, space.default(spec))

    assert after.key != before.key
    assert after.source.key == before.source.key


def test_what_a_measurement_does_not_depend_on_leaves_the_candidate(tmp_path):
    spec = loaded(tmp_path)
    before = candidate(spec, FLOAT32, space.default(spec)).key
    spec = loaded(
        tmp_path,
        ("rtol = { float32 = 1e-5", "rtol = { float32 = 1e-4"),
        ("1024, 65536", "1024"),
        ("[128, 256]", "[128, 256, 512]"),
        ("ceil_div(n, block * vec)", "ceil_div( n,block*vec )"),
    )

    assert candidate(spec, FLOAT32, space.default(spec)).key == before


def test_what_a_result_is_judged_by_changes_the_verification(tmp_path):
    keys = {verification_key(loaded(tmp_path))}
    keys.add(verification_key(loaded(tmp_path, ("float32 = 1e-5", "float32 = 1e-4"))))
    keys.add(verification_key(loaded(tmp_path, ("value = 2.0", "value = 3.0"))))
    keys.add(verification_key(loaded(tmp_path, ('role = "in"', 'role = "in", fill = "ones"'))))
    spec = loaded(tmp_path)
    (tmp_path / "reference.py").write_text("def scale(x, a, **_):\n    return x * a\n", encoding="utf-8")
    keys.add(verification_key(spec))

    assert len(keys) == 5


def test_a_reference_for_the_gpu_is_held_to_the_reference_and_changes_no_verification(tmp_path):
    before = verification_key(loaded(tmp_path))
    edit = ("[verify]\n", '[verify]\ngpu-reference = "reference.py:scale"\n')
    assert verification_key(loaded(tmp_path, edit)) == before


def test_scratch_types_are_resolved_in_the_key(tmp_path):
    def keys(accumulator):
        spec = loaded(
            tmp_path,
            ("[dims]", 'scratch = [{ name = "part", dtype = "Acc", shape = ["block"] }]\n[dims]'),
            (
                "[specialisations]\n",
                f'[specialisations]\nAcc = {{ from = "T", float32 = "{accumulator}", float16 = "float32" }}\n',
            ),
            ("[[launches]]\n", '[[launches]]\narguments = ["y", "x", "a", "n", "part"]\n'),
        )
        return candidate(spec, FLOAT32, space.default(spec)).key

    assert keys("float32") != keys("float64")


def test_an_error_in_rendering_names_the_line_and_the_configuration(tmp_path):
    template = SCALE_TEMPLATE + "{% if vec == 4 %}\n{{ vec.missing }}\n{% endif %}\n"
    spec = loaded(tmp_path, template=template)

    with pytest.raises(RenderError) as caught:
        source_of(spec, FLOAT32, configuration(block=128, vec=4))

    assert (
        str(caught.value) == "scale.cu.jinja:11: 'int object' has no attribute 'missing' (rendering block=128, vec=4)"
    )


def test_a_template_that_changes_is_read_again(tmp_path):
    spec = loaded(tmp_path)
    before = source_of(spec, FLOAT32, space.default(spec)).text
    write(tmp_path, template=SCALE_TEMPLATE + "// end\n")

    assert source_of(spec, FLOAT32, space.default(spec)).text == before + "// end\n"
