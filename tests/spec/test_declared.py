"""Kernels that a module declares in Python: what they may be, and what is reported of modules that are wrong."""

from __future__ import annotations

import enum
from pathlib import Path

import numpy as np
import pytest

import pretuned
from declaring import SCALE_MODULE, faults_of, write_module
from pretuned.render import candidate, source_of, verification_key
from pretuned.spec import declarations, documents, space
from pretuned.spec.declarations import changes, load_all, named_folders, names_of
from pretuned.spec.launch import LaunchSpec
from pretuned.spec.model import (
    PLACED,
    Argument,
    Compile,
    Constraints,
    Dim,
    ImplementationSpec,
    KernelSpec,
    Scratch,
)
from pretuned.spec.parts import CostSpec, Verify
from pretuned.spec.tensor_maps import TensorMapSpec
from specs import SCALE, SCALE_TEMPLATE, edited, loaded, write

MINIMAL = {
    "arguments": [
        {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]},
        {"name": "n", "dtype": "int32"},
    ],
    "dims": {"n": {"sizes": [1024], "keyword": True}},
    "space": {"block": [128, 256]},
    "default": {"block": 256},
    "launches": [{"function": "fill", "grid": ["ceil_div(n, block)"], "block": ["block"]}],
    "template": """
extern "C" __global__ void fill(float* y, int n) {
    const int i = blockIdx.x * {{ block }} + threadIdx.x;
    if (i < n) { y[i] = 1; }
}
""",
}


def test_a_kernel_is_what_the_file_would_make_of_it(tmp_path):
    from_file = loaded(tmp_path)
    found = load_all(tmp_path, write_module(tmp_path))["scale"]

    assert found.file == "declared.py:8 (scale)"
    assert found.model_copy(update={"declared": ""}) == from_file
    assert verification_key(found) == verification_key(from_file)
    float16, fast = (("T", "float16"),), space.default(from_file)
    assert candidate(found, float16, fast).key == candidate(from_file, float16, fast).key


FUNCTIONS = """\
import pretuned
from reference import scale as reference


def compare(name, out, ref):
    return None


""" + SCALE_MODULE.removeprefix("import pretuned\n").replace('"reference.py:scale"', 'reference, "compare": compare')


def test_functions_are_named_by_the_files_that_define_them(tmp_path):
    verify = load_all(tmp_path, write_module(tmp_path, FUNCTIONS))["scale"].verify

    assert (verify.reference, verify.compare) == ("reference.py:scale", "declared.py:compare")


def test_files_and_a_module_stand_side_by_side(tmp_path):
    module = write_module(
        tmp_path,
        SCALE_MODULE.replace('name="scale"', 'name="other"').replace(
            "    space=", '    template="scale.cu.jinja",\n    space='
        ),
    )
    write(tmp_path)

    assert list(load_all(tmp_path, module)) == ["other", "scale"]
    assert names_of(tmp_path, module) == ["other", "scale"]
    (tmp_path / "scale.toml").write_text("wrong")
    assert list(load_all(tmp_path, module, {"other"})) == ["other"]


def test_faults_of_other_kernels_are_not_those_of_the_kernel_that_is_asked_for(tmp_path):
    other = "other = pretuned.kernel('other', space={'block': {1, 2}})\nkernels.append(other)\n"
    module = write_module(tmp_path, SCALE_MODULE + other)

    assert names_of(tmp_path, module) == ["other", "scale"]
    assert list(load_all(tmp_path, module, {"scale"})) == ["scale"]
    with pytest.raises(pretuned.SpecError, match="block: is a set, which has no order"):
        load_all(tmp_path, module)


def test_a_module_that_fails_has_no_names(tmp_path):
    module = write_module(tmp_path, "kernels = 3\n")
    write(tmp_path)
    with pytest.raises(pretuned.SpecError, match="`kernels` is of type int"):
        names_of(tmp_path, module)


def test_a_template_may_stand_in_the_declaration(tmp_path):
    spec = pretuned.checked(pretuned.kernel("fill", **MINIMAL), tmp_path)

    source = source_of(spec, (), space.default(spec))
    assert source.text == MINIMAL["template"].replace("{{ block }}", "256")


def test_a_template_in_a_toml_file_as_well(tmp_path):
    text = edited(SCALE, ("[dims]", f"template = '''\n{SCALE_TEMPLATE}'''\n\n[dims]"))
    in_file, beside = loaded(tmp_path, toml=text), loaded(tmp_path)

    for specialisation in space.specialisations(beside):
        default = space.default(beside)
        assert source_of(in_file, specialisation, default) == source_of(beside, specialisation, default)


def test_a_template_in_a_declaration_includes_files_of_the_folder(tmp_path):
    (tmp_path / "part.cuh").write_text("// part of {{ block }}\n")
    (tmp_path / "own.cuh").write_text("// own\n")
    template = '{% include "part.cuh" %}\n#include "own.cuh"\n' + MINIMAL["template"]
    spec = pretuned.checked(pretuned.kernel("fill", **{**MINIMAL, "template": template}), tmp_path)

    source = source_of(spec, (), space.default(spec))
    assert source.text.startswith("// part of 256\n")
    assert [header.name for header in source.headers] == ["own.cuh"]


def checked_faults(place, changed):
    kernel = pretuned.kernel("fill", **{**MINIMAL, **changed})
    with pytest.raises(pretuned.SpecError) as caught:
        pretuned.checked(kernel, place)
    return [str(fault).partition(" (fill): ")[2] for fault in caught.value.faults]


BLOCKLESS = MINIMAL["template"].replace("{{ block }}", "{{ blok }}")
WRONG_KERNELS = {
    "an undefined name in a template": (
        {"template": BLOCKLESS},
        "template: template:3: undefined name 'blok'; did you mean 'block'?",
    ),
    "a template that is not Jinja": (
        {"template": "\n{% if %}\n"},
        (
            "template: template:2: '{%' begins a tag of Jinja, which '%}' ends: Expected an expression, got 'end of "
            "statement block'; if this is C++, write '{ %' or put {% raw %} and {% endraw %} around it: {% if %}"
        ),
    ),
    "another function": (
        {"launches": [{"function": "fil", "grid": ["n"], "block": ["block"]}]},
        "launches[0].function: template has no 'fil'; did you mean 'fill'?",
    ),
    "an include that is not there": (
        {"template": '{% include "part.cuh" %}\n' + MINIMAL["template"]},
        "template: template:1: there is no 'part.cuh' to include",
    ),
    "an unknown key": ({"spaces": {}}, "spaces: unknown key 'spaces'; did you mean 'space'?"),
    "a folder": ({"folder": "."}, "folder: unknown key; paths are relative to the module's folder"),
    "a set": (
        {"space": {"block": {128, 256}}},
        "space.block: is a set, which has no order; write a list, or sorted(...)",
    ),
    "a generator": (
        {"space": {"block": (1 << i for i in range(7, 9))}},
        "space.block: is of type generator; write list(...)",
    ),
    "a function where none may stand": (
        {"template": lambda: ""},
        (
            "template: is a function, and only verify.compare, verify.gpu_reference, verify.inputs, "
            "verify.reference may be one; write its "
            "result"
        ),
    ),
    "an object": (
        {"template": object()},
        "template: is of type object; write a text, a number, a bool, a list or a dict",
    ),
    "a path": (
        {"template": Path("fill.cu.jinja")},
        "template: is of type PosixPath; write a text, a number, a bool, a list or a dict",
    ),
    "half a character": ({"summary": "\ud800"}, "summary: has half a surrogate pair, which no file can hold"),
    "a key that is a number": (
        {"dims": {1: {"sizes": [1]}}},
        "dims.1: is a key of type int; write a text",
    ),
}


@pytest.mark.parametrize("name", WRONG_KERNELS)
def test_wrong_kernels(tmp_path, name):
    changed, message = WRONG_KERNELS[name]
    assert message in checked_faults(tmp_path, changed)


def test_what_is_nested_without_end_is_refused(tmp_path):
    endless = []
    endless.append(endless)
    assert checked_faults(tmp_path, {"summary": endless})[0].endswith("is nested too deep")


class Choice(str, enum.Enum):  # noqa: UP042 - whose str() is not its value
    FAST = "fast"


class Threads(enum.IntEnum):
    MANY = 512


def test_values_of_numpy_and_of_enumerations_are_plain(tmp_path):
    computed = {"block": np.array([128, 256]), "unroll": [np.int64(2)], "way": [Choice.FAST], "tail": [Threads.MANY]}
    kernel = pretuned.kernel("fill", **{**MINIMAL, "space": computed})

    assert kernel.document["space"] == {"block": [128, 256], "unroll": [2], "way": ["fast"], "tail": [512]}
    assert {type(value) for values in kernel.document["space"].values() for value in values} == {int, str}


def test_a_kernel_keeps_what_it_was_made_of(tmp_path):
    blocks = [128, 256]
    kernel = pretuned.kernel("fill", **{**MINIMAL, "space": {"block": blocks}})
    blocks.clear()

    assert pretuned.checked(kernel, tmp_path).space == {"block": (128, 256)}
    with pytest.raises(AttributeError):
        kernel.name = "other"
    assert repr(kernel) == "pretuned.kernel('fill')"


KEYS = {
    documents.ArgumentKeys: Argument,
    documents.ScratchKeys: Scratch,
    documents.TensorMapKeys: TensorMapSpec,
    documents.DimKeys: Dim,
    documents.LaunchKeys: LaunchSpec,
    documents.CompileKeys: Compile,
    documents.ConstraintKeys: Constraints,
    documents.CostKeys: CostSpec,
    documents.VerifyKeys: Verify,
    documents.ImplementationKeys: ImplementationSpec,
    documents.KernelKeys: KernelSpec,
}


@pytest.mark.parametrize("keys", KEYS, ids=lambda keys: keys.__name__)
def test_the_types_of_documents_have_the_keys_of_the_models(keys):
    models = set(KEYS[keys].model_fields) - (PLACED if KEYS[keys] is KernelSpec else set())
    assert keys.__required_keys__ | keys.__optional_keys__ == {"call" if name == "target" else name for name in models}


LISTED = "write `kernels = [pretuned.kernel(...)]`"
WRONG_MODULES = {
    "a syntax error": ("import pretuned\nkernels = [\n", "declared.py:2: cannot be executed: '[' was never closed"),
    "no kernels": ("import pretuned\n", f"declared.py: declares no kernels; {LISTED}"),
    "an empty list": ("kernels = []\n", f"declared.py: `kernels` is empty; {LISTED}"),
    "no list": ("kernels = {'scale': 1}\n", f"declared.py: `kernels` is of type dict; {LISTED}"),
    "something else in it": (
        "kernels = [{'name': 'scale'}]\n",
        "declared.py: kernels[0]: is of type dict; write pretuned.kernel(...)",
    ),
    "two kernels of one name": (
        SCALE_MODULE.replace("[scale]", "[scale, pretuned.kernel('scale')]"),
        "declared.py:25 (scale): a second kernel named 'scale'; the first is declared.py:8 (scale): rename one",
    ),
    "a kernel that is not listed": (
        SCALE_MODULE + "other = pretuned.kernel('other')\n",
        "declared.py:26: 'other' is declared and not listed; add it to `kernels`",
    ),
    "a name that no function can have": (
        SCALE_MODULE.replace('name="scale"', 'name="my-scale"').replace(
            "    space=", '    template="scale.cu.jinja",\n    space='
        ),
        (
            "declared.py:8 (my-scale): 'my-scale' is not a Python name, and a kernel becomes a function of its name; "
            "rename it"
        ),
    ),
    "a name that is no text": (
        "import pretuned\nkernels = [pretuned.kernel(3)]\n",
        "declared.py:2: is named by a value of type int; write a name in quotes",
    ),
    "a wrong value": (
        SCALE_MODULE.replace("[1024, 65536]", "[1024, -1]"),
        "declared.py:8 (scale): dims.n.sizes[1]: is -1; a size is at least 1",
    ),
    "a value that leaves no process": (
        SCALE_MODULE.replace("[1024, 65536]", "(1 << i for i in range(10, 17))"),
        "declared.py:8 (scale): dims.n.sizes: is of type generator; write list(...)",
    ),
    "a function that leaves no process": (
        SCALE_MODULE.replace('default={"block": 256,', 'default={"block": {"at": lambda n: 256},'),
        "declared.py:8 (scale): default.block.at: is a function, and only verify.compare, ",
    ),
    "a reference that is missing": (
        SCALE_MODULE.replace("reference.py:scale", "reference.py:scal"),
        "declared.py:8 (scale): verify.reference: 'reference.py' defines no 'scal'; did you mean 'scale'?",
    ),
    "a reference without a name": (
        SCALE_MODULE.replace('"reference.py:scale"', "lambda x, a, **_: a * x"),
        (
            "declared.py:8 (scale): verify.reference: is '<lambda>', which its module does not have under this name; "
            "write a `def` at the module's top level"
        ),
    ),
    "a reference of another package": (
        SCALE_MODULE.replace('"reference.py:scale"', "__import__('textwrap').dedent"),
        "declared.py:8 (scale): verify.reference: is 'dedent' of ",
    ),
    "a builtin as a reference": (
        SCALE_MODULE.replace('"reference.py:scale"', "max"),
        "declared.py:8 (scale): verify.reference: is 'max' of /dev/null; ",
    ),
    "an error": (
        "import pretuned\n\n\ndef sizes():\n    return 1 // 0\n\n\nkernels = sizes()\n",
        "declared.py:5: raised ZeroDivisionError: integer division or modulo by zero, in `return 1 // 0`",
    ),
    "a package that builds do not have": (
        "import pretuned\nimport pretuned_nowhere\n",
        (
            "declared.py:2: raised ModuleNotFoundError: No module named 'pretuned_nowhere'; a build has what "
            "[build-system] requires: add it there, or import it only in the functions that need it"
        ),
    ),
    "an exit": (
        "import sys\nsys.exit('so')\n",
        f"declared.py:2: ends the process (sys.exit), so that nothing is declared; {LISTED}",
    ),
    "an exit without an exception": (
        "import os\nprint('bye', flush=True)\nos._exit(3)\n",
        "declared.py: its process ended while it was executed: exit status 3: bye",
    ),
}


@pytest.mark.parametrize("name", WRONG_MODULES)
def test_wrong_modules(tmp_path, name):
    text, message = WRONG_MODULES[name]
    (found,) = faults_of(tmp_path, text)
    assert found.startswith(message)


def test_one_name_in_a_file_and_in_a_module(tmp_path):
    module = write_module(tmp_path)
    write(tmp_path)
    with pytest.raises(pretuned.SpecError, match=r"declared.py:8 \(scale\): a second kernel named 'scale'; the first"):
        load_all(tmp_path, module)


def test_a_module_that_is_not_there(tmp_path):
    with pytest.raises(pretuned.SpecError, match=r"declared.py: does not exist in .*; `declarations` names the module"):
        load_all(tmp_path, tmp_path / "declared.py")


def test_faults_of_files_and_of_the_module_are_reported_together(tmp_path):
    module = write_module(tmp_path, SCALE_MODULE.replace("[1024, 65536]", "[-1]").replace('"scale"', '"other"'))
    write(tmp_path, edited(SCALE, ("[1024, 65536]", "[-2]")))
    with pytest.raises(pretuned.SpecError) as caught:
        load_all(tmp_path, module)
    assert [fault.file for fault in caught.value.faults] == ["scale.toml", "declared.py:8 (other)"]


HOSTILE = {
    "prints": "print('x' * 1_000_000)\nimport sys\nsys.stderr.write('y')\n",
    "changes its folder": "import os\nos.chdir('/')\n",
    "closes what it can": "import sys\nsys.stdout.close()\nsys.stdin.close()\n",
    "forks": "import os\nos.fork()\n",
    "leaves a thread behind": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n",
    "ignores signals": "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_else_a_module_does_harms_nobody(tmp_path, capfd, name):
    where = Path.cwd()
    assert faults_of(tmp_path, SCALE_MODULE + HOSTILE[name]) == []
    assert Path.cwd() == where
    assert capfd.readouterr() == ("", "")
    assert not (tmp_path / "__pycache__").exists()


def test_a_module_that_does_not_end(tmp_path, monkeypatch):
    monkeypatch.setattr(declarations, "LIMIT_S", 0.5)
    assert faults_of(tmp_path, "import time\ntime.sleep(60)\n") == [
        "declared.py: has not ended after 0.5 s; a build executes it each time, so have it only declare"
    ]


def test_files_are_read_beside_the_module(tmp_path):
    module = write_module(
        tmp_path,
        SCALE_MODULE.replace("[128, 256]", "json.load(open('blocks.json'))").replace(
            "import pretuned\n", "import json\n\nimport pretuned\n", 1
        ),
    )
    (tmp_path / "blocks.json").write_text("[32, 256]")
    assert load_all(tmp_path, module)["scale"].space["block"] == (32, 256)


def test_the_folders_of_headers_are_found_for_an_sdist(tmp_path):
    module = write_module(
        tmp_path, SCALE_MODULE.replace("    space=", '    compile={"include": ["../include"]},\n    space=')
    )
    assert list(named_folders(tmp_path, module)) == [tmp_path.parent / "include"]
    module.write_text("import")
    assert list(named_folders(tmp_path, module)) == []


UNSTEADY = {
    "chance": "[random.randrange(32, 1024), 256]",
    "the order of a set": "list({str(i) for i in range(50)})",
    "time": "[time.time_ns() % 100_000, 256]",
}


@pytest.mark.parametrize("name", UNSTEADY)
def test_a_module_that_declares_something_else_each_time_is_found(tmp_path, name):
    text = SCALE_MODULE.replace("[128, 256]", UNSTEADY[name])
    (found,) = changes(write_module(tmp_path, "import random, time\n" + text))
    assert str(found).startswith("declared.py:9 (scale): space.block")
    assert "is another one each time that the module is executed" in str(found)


def test_a_steady_module_has_no_changes(tmp_path):
    assert list(changes(write_module(tmp_path))) == []
