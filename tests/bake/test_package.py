"""The generated package as files: golden, deterministic, clean under the tools, and closed to hostile text."""

import ast
import dataclasses
import importlib
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sample
from generated import assigned
from pretuned.bake.literals import function, literal, wrapped
from pretuned.bake.package import files
from pretuned.bake.plan import plan
from pretuned.errors import BakeError
from pretuned.spec.expressions import Expression
from pretuned.spec.loader import load_folder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def content():
    return sample.package()


@pytest.fixture(scope="module")
def with_jax():
    return sample.package(jax=True)


def test_equals_the_golden_files(content):
    expected = sample.GOLDEN / "expected"
    golden = {file.relative_to(expected).as_posix(): file.read_bytes() for file in expected.rglob("*.*")}
    found = sample.golden_part(content)
    assert sorted(found) == sorted(golden)
    for name, data in found.items():
        assert data.decode() == golden[name].decode(), f"{name} differs; sample.py says how to rewrite it"


def test_holds_the_runtime_unchanged_and_nothing_unexpected(content):
    folder = ROOT / "generator/pretuned/runtime"
    files_of_runtime = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*.py")}
    for_a_framework = [name for name in files_of_runtime if name.startswith(("jax/", "torch_ops/"))]
    assert for_a_framework
    asked = {name: file for name, file in files_of_runtime.items() if name not in for_a_framework}
    runtime = {f"_runtime/{name}": file.read_bytes() for name, file in asked.items()}
    assert {name: data for name, data in content.items() if name.startswith("_runtime/")} == runtime
    rest = [name for name in content if name not in runtime and not name.startswith("kernels/")]
    assert rest == ["__init__.py", "py.typed"]
    for name in content:
        assert re.fullmatch(r"[a-zA-Z0-9_./-]+", name)


def test_every_binary_that_the_sources_name_is_there(content):
    sources = ast.literal_eval(assigned(ast.parse(content["__init__.py"]), "_BINARIES"))
    named = {f"kernels/{name}.cu" for name in sources}
    for name, (_, _, images) in sources.items():
        for architecture, _, _ in images:
            named.add(f"kernels/{name}.{architecture}.{'ptx' if architecture.startswith('compute') else 'cubin'}")
    assert named == {name for name in content if name.startswith("kernels/")}


def test_without_cubins_the_sources_ship_alone():
    content = sample.package(cubins=False)
    kinds = {name.rpartition(".")[2] for name in content if name.startswith("kernels/")}
    assert kinds == {"cu"}
    assert RECOMPILED not in content["__init__.py"].decode()


def test_a_missing_binary_is_an_error():
    found = plan(sample.specs(), sample.rows(), sample.DEVICES)
    binaries = sample.binaries(found)
    key, architecture = next(iter(binaries))
    del binaries[key, architecture]
    with pytest.raises(BakeError, match=f"no binary of the source {key} for {architecture}"):
        files(found, binaries)


RECOMPILED = '"", True)'  # the end of a choice


def test_only_rows_whose_cubin_differs_are_marked(content):
    source = content["__init__.py"].decode()
    marked = {line.split('"')[1] for line in source.splitlines() if RECOMPILED in line}
    assert marked == {"lanes"}


CODE = """
import hashlib, random, sys
import sample
from pretuned.bake.package import files
from pretuned.bake.plan import plan
def shuffled(values):
    values = list(values)
    order.shuffle(values)
    return values
for seed in range(4):
    order = random.Random(f"{sys.argv[1]} {seed}")
    specs = dict(shuffled(sample.specs().items()))
    devices = dict(shuffled(sample.DEVICES.items()))
    selections = shuffled([*sample.selections(), *sample.selections("NVIDIA A100-SXM4-40GB")])
    architectures = shuffled(["sm_90", "sm_100", "sm_80"])
    found = plan(specs, shuffled(sample.rows()), devices, selections=selections, architectures=architectures)
    content = files(found, dict(shuffled(sample.binaries(found).items())))
    assert list(content) == sorted(content)
    print(hashlib.sha256(repr(content).encode()).hexdigest())
"""


def test_is_the_same_for_every_hash_seed_folder_and_order_of_input(tmp_path):
    found = set()
    for seed in range(3):
        folder = tmp_path / str(seed % 2)
        folder.mkdir(exist_ok=True)
        paths = os.pathsep.join([str(ROOT / "generator"), str(ROOT / "tests" / "support")])
        environment = os.environ | {"PYTHONHASHSEED": str(seed), "PYTHONPATH": paths}
        command = [sys.executable, "-c", CODE, str(seed)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
        found.update(done.stdout.split())
    assert len(found) == 1


def tool(name, *arguments, folder):
    done = subprocess.run(
        [sys.executable, "-m", name, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def check_with_tools(folder):
    """Run ruff and mypy with the repository's settings over the package `tuned` in `folder`."""
    (folder / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    tool("ruff", "check", "--no-cache", "tuned", folder=folder)
    tool("ruff", "format", "--check", "--no-cache", "tuned", folder=folder)
    types, data = (folder / "tuned" / "__init__.py").read_text().split("\nelse:\n")
    (folder / "tuned" / "opened.py").write_text(f"{types}\nif __doc__:\n{data}")  # where mypy reads the data too
    known = folder.parent / "mypy"  # what it knows of Python's own modules
    tool("mypy", "--strict", "--cache-dir", str(known), "tuned", folder=folder)


def test_functions_for_jax_come_beside_what_else_there_is(content, with_jax):
    assert {name: data for name, data in with_jax.items() if name in content} == content
    more = sorted(with_jax.keys() - content.keys())
    folder = ROOT / "generator/pretuned/runtime/jax"
    assert more == [*sorted(f"_runtime/jax/{file.name}" for file in folder.glob("*.py")), "jax.py"]


def test_a_kernel_named_as_the_module_for_jax_is_refused():
    specs = {"jax": sample.specs()["affine"].model_copy(update={"name": "jax"})}
    found = plan(specs, [], {})
    files(found, sample.binaries(found))
    with pytest.raises(BakeError, match="a kernel cannot be named 'jax' where the package has functions for JAX"):
        files(found, sample.binaries(found), jax=True)


def test_passes_ruff_and_mypy(with_jax, tmp_path):
    sample.write(with_jax, tmp_path / "tuned")
    check_with_tools(tmp_path)


USER = """
from typing import Any, assert_type

from tuned import DEVICES, SELECTIONS, TABLE, affine

assert_type(DEVICES, dict[str, dict[str, int]])
assert_type(TABLE, dict[str, dict[str, tuple[tuple[Any, ...], ...]]])
assert_type(SELECTIONS, dict[str, dict[str, tuple[tuple[Any, ...], ...]]])
affine(1, 2.0, relu=True)
affine(1, "2", relu=True)  # type: ignore[arg-type]
affine(1, 2.0)  # type: ignore[call-arg]
affine.bind(1, 2.0, relu="yes")  # type: ignore[arg-type]
"""


def test_type_checkers_of_users_see_types_and_read_none_of_the_data(content, tmp_path):
    folder = sample.write(content, tmp_path / "tuned")
    with (folder / "__init__.py").open("a") as module:
        module.write("    an_error_among_the_data\n")
    (tmp_path / "user.py").write_text(USER)
    tool("mypy", "--strict", "--cache-dir", str(tmp_path.parent / "mypy"), "user.py", "tuned", folder=tmp_path)


def test_what_spec_files_of_every_form_give_passes_too(tmp_path):
    specs = load_folder(ROOT / "tests" / "data" / "shapes") | load_folder(ROOT / "tests" / "data" / "defaults")
    found = plan(specs, [], {})
    sample.write(files(found, sample.binaries(found), jax=True), tmp_path / "tuned")
    check_with_tools(tmp_path)


def test_operators_of_pytorch_are_written_where_they_are_asked_for(content, tmp_path):
    found = plan(sample.specs(), [], {}, cubins=False)
    without, asked = files(found, {}), files(found, {}, torch="mypkg")
    more = {name for name in asked if name not in without}
    assert "torch.py" in more
    assert all(name.startswith("_runtime/torch_ops/") for name in more - {"torch.py"})
    assert {name: asked[name] for name in without} == without
    source = asked["torch.py"].decode()
    assert '"(Tensor x, float alpha, *, bool relu) -> Tensor"' in source
    assert '"(Tensor x, float alpha, *, bool relu, Tensor(a!) y) -> ()", "out"' in source
    assert '"(Tensor(a!) total, Tensor x) -> Tensor"' in source
    sample.write(asked, tmp_path / "tuned")
    check_with_tools(tmp_path)


@pytest.mark.parametrize(
    ("name", "argument", "message"),
    [
        ("torch", "x", "a kernel cannot be named 'torch' where the table has a `torch`; rename"),
        ("name", "x", "a kernel cannot be named 'name' where the table has a `torch`; rename"),
        ("affine", "mode", "'mode' cannot be an argument of an operator of PyTorch; rename it"),
        ("affine", "NoneType", "'NoneType' cannot be an argument of an operator of PyTorch; rename it"),
    ],
)
def test_what_an_operator_cannot_be_is_refused(tmp_path, name, argument, message):
    specs = rename(tmp_path, "x", argument, kernel=name)
    with pytest.raises(BakeError, match=re.escape(message)):
        files(plan(specs, [], {}, cubins=False), {}, torch="mypkg")


HOSTILE = [
    "quote \" and \"\"\" and ' and '''",
    "backslash \\ at the end \\",
    '"""\nimport os\nos.abort()\n"""',
    "newline\nraise SystemExit\n# fmt: on",
    "\r\x00\x0b\x85\u2028\u2029 control",
    "{braces} %s {0!r} \\N{BULLET} \\x41 \\u0041",
    "\u202e right to left \u200b, \ud800 surrogate".encode("utf-8", "surrogatepass").decode("utf-8", "replace"),
    "x" * 400 + " \\ " * 80,
    "# type: ignore # noqa TODO",
    "",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text, tmp_path, monkeypatch):
    """A spec's summary, and a device's name from a lock that anybody may have edited, run nothing and break nothing."""
    device = dataclasses.replace(sample.H100, name=text)
    specs = {name: spec.model_copy(update={"summary": text}) for name, spec in sample.specs().items()}
    evidence = {"driver": text, "date": text, "compiler": text}
    rows = [dataclasses.replace(row, device=text, **evidence) for row in sample.rows()]
    selections = [dataclasses.replace(one, **evidence) for one in sample.selections(text)]
    found = plan(specs, rows, {text: device}, selections=selections)
    sample.write(files(found, sample.binaries(found), version="0.0.0"), tmp_path / "hostile")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    try:
        module = importlib.import_module("hostile")
        assert list(module.DEVICES) == [text]
        assert list(module.TABLE["affine"]) == [text]
        assert module.TABLE["affine"][text][0][3] == (text, text, text)
        assert module.SELECTIONS["affine"][text][0][-1] == (text, text, text)
        plain = "".join(text.split())
        if plain.isprintable() and '"' not in plain:
            assert "".join(module.affine.__doc__.split()).startswith(plain)
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "hostile"]:
            del sys.modules[name]


def test_hostile_text_passes_the_tools(tmp_path):
    text = "\n".join(HOSTILE)
    device = dataclasses.replace(sample.H100, name=text)
    specs = {name: spec.model_copy(update={"summary": text}) for name, spec in sample.specs().items()}
    found = plan(
        specs,
        [dataclasses.replace(row, device=text) for row in sample.rows()],
        {text: device},
        selections=sample.selections(text),
    )
    sample.write(files(found, sample.binaries(found)), tmp_path / "tuned")
    check_with_tools(tmp_path)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
)


@given(VALUES)
def test_a_literal_is_one_line_that_means_its_value(value):
    text = literal(value)
    assert ast.literal_eval(text) == value
    assert len(text.splitlines()) == 1


@given(st.text())
def test_a_docstring_cannot_be_left(text):
    lines = wrapped(text, "    ")
    tree = ast.parse('def f():\n    """Head.\n\n' + "\n".join(lines) + '\n    """\n')
    (function_of_text,) = tree.body
    assert [type(node) for node in function_of_text.body] == [ast.Expr]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", {1, 2}, object()])
def test_what_has_no_literal_is_refused(value):
    with pytest.raises(BakeError):
        literal(value)


RUNTIME = {
    "ceil_div": lambda a, b: -(-a // b),
    "sizeof": {"float16": 2, "float32": 4}.__getitem__,
    "power": pow,
}
EXPRESSIONS = [
    "ceil_div(n, block * vec)",
    "2 ** 5 + n ** 2",
    "block if n > 3 and not causal else -1",
    "n and block or 7",
    "sizeof(T) * vec + sizeof(float16)",
    "min(n, max(block, 3)) % 4 // 2",
    "0 < n <= block",
    "not (causal or n == 0)",
    "42",
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_a_written_expression_has_the_value_that_tuning_saw(text):
    expression = Expression.parse(text)
    written = function([expression], several=False)
    for n, causal in itertools.product((0, 1, 5, 64), (False, True)):
        values = {"n": n, "block": 64, "vec": 2, "T": "float32", "causal": causal}
        call = eval(written, dict(RUNTIME))
        names = call.__code__.co_varnames[: call.__code__.co_argcount]
        assert set(names) == expression.names - {"float16"}
        assert call(**{name: values[name] for name in names}) == expression.evaluate(values)


def rename(tmp_path, old, new, kernel="affine"):
    for file in (sample.GOLDEN / "specs").glob("affine*"):
        text = re.sub(rf"\b{old}\b", new, file.read_text())
        (tmp_path / file.name.replace("affine", kernel)).write_text(text)
    return load_folder(tmp_path)


@pytest.mark.parametrize("kernel", ["explain", "min", "ceil_div", "Kernel", "_affine", "int"])
def test_a_kernel_cannot_take_a_name_that_the_package_uses(tmp_path, kernel):
    specs = {kernel: sample.specs()["affine"].model_copy(update={"name": kernel})}
    with pytest.raises(BakeError, match=f"a kernel cannot be named '{kernel}'"):
        files(plan(specs, [], {}, cubins=False), {})


def test_odd_but_possible_names_pass_the_tools(tmp_path):
    specs = rename(tmp_path, "alpha", "l", kernel="aFFine") | rename(tmp_path, "x", "sum")
    specs |= rename(tmp_path, "x", "result", kernel="aFFinE")
    content = files(plan(specs, [], {}, cubins=False), {}, torch="mypkg", jax=True)
    sample.write(content, tmp_path / "tuned")
    check_with_tools(tmp_path)


def test_the_golden_sources_compile():
    nvrtc = pytest.importorskip("pretuned.compile.nvrtc")
    pytest.importorskip("cupy")
    found = plan(sample.specs(), sample.rows(), sample.DEVICES)
    for module, architecture in found.jobs:
        binary = nvrtc.compile_source(module, architecture)
        assert getattr(binary, "line", None) is None
        assert binary.architecture == architecture
