"""TOML in the documentation is what the schemas allow, Python compiles, and what can be run is run."""

import tomllib

import jsonschema
import numpy as np
import pytest

import pretuned
from documents import PAGES, ROOT, blocks, in_language
from examples import EXAMPLES
from pretuned.render import source_of
from pretuned.schema.generate import project_schema, spec_schema
from pretuned.spec import space


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
    made = found["inputs"](generator=np.random.default_rng(0), n=100, rows=5)
    assert made["offsets"].shape == (6,)
    assert (made["offsets"][[0, -1]] == [0, 100]).all()
    place, charge = np.arange(2500.0), np.ones(2500)
    near = found["potential"](place, charge, np)
    assert near[0] == pytest.approx((1 / np.arange(1, 2500)).sum())
    assert near[::-1] == pytest.approx(near)
    assert found["axpy"](x=2.0, y=1.0, a=3.0, n=1, T="float32") == 7.0


def compares():
    """The functions `compare` of the spec reference, in its order."""
    found = []
    for block in blocks("docs/reference/spec.md"):
        if block.language == "python" and "def compare(" in block.text:
            exec(compile(block.text, str(block), "exec"), namespace := {})
            found.append(namespace["compare"])
    return found


def test_the_comparisons_of_the_spec_reference_judge_as_the_page_says():
    lists, rounded, quantised = compares()
    ref, count = np.array([4, 7, 9, 0]), {"count": np.array([3])}
    assert lists("index", np.array([9, 4, 7, -1]), ref, count, count, None) is None
    wrong = lists("index", np.array([9, 4, 8, -1]), ref, count, count, None)
    assert wrong == "1 of 3 indices are not those of the reference"
    assert lists("index", ref, ref, {"count": np.array([2])}, count, None) == "2 indices instead of 3"
    assert lists("count", None, None, None, None, lambda: "as usual") == "as usual"

    draw = np.random.default_rng(0)
    exact = draw.standard_normal(100_000)
    unit = np.ldexp(1.0, np.frexp(exact)[1] - 8)
    assert rounded("weights", np.floor(exact / unit + draw.random(exact.size)) * unit, exact, None) is None
    assert rounded("weights", np.floor(exact / unit) * unit, exact, None).startswith("rounding leans by -0.5")
    assert rounded("weights", exact + 2 * unit, exact, None).endswith("elements are no neighbour of the exact value")

    inputs = {"x": np.array([1.0, 1.25]), "scale": np.array([0.4])}  # 2.5 and 3.125
    assert quantised("q", np.array([3, 3], np.int8), np.array([2, 3]), inputs, None) is None
    assert quantised("q", np.array([2, 4], np.int8), np.array([2, 3]), inputs, None).startswith("1 of 2 integers")


def test_the_page_on_tuning_replays_a_recorded_space(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    (block,) = [block for block in blocks("docs/guide/how-it-tunes.md") if block.language == "python"]
    exec(block.text, {})
    assert float(capsys.readouterr().out) > 0.9


def test_the_page_on_python_declares_kernels():
    generated, single = [block.text for block in blocks("docs/guide/python.md") if block.language == "python"]
    exec(generated, namespace := {})
    specs = [pretuned.checked(kernel) for kernel in namespace["kernels"]]
    assert [spec.name for spec in specs] == ["exp_2", "exp_4", "exp_8"]
    source = source_of(specs[0], (), space.default(specs[0])).text
    assert "out[i] = fmaf(x[i], fmaf(x[i], 0.500000000f, 1.00000000f), 1.00000000f);" in source
    exec(single, namespace := {})
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
