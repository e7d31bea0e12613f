"""TOML in the documentation is what the schemas allow, Python compiles, and what can be run is run."""

import tomllib

import jsonschema
import numpy as np
import pytest

import pretuned
from documents import PAGES, ROOT, blocks, in_language
from examples import EXAMPLES
from pretuned.schema.generate import project_schema, spec_schema


def unclosed(schema):
    """A schema of which parts may be shown: nothing is required at its top level."""
    return {key: value for key, value in schema.items() if key != "required"}


@pytest.mark.parametrize("block", in_language("toml"), ids=str)
def test_toml_is_as_the_schemas_have_it(block):
    document = tomllib.loads(block.text)
    if {"tool", "build-system", "project"} & document.keys():
        schema = project_schema()
    elif "format" in document:
        schema = spec_schema()
    else:
        schema = unclosed(spec_schema())
    jsonschema.validate(document, schema)


def schema_at(section):
    """The schema of the tables under a key of a spec, or of a project's table below `project`."""
    first, _, rest = section.partition(".")
    schema = project_schema()["properties"]["tool"]["properties"]["pretuned"] if first == "project" else spec_schema()
    for key in (rest if first == "project" else section).split("."):
        schema = schema["properties"][key] if key else schema
        while "properties" not in schema:
            schema = schema.get("items", schema.get("additionalProperties"))
    return schema


@pytest.mark.parametrize("path", EXAMPLES)
def test_examples_of_keys_are_what_the_key_may_hold(path):
    section, _, key = path.rpartition(".")
    document = tomllib.loads(EXAMPLES[path])
    if key not in document:  # what stands in the key's table
        document = {key: document}
    jsonschema.validate(document, {**unclosed(schema_at(section)), "anyOf": [{}]})


@pytest.mark.parametrize("block", in_language("python"), ids=str)
def test_python_compiles(block):
    compile(block.text, str(block), "exec")


def functions_of(page):
    namespace = {}
    for block in blocks(page):
        if block.language == "python" and "def " in block.text:
            exec(compile(block.text, str(block), "exec"), namespace)
    return namespace


def test_functions_of_the_spec_reference_do_what_the_page_says():
    found = functions_of("docs/reference/spec.md")
    made = found["inputs"](generator=np.random.default_rng(0), rows=5, cols=7, T="float32")
    assert made["index"].shape == (5,)
    assert made["index"].max() < 7
    same, other = np.array([[1, 2]]), np.array([[2, 1]])
    assert found["compare"](name="index", out=other, ref=same, rows=1) is None
    assert found["compare"](name="index", out=np.array([[1, 3]]), ref=same, rows=1) == "1 indices differ"
    assert found["axpy"](x=2.0, y=1.0, a=3.0, n=1, T="float32") == 7.0


def test_the_page_on_tuning_replays_a_recorded_space(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    (block,) = [block for block in blocks("docs/guide/how-it-tunes.md") if block.language == "python"]
    exec(block.text, {})
    assert float(capsys.readouterr().out) > 0.9


def test_the_python_api_page_builds_a_spec(tmp_path):
    (tmp_path / "axpy.cu.jinja").write_text(
        "constexpr int block = {{ block }};\n"
        'extern "C" __global__ void axpy(float* out, const float* x, long long n) {}\n'
    )
    (block,) = [block for block in blocks("docs/reference/python-api.md") if block.language == "python"]
    namespace = {"pretuned_folder": tmp_path}
    exec(block.text, namespace)
    assert isinstance(namespace["spec"], pretuned.KernelSpec)


def test_the_readme_is_short_and_its_example_is_a_kernel(tmp_path):
    text = PAGES["README.md"].read_text(encoding="utf-8")
    assert text.count("\n") <= 150
    folder = tmp_path / "kernels"
    folder.mkdir()
    for block in blocks("README.md"):
        if block.note is not None and block.note[0] == "file":
            (tmp_path / block.note[1]).write_text(block.text)
    (folder / "reference.py").write_text("def scale(x, a, **_): return a * x\n")
    assert list(pretuned.load_folder(folder)) == ["scale"]


@pytest.mark.skipif(not (ROOT / ".ci" / "run").exists(), reason="an sdist has no checks of its own")
def test_the_readmes_commands_are_those_that_the_checks_run():
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8").replace("python -m pip", "pip").replace("--quiet ", "")
    set_up = [block.text.splitlines()[0] for block in blocks("README.md") if block.language == "console"]
    for line in set_up:
        for command in line.removeprefix("$ ").split(" && "):
            assert command in run
