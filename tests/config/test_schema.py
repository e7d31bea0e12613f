"""The schemas for editors: they ship as the models have them, and accept what the loaders accept."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from pretuned.cli import main
from pretuned.config import build_project
from pretuned.errors import ConfigError
from pretuned.schema import NAMES, read
from pretuned.schema.descriptions import DESCRIPTIONS
from pretuned.schema.generate import text_of
from specs import SCALE, SEVERAL, edited, faults

ROOT = Path(__file__).parents[2]
SPECS = sorted([*ROOT.glob("templates/*.toml"), *ROOT.glob("examples/**/kernels/*.toml")])
PROJECTS = sorted([ROOT / "pyproject.toml", *ROOT.glob("examples/**/pyproject.toml")])


def wrong(name, document):
    """Return where a schema finds fault, as dotted paths."""
    found = Draft7Validator(json.loads(read(name))).iter_errors(document)
    return sorted(".".join(map(str, error.absolute_path)) for error in found)


@pytest.mark.parametrize("name", NAMES)
def test_what_ships_is_what_the_models_have(name):
    assert read(name) == text_of(name), "run `python -m pretuned.schema.generate`"
    Draft7Validator.check_schema(json.loads(read(name)))
    assert "$ref" not in read(name)


def defaults(schema):
    """Yield every schema that states a default."""
    if isinstance(schema, dict):
        if "default" in schema and "type" in schema:
            yield schema
        for inner in schema.values():
            yield from defaults(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from defaults(inner)


@pytest.mark.parametrize("name", NAMES)
def test_defaults_are_what_a_file_could_say(name):
    stated = list(defaults(json.loads(read(name))))
    assert stated
    for schema in stated:
        assert list(Draft7Validator(schema).iter_errors(schema["default"])) == [], schema


def test_every_key_is_described_and_nothing_else_is():
    shown = json.dumps([json.loads(read(name)) for name in NAMES])
    assert [key for key, text in DESCRIPTIONS.items() if json.dumps(text) not in shown] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_command_prints_it(name, capsys):
    with pytest.raises(SystemExit) as end:
        main(["schema", name])
    assert (end.value.code, capsys.readouterr().out) == (0, read(name))


@pytest.mark.parametrize("file", SPECS, ids=lambda file: file.stem)
def test_every_spec_here_is_one(file):
    assert wrong("spec", tomllib.loads(file.read_text())) == []


@pytest.mark.parametrize("file", PROJECTS, ids=lambda file: file.parent.name)
def test_every_project_here_is_one(file):
    assert wrong("project", tomllib.loads(file.read_text())) == []


@pytest.mark.parametrize("text", [SCALE, SEVERAL])
def test_the_specs_of_the_tests_are_specs(text):
    assert wrong("spec", tomllib.loads(text)) == []


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("format  = 1", "format = 2", "format"),
        ("format  = 1\n", "", ""),
        ("[space]", "[spaces]", ""),
        ('role = "in"', 'role = "input"', "arguments.1.role"),
        ("sizes = [1024, 65536]", "sizes = [0]", "dims.n.sizes.0"),
        ("sizes = [1024, 65536]", "sizes = []", "dims.n.sizes"),
        ("block = 256", 'block = "256"', None),  # a name of an implementation could stand there
        ("vec   = [1, 2, 4]", "vec = [[1]]", "space"),
        ('block    = ["block"]', 'block = ["1", "1", "1", "1"]', "launches.0.block"),
        ("rtol = {", "rtol = { int8 = -1,", "verify.rtol"),
        ('dtype = "T", shape = ["n"], align = "vec * sizeof(T)" },', "dtype = 7, shape = [true] },", "arguments"),
    ],
)  # fmt: skip
def test_an_editor_marks_what_the_loader_refuses(tmp_path, old, new, where):
    text = edited(SCALE, (old, new))
    assert faults(tmp_path, toml=text), "the loader refuses it"
    if where is not None:
        assert any(path.startswith(where) for path in wrong("spec", tomllib.loads(text)))


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ({"module": "src/a/tuned"}, None),
        ({"module": "src/a/tuned", "mode": "locked", "budget": 1.5, "architectures": ["sm_90a"]}, None),
        ({"modules": [{"module": "a/b", "kernels": "k"}]}, None),
        ({"module": "a", "mode": "lock"}, "mode"),
        ({"module": "a", "budget": -1}, "budget"),
        ({"module": "a", "cuda": "13"}, "cuda"),
        ({"module": "a", "architectures": ["sm_9"]}, "architectures.0"),
        ({"module": "a", "budgets": 1}, ""),
        ({"modules": [{"kernels": "k"}]}, "modules.0"),
        ({}, ""),
    ],
)
@pytest.mark.parametrize("path", ["tool.pretuned", "tool.hatch.build.hooks.pretuned"])
def test_a_project_table_is_marked_where_the_loader_refuses_it(tmp_path, table, where, path):
    document = table
    for key in reversed(path.split(".")):
        document = {key: document}
    found = wrong("project", document)
    if where is None:
        build_project(table, root=tmp_path, path=path)
        assert found == []
    else:
        with pytest.raises(ConfigError):
            build_project(table, root=tmp_path, path=path)
        assert found == [f"{path}.{where}".rstrip(".")]


def test_hatchs_own_keys_of_a_hook_are_known_to_hatchs_table_only():
    keys = {"module": "a/tuned", "enable-by-default": False}
    hooks = {"hooks": {"pretuned": keys}}
    assert wrong("project", {"tool": {"hatch": {"build": {**hooks, "targets": {"wheel": hooks}}}}}) == []
    assert wrong("project", {"tool": {"pretuned": keys}}) == ["tool.pretuned"]
