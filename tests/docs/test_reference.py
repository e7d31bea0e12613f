"""The reference has every key, command, variable and status that the code has."""

import re
import subprocess
import sys

import pytest

import reference
from documents import ROOT
from from_the_code import expand, renewed
from pretuned.cli.parser import parser
from pretuned.errors import ExitCode
from pretuned.runtime.types import DTYPES
from pretuned.schema.descriptions import ENVIRONMENT
from pretuned.schema.generate import project_schema, spec_schema


def keys_of(schema):
    """Every key of a schema, at any depth."""
    if isinstance(schema, list):
        return {key for item in schema for key in keys_of(item)}
    if not isinstance(schema, dict):
        return set()
    properties = schema.get("properties", {})
    return set(properties) | {key for value in [*schema.values(), *properties.values()] for key in keys_of(value)}


def test_what_pages_keep_of_generated_parts_is_what_the_code_has():
    pages = {file: file.read_text(encoding="utf-8") for file in (ROOT / "docs").rglob("*.md")}
    assert sum("<!-- end -->" in text for text in pages.values()) >= 5
    stale = [file.name for file, text in pages.items() if renewed(text) != text]
    assert not stale, "run `python docs/_ext/from_the_code.py`"


def pages():
    return {
        file.relative_to(ROOT / "docs").with_suffix("").as_posix(): expand(file.read_text(encoding="utf-8"))
        for file in (ROOT / "docs" / "reference").glob("*.md")
    }


@pytest.fixture(scope="module", params=["sources", "site"])
def texts(request, tmp_path_factory):
    """The text of each reference page: as it goes into the site, and, where Sphinx is installed, out of it."""
    if request.param == "sources":
        return {name: text.replace("`", "") for name, text in pages().items()}
    pytest.importorskip("sphinx")
    site = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", str(ROOT / "docs"), str(site)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {
        name: re.sub(r"<[^>]+>", "", (site / f"{name}.html").read_text(encoding="utf-8")).replace("&#x27;", "'")
        for name in pages()
    }


def test_the_spec_page_has_every_key(texts):
    keys = keys_of(spec_schema()) - {"name", "folder"}
    assert {
        key for key in keys if not re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", texts["reference/spec"])
    } == set()
    assert {name for name in DTYPES if name not in texts["reference/spec"]} == set()


def test_the_page_of_the_projects_table_has_every_key(texts):
    keys = keys_of(project_schema()["properties"]["tool"]["properties"]["pretuned"])
    assert {key for key in keys if key not in texts["reference/project-table"]} == set()


def test_the_page_of_commands_has_every_command_and_option(texts):
    text = texts["reference/cli"]
    for name, command in reference.subcommands(parser()).items():
        assert f"pretuned {name}" in text
        options = {option for action in command._actions for option in action.option_strings}
        assert {option for option in options if option not in text} == set()


def test_the_page_of_exit_codes_has_every_status(texts):
    for code in ExitCode:
        assert f"{int(code)}" in texts["reference/exit-codes"]
        assert code.meaning.replace("`", "").split(":")[0] in texts["reference/exit-codes"]


def test_the_page_of_variables_has_what_the_code_reads(texts):
    sources = (file for file in (ROOT / "generator" / "pretuned").rglob("*.py") if "kernels" not in file.parts)
    read = {name for file in sources for name in re.findall(r"\bPRETUNED_[A-Z_]+\b", file.read_text(encoding="utf-8"))}
    macros = {f"PRETUNED_{name}" for name in ("ENTRY", "HOST", "LINKAGE", "RACES", "TAKES")}  # of C++
    assert read - macros == ENVIRONMENT.keys() - {"CXX"}
    assert {name for name in ENVIRONMENT if name not in texts["reference/environment"]} == set()
