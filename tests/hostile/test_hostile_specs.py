"""Specs, tables and variables of a build that lead elsewhere: each is refused with an error of ours."""

from __future__ import annotations

import ast
import dataclasses
import json

import pytest

from builders import H100
from hostile_data import MODULE, TABLE, TEMPLATE, TEXTS, UNPRINTABLE, brief
from pretuned.bake.literals import literal, wrapped
from pretuned.config import read_settings
from pretuned.errors import Error
from pretuned.spec.expressions import Expression
from pretuned.spec.grammar import ExpressionError
from specs import SCALE, edited


@pytest.mark.parametrize(
    "line",
    [
        'module = "../../x"',
        'module = "/tmp/x"',
        'module = "C:/x"',
        r'module = "..\\x"',
        'module = "a/../../x"',
        'module = "demo/tuned;import os"',
        'module = "demo/class"',
        'module = "."',
        'module = "src"',
        'module = "demo/\\u0000"',
        'module = "demo/tuned"\nkernels = "a\\u0000"',
        'module = "demo/tuned"\nlock = "a\\u0000b/c.json"',
        'module = "demo/tuned"\nkernels = "../other"',
        'module = "demo/tuned"\nkernels = "/etc"',
        'module = "demo/tuned"\nlock = "../mine.txt"',
        'module = "demo/tuned"\nlock = "demo/tuned/pretuned.lock.json"',
        'module = "kernels/tuned"\nkernels = "kernels/tuned/specs"',
        'module = "demo/tuned"\ncuda = "13.0 @ https://host/x"',
        'module = "demo/tuned"\ncuda = "\u0967\u0969.\u0966"',
        'module = "demo/tuned"\narchitectures = ["sm_90 -o /tmp/x"]',
        'module = "demo/tuned"\nbudget = 1e400',
        'module = "demo/tuned"\n__class__ = 1',
        'modules = [{ module = "demo/tuned" }, { module = "demo/tuned/../other" }]',
    ],
)
def test_a_table_that_leads_elsewhere_is_refused(area, line):
    (area.project / "pyproject.toml").write_text(f"[tool.pretuned]\n{line}\n")
    assert "pyproject.toml: tool.pretuned" in area.refused("bake")


@pytest.mark.parametrize("nested", ["[" * 100_000, "a." * 1_000 + "a = 1", "x = " + "{a=" * 100_000], ids=brief)
def test_a_table_that_is_nested_without_end(area, nested):
    (area.project / "pyproject.toml").write_text(nested)
    assert "pyproject.toml" in area.refused("bake")


@pytest.mark.parametrize("link", ["kernels", "demo", "demo/tuned", "locks"])
def test_a_link_that_leads_out_of_the_project_is_refused(area, link):
    path = area.project / link
    if link == "kernels":
        path.rename(area.other / "kernels")
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(area.other / ("kernels" if link == "kernels" else ""))
    (area.project / "pyproject.toml").write_text(TABLE + 'lock = "locks/pretuned.lock.json"\n')
    said = area.refused("bake")
    assert "leads out of the project" in said


def test_a_link_that_stays_inside_is_as_good_as_a_folder(area):
    (area.project / "kernels").rename(area.project / "specs")
    (area.project / "kernels").symlink_to("specs")
    assert area.run("bake")[0] == 0


def test_a_template_includes_nothing_from_outside(area):
    (area.other / "secret.cuh").write_text("// secret\n")
    for path in ("../../other/secret.cuh", str(area.other / "secret.cuh")):
        template = area.project / "kernels/scale.cu.jinja"
        template.write_text(f'{{% include "{path}" %}}\n{TEMPLATE}')
        assert "include" in area.refused("bake")


def test_files_that_pretuned_has_not_written_stay(area):
    (area.project / MODULE).mkdir(parents=True)
    mine = area.project / MODULE / "mine.py"
    mine.write_text("mine")
    assert "did not generate" in area.refused("bake")
    assert mine.read_text() == "mine"


EXPRESSIONS = {
    "a million characters": "1+" * 500_000 + "1",
    "nested brackets": "(" * 100_000 + "1" + ")" * 100_000,
    "nested within the length": "(" * 240 + "1" + ")" * 240,
    "a tower": "10**10**9",
    "a tower of calls": "max(9**64, 9**64) ** 64",
    "many nots": "not " * 120 + "1",
    "a long literal": "9" * 400,
    "an import": "__import__('os').system('touch pwned')",
    "an attribute": "n.__class__",
    "an attribute of device": "device.__class__",
    "a lambda": "(lambda: 1)()",
    "a comprehension": "[x for x in (1,)]",
    "a walrus": "(x := 1)",
    "a text": "f'{n}'",
    "a zero byte": "1\0",
    "another line": "1\n;import os",
    "a starred argument": "max(*n)",
    "a float": "1e400",
    "no expression": "",
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_that_is_none_is_refused(area, name):
    text = EXPRESSIONS[name]
    with pytest.raises(ExpressionError):
        Expression.parse(text).evaluate({"n": 3})
    spec = area.project / "kernels/scale.toml"
    spec.write_text(edited(SCALE, ('"ceil_div(n, block * vec)"', json.dumps(text))))
    assert "scale.toml" in area.refused("bake")
    assert not list(area.root.rglob("pwned*"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("block = [128, 256]", "__class__ = [128, 256]"),
        ("block = [128, 256]", '"block;import os" = [128, 256]'),
        ("block = [128, 256]", f"block = [{'1,' * 100_000}{10**30}]"),
        ("n = { sizes", "__init__ = { sizes"),
        ('{ name = "a", dtype', '{ name = "__import__", dtype'),
        ('{ name = "a", dtype', '{ name = "a, b=__import__", dtype'),
        ('{ name = "a", dtype = "float32"', '{ name = "a", dtype = "float32]; import os"'),
        ('"float32", "float16"', '"float32;import os", "float16"'),
        ('function = "scale"', "function = 'scale\"; import os; \"'"),
        ("format  = 1", "format  = 99999999999999999999999999"),
        ('summary = "y = a * x."', "summary = " + "[" * 100_000),
        ('reference = "reference.py:scale"', "reference = \"reference.py:__import__('os')\""),
    ],
)
def test_a_spec_with_such_names_is_refused(area, old, new):
    (area.project / "kernels/scale.toml").write_text(edited(SCALE, (old, new)))
    assert "scale.toml" in area.refused("bake")


@pytest.mark.parametrize("text", [*TEXTS[:-1], *UNPRINTABLE[:-2], '"""', "a\\"], ids=brief)
def test_a_summary_is_prose_in_the_docstring(area, text):
    shown = json.dumps(text).replace("\\u2028", "\u2028")
    (area.project / "kernels/scale.toml").write_text(edited(SCALE, ('"y = a * x."', shown)), encoding="utf-8")
    status, said = area.run("bake")
    assert status == 0, said
    function = next(
        node for node in area.generated().body if isinstance(node, ast.FunctionDef) and node.name == "scale"
    )
    assert len(function.body) == 2, "a docstring and the call"


@pytest.mark.parametrize("name", ["a;import os", "__init__", "class", "os.system", "-rf", "TABLE", "a b", "ﬁeld"])
def test_a_kernel_by_such_a_name_is_refused(area, name):
    (area.project / "kernels/scale.toml").rename(area.project / f"kernels/{name}.toml")
    said = area.refused("bake")
    assert f"{name}.toml" in said


@pytest.mark.parametrize("text", [*TEXTS[:-1], *UNPRINTABLE], ids=brief)
def test_a_device_by_such_a_name_gets_into_no_code(text):
    """A name comes from the driver; whatever it is, a table holds it as a literal."""

    device = dataclasses.replace(H100, name=text)
    assert ast.literal_eval(literal(device.name)) == text
    source = '"""\n' + "\n".join(wrapped(f"Measured on {device.name}.", "")) + '\n"""\n'
    (statement,) = ast.parse(source).body
    assert isinstance(statement, ast.Expr)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PRETUNED_MODE", "auto; import os"),
        ("PRETUNED_TUNE_ON", "cuda:" + "9" * 10_000),
        ("PRETUNED_TUNE_ON", "cuda:\u0661"),
        ("PRETUNED_BUDGET", "9" * 10_000 + "e"),
        ("PRETUNED_BUDGET", "1e400"),
        ("PRETUNED_BUDGET", "-1"),
        ("PRETUNED_BUDGET", "__import__('os')"),
    ],
)
def test_a_variable_of_a_build_that_is_none_is_refused(name, value):
    with pytest.raises(Error, match=name):
        read_settings({name: value})


@pytest.mark.parametrize(
    "extra",
    [
        "scale:block=__import__('os')",
        "scale:__class__=1",
        "scale:block=" + "9" * 10_000,
        "scale:implementation=__class__",
        "../scale:block=128",
        "scale:block=128;import os",
        "__class__:block=1",
        "scale:" + "block=128," * 100_000 + "x",
    ],
    ids=brief,
)
def test_a_configuration_to_ship_that_is_none_is_refused(area, extra):
    area.refused("bake", "--with", extra)
