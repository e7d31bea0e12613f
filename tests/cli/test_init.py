"""`pretuned init` in the projects that people have: what it adds, what it leaves, and that nothing else changes."""

from __future__ import annotations

import json
import tomllib

import pytest
from setuptools import Distribution

from pretuned import __version__
from pretuned.cli import main
from pretuned.init import edits
from pretuned.spec.loader import load_folder

HATCH = """\
# A comment to keep.
[build-system]
requires = ["hatchling>=1.27"]  # and this one
build-backend = "hatchling.build"

[project]
name = "My.Demo"
version = "1.0"
"""
SETUPTOOLS = '[build-system]\nrequires = ["setuptools"]\n\n[project]\nname = "demo"\nversion = "1"\n'
WANTED = f"pretuned>={__version__}"


@pytest.fixture(autouse=True)
def from_an_index(monkeypatch):
    monkeypatch.setattr(edits, "requirement", lambda: WANTED)


@pytest.fixture
def project(tmp_path):
    """Write a project's files and return a function that runs `pretuned init` there."""

    def write(files):
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())
        return tmp_path

    return write


def init(root, capsys, *options):
    with pytest.raises(SystemExit) as end:
        main(["init", "--project", str(root), *options])
    captured = capsys.readouterr()
    return end.value.code, captured.out, captured.err


def read(root):
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def table(root):
    return tomllib.loads((root / "pyproject.toml").read_text())


def test_a_hatch_project_keeps_every_line_and_gets_three(project, capsys):
    root = project({"pyproject.toml": HATCH, "src/my_demo/__init__.py": "", "src/other/__init__.py": ""})
    status, out, _ = init(root, capsys)
    assert status == 0
    assert (root / ".gitignore").read_text() == "/src/my_demo/tuned/\n/pretuned.lock.host.json\n/pretuned-report.html\n"
    assert (root / "pyproject.toml").read_text() == (
        HATCH.replace('["hatchling>=1.27"]', f'["hatchling>=1.27", "{WANTED}"]')
        + '\n[tool.hatch.build.hooks.pretuned]\nmodule = "src/my_demo/tuned"\n'
    )
    assert sorted(path.name for path in (root / "kernels").iterdir()) == ["axpy.cu.jinja", "axpy.toml", "reference.py"]
    assert list(load_folder(root / "kernels")) == ["axpy"]
    assert "from my_demo.tuned import axpy" in out
    before = read(root)
    status, _, err = init(root, capsys)
    assert (status, read(root)) == (0, before)
    assert err == (
        "kernels/: has specs (axpy.toml), so no kernel was added\n"
        "pyproject.toml: has pretuned's table already\n"
        "pyproject.toml: build-system.requires names pretuned already\n"
        'warning: pyproject.toml: project.requires-python is missing; write ">=3.11": the generated package needs '
        "Python 3.11 or newer\n"
    )


@pytest.mark.parametrize(
    ("files", "module"),
    [
        ({"demo/__init__.py": "", "tests/__init__.py": ""}, "demo/tuned"),
        ({"src/anything/__init__.py": ""}, "src/anything/tuned"),
        ({"lib/demo/__init__.py": "", "setup.cfg": "[options]\npackage_dir =\n    = lib\n"}, "lib/demo/tuned"),
        ({"py/demo/__init__.py": "", "setup.cfg": "[options.packages.find]\nwhere = py\n"}, "py/demo/tuned"),
    ],
)
def test_the_package_is_found_where_setuptools_projects_have_it(project, capsys, files, module):
    root = project({"pyproject.toml": SETUPTOOLS, **files})
    assert init(root, capsys)[0] == 0
    assert table(root)["tool"]["pretuned"] == {"module": module}
    assert table(root)["build-system"] == {"requires": ["setuptools", WANTED], "build-backend": "pretuned.backend"}


FIND = "[tool.setuptools.packages.find]\n"
DEMO = {"demo/__init__.py": ""}


@pytest.mark.parametrize(
    ("files", "packages", "modules"),
    [
        (
            {"pyproject.toml": SETUPTOOLS, "demo/__init__.py": "", "demo/sub/__init__.py": ""},
            ["demo", "demo.sub"],
            None,
        ),
        ({"pyproject.toml": SETUPTOOLS, "demo.py": ""}, ["demo_tuned"], ["demo"]),
        ({"pyproject.toml": SETUPTOOLS, "src/demo/__init__.py": ""}, ["demo"], None),
        ({"pyproject.toml": SETUPTOOLS, "src/demo.py": ""}, [], ["demo"]),
        ({"pyproject.toml": SETUPTOOLS + FIND, "demo/__init__.py": ""}, ["demo"], None),
        (
            {"pyproject.toml": SETUPTOOLS + FIND + 'exclude = ["a*"]\n', "demo/__init__.py": "", "a/b.py": ""},
            ["demo"],
            None,
        ),
        ({"pyproject.toml": SETUPTOOLS + FIND + 'include = ["demo*"]\n', "demo/__init__.py": ""}, ["demo"], None),
        (
            {"pyproject.toml": SETUPTOOLS, "setup.cfg": "[options]\npackages = find:\n", "demo/__init__.py": ""},
            ["demo"],
            None,
        ),
        (
            {"pyproject.toml": SETUPTOOLS + '[tool.setuptools]\npackages = ["demo"]\n', "demo/__init__.py": ""},
            ["demo"],
            None,
        ),
    ],
)
def test_setuptools_takes_the_specs_for_no_package(project, capsys, monkeypatch, files, packages, modules):
    root = project(files)
    assert init(root, capsys)[0] == 0
    assert (root / "kernels" / "axpy.toml").is_file()
    monkeypatch.chdir(root)
    found = Distribution({"src_root": str(root)})
    found.parse_config_files()
    found.set_defaults()
    assert (sorted(found.packages or []), found.py_modules or None) == (packages, modules)


def test_a_module_that_is_not_that_of_the_table_is_refused(project, capsys):
    root = project({"pyproject.toml": HATCH, "my_demo/__init__.py": ""})
    assert init(root, capsys)[0] == 0
    before = read(root)
    status, _, said = init(root, capsys, "--module", "my_demo/fast")
    assert status == 2
    assert said == (
        "error: --module my_demo/fast: pyproject.toml has pretuned's table already, with 'my_demo/tuned'; "
        "change it there\n"
    )
    assert read(root) == before
    assert init(root, capsys, "--module", "my_demo/tuned")[0] == 0


def test_what_git_ignores_already_is_not_added_again(project, capsys):
    root = project({"pyproject.toml": HATCH, "my_demo/__init__.py": "", ".gitignore": "*.o\nmy_demo/tuned"})
    init(root, capsys)
    assert (root / ".gitignore").read_text() == "*.o\nmy_demo/tuned\n/pretuned.lock.host.json\n/pretuned-report.html\n"


@pytest.mark.parametrize(
    ("python", "warned"),
    [('">=3.11"', False), ('">=3.12,<4"', False), ('">=3.9"', True), ('"~=3.10"', True), ('"~=3.11"', False)],
)
def test_a_python_that_the_package_does_not_run_on_is_said(project, capsys, python, warned):
    root = project({"pyproject.toml": f"{HATCH}requires-python = {python}\n", "my_demo/__init__.py": ""})
    stands = f'project.requires-python is {python}; write ">=3.11": the generated package needs Python 3.11 or newer'
    assert (stands in init(root, capsys)[2]) == warned


@pytest.mark.parametrize(("listed", "said"), [('["numpy"]', True), ('["numpy", "cupy-cuda12x>=14"]', False)])
def test_the_array_library_that_callers_need_is_said(project, capsys, listed, said):
    root = project({"pyproject.toml": f"{HATCH}dependencies = {listed}\n", "my_demo/__init__.py": ""})
    assert ("Add the array library that callers use to `dependencies`" in init(root, capsys)[1]) == said


@pytest.mark.parametrize(
    ("extra", "folder"),
    [
        ('[tool.setuptools.package-dir]\n"" = "code"\n', "code"),
        ('[tool.setuptools.packages.find]\nwhere = ["code"]\n', "code"),
    ],
)
def test_the_package_is_found_where_pyproject_says(project, capsys, extra, folder):
    root = project({"pyproject.toml": SETUPTOOLS + extra, f"{folder}/demo/__init__.py": ""})
    init(root, capsys)
    assert table(root)["tool"]["pretuned"] == {"module": f"{folder}/demo/tuned"}


def test_the_back_end_of_setuptools_makes_way_for_the_one_that_asks_for_what_builds_need(project, capsys):
    text = SETUPTOOLS.replace("[project]", 'build-backend = "setuptools.build_meta"  # theirs\n[project]')
    root = project({"pyproject.toml": text, "demo/__init__.py": ""})
    status, out, err = init(root, capsys)
    assert status == 0
    assert table(root)["build-system"]["build-backend"] == "pretuned.backend"
    assert 'added `build-backend = "pretuned.backend"` to build-system, in place of "setuptools.build_meta"' in out
    assert "warning: pyproject.toml: build-system.requires has `setuptools`; write `setuptools>=77`" in err


def test_another_back_end_of_setuptools_stays(project, capsys):
    text = SETUPTOOLS.replace("[project]", 'build-backend = "setuptools.build_meta:__legacy__"\n[project]')
    root = project({"pyproject.toml": text, "demo/__init__.py": ""})
    _, _, err = init(root, capsys)
    assert table(root)["build-system"]["build-backend"] == "setuptools.build_meta:__legacy__"
    assert 'write build-backend = "pretuned.backend", or install CuPy and NVRTC yourself' in err


def test_a_project_without_a_build_system_gets_one(project, capsys):
    root = project({"pyproject.toml": '[project]\nname = "demo"\nversion = "1"', "demo/__init__.py": ""})
    init(root, capsys)
    expected = {"requires": ["setuptools>=77", WANTED], "build-backend": "pretuned.backend"}
    assert table(root)["build-system"] == expected


@pytest.mark.parametrize(
    "requires",
    [
        "[\n    'hatchling',\n]",
        '[\n\t"hatchling" # no comma\n]',
        '[\n  "hatchling",\n  # "pretuned",\n]',
        '["hatchling", ]',
        '[\n  "hatchling", "wheel"]',
        "[]",
        "[\n]",
        '["hatchling; python_version > \'3\' and extra == \\"]\\""]',
    ],
)
def test_every_way_to_write_a_list_gets_one_entry_more(project, capsys, requires):
    text = HATCH.replace('["hatchling>=1.27"]', requires)
    root = project({"pyproject.toml": text, "my_demo/__init__.py": ""})
    init(root, capsys)
    before, after = tomllib.loads(text), table(root)
    assert after["build-system"]["requires"] == [*before["build-system"]["requires"], WANTED]
    comments = [line for line in text.splitlines() if "#" in line]
    new = (root / "pyproject.toml").read_text()
    assert all(line.partition("#")[2] in new for line in comments)


def test_line_ends_stay_what_they_are(project, capsys):
    root = project({"pyproject.toml": HATCH.replace("\n", "\r\n"), "my_demo/__init__.py": ""})
    init(root, capsys)
    data = (root / "pyproject.toml").read_bytes()
    assert data.count(b"\n") == data.count(b"\r\n") > HATCH.count("\n")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            HATCH + "[tool]\nhatch = { build = { hooks = {} } }\n",
            'add [tool.hatch.build.hooks.pretuned] with `module = "my_demo/tuned"` yourself',
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_edited_safely_is_told(project, capsys, text, left):
    root = project({"pyproject.toml": text, "my_demo/__init__.py": ""})
    with pytest.raises(SystemExit):
        main(["init", "--project", str(root)])
    assert left in capsys.readouterr().err
    tomllib.loads((root / "pyproject.toml").read_text())


def test_a_project_with_hatch_toml_has_the_table_there(project, capsys):
    root = project({"pyproject.toml": HATCH, "hatch.toml": "[build]\nexclude = []\n", "my_demo/__init__.py": ""})
    assert init(root, capsys)[0] == 0
    expected = {"build": {"exclude": [], "hooks": {"pretuned": {"module": "my_demo/tuned"}}}}
    assert tomllib.loads((root / "hatch.toml").read_text()) == expected
    assert "tool" not in table(root)


def test_files_that_exist_stay(project, capsys):
    mine = "def axpy(x, y, a, **_):\n    return y + a * x\n"
    root = project({"pyproject.toml": HATCH, "my_demo/__init__.py": "", "kernels/reference.py": mine})
    status, _, err = init(root, capsys)
    assert status == 0
    assert "kernels/reference.py: exists and stays as it is\n" in err
    assert (root / "kernels/reference.py").read_text() == mine


@pytest.mark.parametrize(
    ("files", "options", "status", "message"),
    [
        ({}, (), 3, "pyproject.toml: write one in"),
        ({"pyproject.toml": "a ="}, (), 3, "pyproject.toml: cannot be read as TOML"),
        ({"pyproject.toml": HATCH}, (), 3, "no package (a folder with __init__.py) is here; name the path"),
        (
            {"pyproject.toml": HATCH, "src/a/__init__.py": "", "src/b/__init__.py": ""},
            (),
            3,
            "the packages src/a, src/b are here; name the path of the generated one: `pretuned init --module",
        ),
        ({"pyproject.toml": HATCH.replace("hatchling.build", "flit_core.buildapi")}, (), 3, "is 'flit_core.buildapi'"),
        ({"pyproject.toml": HATCH}, ("--module", "../x"), 3, "leads outside the project"),
        ({"pyproject.toml": HATCH}, ("--module", "/tmp/x"), 3, "is absolute"),
        ({"pyproject.toml": HATCH, "a/tuned/mine.py": ""}, ("--module", "a/tuned"), 6, "did not generate"),
    ],
)
def test_what_init_cannot_do_it_says_and_writes_nothing(project, capsys, files, options, status, message):
    root = project(files)
    before = read(root)
    found, _, err = init(root, capsys, *options)
    assert found == status
    assert message in err
    assert read(root) == before


def test_nothing_is_written_through_a_link(project, capsys, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    root = project({"pyproject.toml": HATCH, "my_demo/__init__.py": ""})
    (root / "kernels").symlink_to(outside)
    assert "is a link that leads out of the project" in init(root, capsys)[2]
    (root / "kernels").unlink()
    (root / "kernels").mkdir()
    (root / "kernels/axpy.cu.jinja").symlink_to(outside / "new")
    assert "kernels/axpy.cu.jinja: exists" in init(root, capsys)[2]
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        (None, WANTED),
        ({"url": "file:///w/pretuned-1.whl", "archive_info": {}}, "pretuned @ file:///w/pretuned-1.whl"),
        ({"url": "file:///src", "dir_info": {"editable": True}}, "pretuned @ file:///src"),
        (
            {"url": "https://host/x.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "pretuned @ git+https://host/x.git@abc",
        ),
    ],
)
def test_the_build_asks_for_the_pretuned_that_wrote_the_table(monkeypatch, recorded, expected):
    monkeypatch.undo()

    class Installed:
        def read_text(self, name):
            return json.dumps(recorded) if recorded and name == "direct_url.json" else None

    monkeypatch.setattr(edits.importlib.metadata, "distribution", lambda name: Installed())
    assert edits.requirement() == expected
