"""Front ends: where each keeps its table, how its files name packages, and one that is added from outside."""

import pytest

from pretuned.config.toml import read_toml, table_at
from pretuned.errors import ConfigError
from pretuned.frontends import registry
from pretuned.frontends.registry import FrontEnd, load_project, register


class Meson:
    """A front end in a package of its own: its table stands in `[tool.meson-python.pretuned]`."""

    name = "meson-python"
    table = "tool.meson-python.pretuned"
    backend = "mesonpy"

    def reads(self, backend):
        return backend == self.backend

    def find(self, root, document):
        table = table_at(document, self.table)
        return None if table is None else (self.table, table)

    def reserved(self, path):
        return frozenset({"args"})

    def package_dir(self, root, document):
        return {"": "python"}

    def packages(self, root, document):
        return []

    def table_place(self, root):
        return "pyproject.toml", self.table

    def advice(self, backend):
        return ""

    def schema(self, table):
        return {"type": "object", "properties": {"meson-python": {"properties": {"pretuned": table}}}}


def project(folder, text):
    (folder / "pyproject.toml").write_text(text)
    return load_project(folder)


@pytest.fixture
def meson(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTERED", [*registry._REGISTERED])
    front_end: FrontEnd = Meson()
    register(front_end)
    return front_end


def test_a_front_end_from_outside_reads_its_table(meson, tmp_path):
    table = '[tool.meson-python.pretuned]\nmodule = "python/a/tuned"\nargs = []\n'
    found = project(tmp_path, f'[build-system]\nbuild-backend = "mesonpy"\n{table}')
    assert found.import_name(found.modules[0].module) == "a.tuned"


def test_a_table_that_its_back_end_never_reads_names_the_one_that_it_does(meson, tmp_path):
    with pytest.raises(
        ConfigError, match=r"'mesonpy' does not read this table; write \[tool\.meson-python\.pretuned\]"
    ):
        project(tmp_path, '[build-system]\nbuild-backend = "mesonpy"\n[tool.pretuned]\nmodule = "a"\n')


@pytest.mark.parametrize(
    ("text", "module", "name"),
    [
        ("[tool.pretuned]\n", "src/a/tuned", "a.tuned"),
        ("[tool.pretuned]\n", "generator/tuned", "generator.tuned"),
        ('[tool.setuptools.package-dir]\n"" = "lib"\n[tool.pretuned]\n', "lib/a/tuned", "a.tuned"),
        ('[tool.setuptools.packages.find]\nwhere = ["python"]\n[tool.pretuned]\n', "python/a/tuned", "a.tuned"),
        ("[tool.hatch.build.hooks.pretuned]\n", "src/a/tuned", "a.tuned"),
        (
            '[tool.hatch.build.targets.wheel]\npackages = ["generator/a"]\n[tool.hatch.build.hooks.pretuned]\n',
            "generator/a/tuned",
            "a.tuned",
        ),
    ],
)
def test_a_generated_package_is_imported_by_the_name_that_it_is_installed_under(tmp_path, text, module, name):
    assert project(tmp_path, f'{text}module = "{module}"\n').import_name(module) == name


def test_setup_cfg_names_folders_too(tmp_path):
    (tmp_path / "setup.cfg").write_text("[options]\npackage_dir =\n    = lib\n    b = other\n")
    found = project(tmp_path, '[tool.pretuned]\nmodule = "lib/a/tuned"\n')
    assert found.import_name("lib/a/tuned") == "a.tuned"
    assert found.import_name("other/tuned") == "b.tuned"


def test_this_repository_is_a_project_like_others(request):
    root = request.config.rootpath
    found = load_project(root)
    assert read_toml(root / "pyproject.toml")["tool"]["hatch"]["build"]["hooks"].keys() == {"custom"}
    assert found.import_name(found.modules[0].module) == "pretuned.kernels"
