from pathlib import Path

import pytest

from pretuned.config import ModuleTable, Project, build_project
from pretuned.errors import ConfigError
from pretuned.frontends.hatch import Hatch
from pretuned.frontends.registry import load_project, project_of, refuse_second

ROOT = Path("/project")
HOOK = "tool.hatch.build.hooks.pretuned"
MODES = "expected 'auto', 'locked', 'force' or 'off'"
OUTSIDE = "leads outside the project; write a path below the project's folder, without '..'"
ABSOLUTE = "is absolute; write a path relative to the project's folder"
SPACE = '`torch = "mypkg"`'
KNOWN = (
    "'architectures', 'budget', 'cubins', 'cuda', 'declarations', 'devices', 'effort', 'jax', 'kernels', 'lock', "
    "'max-configurations', 'max-loss', 'mode', 'module', 'modules', 'require-tuned', 'torch' or 'usage'"
)
IN_FOLDER = "write a module of the folder 'kernels', such as 'kernels/declared.py'"
EXAMPLE = '`module = "src/mypkg/tuned"`'


def faults(table, **options):
    with pytest.raises(ConfigError) as caught:
        build_project(table, root=ROOT, **options)
    assert caught.value.exit_code == 3
    heading, *lines = str(caught.value).splitlines()
    assert heading == f"invalid configuration ({len(lines)} problem{'s' if len(lines) > 1 else ''}):"
    return [line.removeprefix(f"  pyproject.toml: {options.get('path', 'tool.pretuned')}.") for line in lines]


def test_the_smallest_table_has_the_documented_defaults():
    assert build_project({"module": "src/mypkg/tuned"}, root=ROOT) == Project(
        root=ROOT,
        modules=(ModuleTable(kernels=ROOT / "kernels", module="src/mypkg/tuned"),),
        lock=ROOT / "pretuned.lock.json",
        mode="auto",
        budget_s=60.0,
        cuda=None,
        architectures=(),
        cubins=True,
        require_tuned=False,
        max_loss=None,
        max_configurations=20,
        effort="default",
        usage=None,
    )


def test_every_key_is_read():
    table = {
        "kernels": "templates",
        "module": "src/mypkg/tuned/",
        "declarations": "templates/declared.py",
        "lock": "locks/all.json",
        "mode": "locked",
        "budget": 7.5,
        "cuda": "12.9",
        "architectures": ["sm_80", "sm_90a", "sm_80"],
        "cubins": False,
        "require-tuned": True,
        "max-loss": 0.015,
        "max-configurations": 32,
        "effort": "thorough",
        "usage": "locks/calls.jsonl",
        "jax": True,
        "torch": "mypkg",
    }
    assert build_project(table, root=ROOT) == Project(
        root=ROOT,
        modules=(
            ModuleTable(
                kernels=ROOT / "templates",
                module="src/mypkg/tuned",
                declarations=ROOT / "templates/declared.py",
                jax=True,
                torch="mypkg",
            ),
        ),
        lock=ROOT / "locks/all.json",
        mode="locked",
        budget_s=7.5,
        cuda="12.9",
        architectures=("sm_80", "sm_90a"),
        cubins=False,
        require_tuned=True,
        max_loss=0.015,
        max_configurations=32,
        effort="thorough",
        usage=ROOT / "locks/calls.jsonl",
    )


def test_several_modules():
    table = {"modules": [{"module": "src/a/tuned", "jax": True}, {"module": "src/b/tuned", "kernels": "more"}]}
    assert build_project(table, root=ROOT).modules == (
        ModuleTable(kernels=ROOT / "kernels", module="src/a/tuned", jax=True),
        ModuleTable(kernels=ROOT / "more", module="src/b/tuned"),
    )


def test_all_faults_of_a_table_come_at_once():
    table = {
        "kernels": 3,
        "module": "../tuned",
        "lock": "/pretuned.lock.json",
        "mode": "atuo",
        "budget": True,
        "cuda": 13.0,
        "architectures": ["90", 90],
        "cubin": True,
        "require_tuned": True,
    }
    assert faults(table) == [
        "architectures[0]: is \"90\"; write a real architecture such as 'sm_90' or 'sm_90a'",
        'architectures[1]: expected a string, found 90; write `architectures = ["sm_90"]`',
        "budget: expected a number, found true; write `budget = 60`",
        "cubin: unknown key; did you mean 'cubins'?",
        'cuda: expected a string, found 13.0; write `cuda = "13.0"`',
        'kernels: expected a string, found 3; write `kernels = "kernels"`',
        f"lock: '/pretuned.lock.json' {ABSOLUTE}",
        f"mode: is \"atuo\"; {MODES}; did you mean 'auto'?",
        f"module: '../tuned' {OUTSIDE}",
        "require_tuned: unknown key; did you mean 'require-tuned'?",
    ]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {},
            'module: missing; the generated package needs a place in your sources: `module = "src/mypkg/tuned"`',
        ),
        (
            {"module": "src/a/tuned", "color": "red"},
            f"color: unknown key; known are {KNOWN}",
        ),
        *(
            (
                {"module": "a", "torch": name},
                f'torch: is "{name}"; write a name for the operators in torch.ops: {SPACE}',
            )
            for name in ("", "a.b", "class", "_own")
        ),
        *(
            (
                {"module": "a", "torch": name},
                f"torch: '{name}' is a namespace of PyTorch's own; write one of this package: {SPACE}",
            )
            for name in ("aten", "torch", "load_library")
        ),
        (
            {"module": "/opt/tuned"},
            f"module: '/opt/tuned' {ABSOLUTE}",
        ),
        (
            {"module": "C:/tuned"},
            f"module: 'C:/tuned' {ABSOLUTE}",
        ),
        (
            {"module": "src/a/../../../tuned"},
            f"module: 'src/a/../../../tuned' {OUTSIDE}",
        ),
        ({"module": "src\\a"}, 'module: is "src\\a"; write paths with forward slashes'),
        ({"module": "."}, 'module: is "."; write a path below the project\'s folder'),
        (
            {"module": "src/my-pkg/tuned"},
            f"module: 'src/my-pkg/tuned' is not a package path, since 'my-pkg' is not a Python name; write {EXAMPLE}",
        ),
        (
            {"module": "src/class/tuned"},
            f"module: 'src/class/tuned' is not a package path, since 'class' is not a Python name; write {EXAMPLE}",
        ),
        (
            {"module": "src/" + "a" * 5000},
            "module: has a name of 5000 bytes, and a file's or folder's may have 200; write a shorter one",
        ),
        (
            {"module": "src/a/tuned", "max-loss": 2},
            "max-loss: is 2; expected less than 1; write `max-loss = 0.02`",
        ),
        (
            {"module": "src/a/tuned", "max-loss": 0},
            "max-loss: is 0; expected more than 0; write `max-loss = 0.02`",
        ),
        (
            {"module": "src/a/tuned", "max-loss": "2%"},
            'max-loss: expected a number, found "2%"; write `max-loss = 0.02`',
        ),
        (
            {"module": "src/a/tuned", "effort": "fats"},
            "effort: is \"fats\"; expected 'fast', 'default' or 'thorough'; did you mean 'fast'?",
        ),
        (
            {"module": "src/a/tuned", "max-configurations": 1},
            "max-configurations: is 1; expected 2 or more; write `max-configurations = 20`",
        ),
        (
            {"module": "src/a/tuned", "max-configurations": 33},
            "max-configurations: is 33; expected 32 or less; write `max-configurations = 20`",
        ),
        (
            {"module": "src/a/tuned", "usage": "/var/log/calls.jsonl"},
            f"usage: '/var/log/calls.jsonl' {ABSOLUTE}",
        ),
        (
            {"module": "src/a/tuned", "usage": "src/a/tuned/calls.jsonl"},
            (
                "usage: 'src/a/tuned/calls.jsonl' lies in 'src/a/tuned', which is replaced at each build; "
                "choose another path"
            ),
        ),
        ({"module": "src"}, "module: 'src' names no package; write `module = \"src/mypkg/tuned\"`"),
        (
            {"module": "mypkg", "kernels": "mypkg/kernels"},
            "module: 'mypkg' holds the specs ('mypkg/kernels'), and is replaced at each build; choose another path",
        ),
        (
            {"module": "a", "kernels": "../kernels"},
            f"kernels: '../kernels' {OUTSIDE}",
        ),
        ({"module": "a", "declarations": "../declared.py"}, f"declarations: '../declared.py' {OUTSIDE}"),
        (
            {"module": "a", "declarations": "declared.py"},
            f'declarations: is "declared.py"; {IN_FOLDER}',
        ),
        (
            {"module": "a", "declarations": "kernels/declared"},
            f'declarations: is "kernels/declared"; {IN_FOLDER}',
        ),
        (
            {"module": "a", "declarations": []},
            'declarations: expected a string, found []; write `declarations = "kernels/declared.py"`',
        ),
        (
            {"modules": [{"module": "src/a/tuned"}], "declarations": "kernels/declared.py"},
            "declarations: write `declarations` in each of the [[modules]] tables instead",
        ),
        (
            {"modules": [{"module": "src/a/tuned"}, {"module": "src/a/tuned/"}]},
            "modules[1].module: 'src/a/tuned/' is also the path of modules[0]; two modules need two paths",
        ),
        (
            {"modules": [{"module": "src/a/b/c"}, {"module": "src/a/b"}]},
            "modules[1].module: 'src/a/b' and 'src/a/b/c' of modules[0] lie one in the other; put them side by side",
        ),
        (
            {"modules": [{"module": "src/a/tuned"}], "kernels": "kernels"},
            "kernels: write `kernels` in each of the [[modules]] tables instead",
        ),
        (
            {"modules": [{"module": "a", "kernel": "k"}]},
            "modules[0].kernel: unknown key; did you mean 'kernels'?",
        ),
        ({"modules": [{"kernels": "k"}]}, 'modules[0].module: missing; write `module = "src/mypkg/tuned"`'),
        ({"module": "a", "jax": "yes"}, 'jax: expected true or false, found "yes"; write `jax = true`'),
        (
            {"modules": [{"module": "a"}], "jax": True},
            "jax: write `jax` in each of the [[modules]] tables instead",
        ),
        ({"module": "a", "budget": -1}, "budget: is -1; expected 0 or more; write `budget = 60`"),
        (
            {"module": "a", "torch": "my-pkg"},
            'torch: is "my-pkg"; write a name for the operators in torch.ops: `torch = "mypkg"`',
        ),
        (
            {"module": "a", "torch": "class"},
            'torch: is "class"; write a name for the operators in torch.ops: `torch = "mypkg"`',
        ),
        (
            {"module": "a", "torch": "aten"},
            "torch: 'aten' is a namespace of PyTorch's own; write one of this package: `torch = \"mypkg\"`",
        ),
        ({"module": "a", "torch": True}, 'torch: expected a string, found true; write `torch = "mypkg"`'),
        (
            {"modules": [{"module": "a", "torch": ""}]},
            'modules[0].torch: is ""; write a name for the operators in torch.ops: `torch = "mypkg"`',
        ),
        ({"module": "a", "cuda": "13"}, 'cuda: is "13"; write `cuda = "13.0"`'),
        ({"module": "a", "cuda": "99.9"}, 'cuda: is "99.9"; write `cuda = "13.0"`'),
        (
            {"module": "a", "architectures": ["sm_90", "sm_13"]},
            "architectures[1]: is \"sm_13\"; write a real architecture such as 'sm_90' or 'sm_90a'",
        ),
    ],
)
def test_one_fault(table, message):
    assert faults(table) == [message]


def test_hatch_keys_are_for_hatch_alone():
    reserved = {
        "dependencies": ["pretuned"],
        "require-runtime-dependencies": True,
        "require-runtime-features": ["x"],
        "enable-by-default": True,
    }
    assert project_of(Hatch(), {"module": "a", **reserved}, ROOT) == build_project({"module": "a"}, root=ROOT)
    assert len(faults({"module": "a", **reserved}, path="tool.pretuned")) == len(reserved)


def write(folder, text):
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ('[tool.hatch.build.hooks.pretuned]\nmodule = "a"\nenable-by-default = false\n', "a"),
        ('[tool.hatch.build.targets.wheel.hooks.pretuned]\nmodule = "a"\ndependencies = []\n', "a"),
        (
            (
                '[tool.hatch.build.hooks.pretuned]\nmodule = "b"\n'
                '[tool.hatch.build.targets.wheel.hooks.pretuned]\nmodule = "a"\n'
            ),
            "a",
        ),
        ('[tool.hatch.build.hooks.custom]\nmodule = "a"\npath = "hatch_build.py"\n', "a"),
        ('[tool.hatch.build.hooks.custom]\nanswer = 42\n[tool.pretuned]\nmodule = "b"\n', "b"),
        ('[tool.pretuned]\nmodule = "b"\n', "b"),
    ],
)
def test_where_a_table_is_found(tmp_path, text, module):
    project = load_project(write(tmp_path, text))
    assert project.modules == (ModuleTable(kernels=tmp_path / "kernels", module=module),)


def test_a_table_of_hatch_toml_is_found(tmp_path):
    write(tmp_path, '[project]\nname = "x"\n[tool.hatch.version]\npath = "x.py"\n')
    (tmp_path / "hatch.toml").write_text('[build.hooks.pretuned]\nmodule = "a"\n')
    assert load_project(tmp_path).modules == (ModuleTable(kernels=tmp_path / "kernels", module="a"),)


TWO = "[tool.pretuned] is here too, and a project has one of the two: keep [{}] with Hatch, [tool.pretuned] with "


@pytest.mark.parametrize("path", [HOOK, "tool.hatch.build.targets.wheel.hooks.pretuned"])
def test_two_tables_are_refused_by_name(tmp_path, path):
    write(tmp_path, f'[{path}]\nmodule = "a"\n[tool.pretuned]\nmodule = "b"\n')
    for load in (load_project, lambda root: refuse_second(root, Hatch(), path)):
        with pytest.raises(ConfigError) as caught:
            load(tmp_path)
        assert str(caught.value).splitlines()[1:] == [f"  pyproject.toml: {path}: {TWO.format(path)}setuptools"]


@pytest.mark.parametrize(
    ("backend", "path", "other"),
    [
        ("hatchling.build", "tool.pretuned", HOOK),
        ("setuptools.build_meta", HOOK, "tool.pretuned"),
        ("pretuned.backend", HOOK, "tool.pretuned"),
    ],
)
def test_a_table_that_the_build_back_end_never_reads(tmp_path, backend, path, other):
    write(tmp_path, f'[build-system]\nbuild-backend = "{backend}"\n[{path}]\nmodule = "a"\n')
    with pytest.raises(ConfigError) as caught:
        load_project(tmp_path)
    assert str(caught.value).splitlines()[1:] == [
        f"  pyproject.toml: {path}: the build back end '{backend}' does not read this table; write [{other}]"
    ]


def test_a_fault_names_the_table_that_it_stands_in(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_project(write(tmp_path, '[tool.pretuned]\nmodule = "b"\nmode = "lock"\n'))
    assert str(caught.value).splitlines()[1:] == [
        f"  pyproject.toml: tool.pretuned.mode: is \"lock\"; {MODES}; did you mean 'locked'?"
    ]


def test_a_project_without_a_table(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_project(write(tmp_path, '[project]\nname = "x"\n'))
    assert str(caught.value).splitlines()[1:] == [
        (
            f"  pyproject.toml: has no [{HOOK}] table (with setuptools: [tool.pretuned]); write one with {EXAMPLE}, as "
            "`pretuned init` does"
        )
    ]


def test_a_folder_without_a_project(tmp_path):
    with pytest.raises(ConfigError, match=r"pyproject\.toml: does not exist in "):
        load_project(tmp_path)
    with pytest.raises(ConfigError, match=r"pyproject\.toml: cannot be read as TOML: "):
        load_project(write(tmp_path, "[tool"))
    with pytest.raises(ConfigError, match=r"pyproject\.toml: is a file; name the folder that it is in"):
        load_project(tmp_path / "pyproject.toml")
