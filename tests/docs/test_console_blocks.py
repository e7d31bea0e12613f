"""Every console block is run, and prints what the page shows; what is not run is listed here with a reason."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from documents import PAGES, ROOT, blocks, commands, in_language, matches
from pretuned.cli.parser import parser

NEEDS_GPU = "measures on a GPU"
INSTALLS = "installs into an environment of its own, as .ci/run does"
NEEDS_CLUSTER = "needs several machines; tests/fleet has a cluster of Dask's on one"
NEEDS_FILES = "is about files that a reader has"

# What is not run here, by its command. Of `pretuned`, the options are still parsed.
NOT_RUN = {
    "pip install . && pretuned show": INSTALLS,
    "pip install -e '.[test,cuda13]' && python -m pytest -n auto --dist worksteal": INSTALLS,
    "pip install -e '.[test,frameworks]' && python -m pytest --all-libraries tests/torch tests/jax tests/adapters": (
        INSTALLS
    ),
    "pip install -e '.[test,browser]' && python -m pytest --all-libraries -m browser tests/browser": INSTALLS,
    "pip install -e '.[docs]' && sphinx-build -W --keep-going docs build/docs": INSTALLS,
    "pip install '/path/to/pretuned[cuda13]'": INSTALLS,
    "python -m pytest tests/spec -x -q": "runs tests",
    "python -m pytest tests/gpu -x": NEEDS_GPU,
    "for name in disk kills damage folders compilers fuzz; do python benchmarks/faults/$name.py --write; done": (
        "takes an hour"
    ),
    "PRETUNED_FAST_PATH=0 python -m pytest tests/runtime": "runs tests",
    "ruff check && ruff format --check && mypy && lint-imports": "checks the whole repository, as .ci/run does",
    "pretuned tune": NEEDS_GPU,
    "pip install 'pretuned[dask,cuda13]'": INSTALLS,
    "dask scheduler --port 8786": NEEDS_CLUSTER,
    "CUDA_VISIBLE_DEVICES=0 dask worker tcp://head:8786 --nthreads 1": NEEDS_CLUSTER,
    "dask worker tcp://head:8786 --nthreads 32": NEEDS_CLUSTER,
    "pretuned tune --dask tcp://head:8786": NEEDS_CLUSTER,
    "pretuned tune --from-usage usage.jsonl": NEEDS_GPU,
    "pretuned tune --processes 4": NEEDS_GPU,
    "pretuned check --drift": NEEDS_GPU,
    "pretuned tune --on host --budget 60": "takes a minute; .ci/run does it",
    "pretuned check --execute": "takes 50 seconds; shorter ones are run",
    "pretuned check --execute --sample 2": "takes 50 seconds; tests/end_to_end/test_gallery.py does it",
    "pretuned check --sanitize --sample 8": "takes minutes; .ci/run does it",
    "pretuned show": NEEDS_FILES,
    "git show HEAD:pretuned.lock.json > before.json": NEEDS_FILES,
    "pretuned show before.json": NEEDS_FILES,
    "git show origin/main:pretuned.lock.json > before.json": NEEDS_FILES,
    "pretuned report --markdown --against before.json": NEEDS_FILES,
    "pretuned show --on host": NEEDS_FILES,
    "git show :2:./pretuned.lock.json > ours.json": NEEDS_FILES,
    "git show :3:./pretuned.lock.json > theirs.json": NEEDS_FILES,
    "pretuned merge ours.json theirs.json -o pretuned.lock.json": NEEDS_FILES,
    "pretuned merge h100.json h200.json": NEEDS_FILES,
    "pretuned prune --device 'NVIDIA L4'": NEEDS_FILES,
    "pretuned inspect quickstart-0.1.0-py3-none-any.whl": NEEDS_FILES,
    "git config merge.pretuned.driver 'pretuned merge %A %B -o %A'": "configures Git; tests/cli runs the driver",
}

PROJECT = """[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "mypkg"
version = "0.1.0"
requires-python = ">=3.11"
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PRETUNED_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, "PRETUNED_CACHE_DIR": str(cache), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}


class Sandboxes:
    """The folders in which the blocks of one page run: one that the page fills itself, and copies of projects."""

    def __init__(self, folder, environment):
        self.folder, self.environment = folder, environment

    def of(self, name):
        place = self.folder / name
        if place.exists():
            return place
        if name == "page":
            place.mkdir()
        elif name in ("init", "t1"):
            (place / "src" / "mypkg").mkdir(parents=True)
            (place / "src" / "mypkg" / "__init__.py").touch()
            (place / "pyproject.toml").write_text(PROJECT)
            if name == "t1":
                shutil.copy(ROOT / "tests" / "data" / "benchmark_hub" / "convolution_T1.json", place)
                return place
            subprocess.run(["pretuned", "init"], cwd=place, env=self.environment, check=True, capture_output=True)
        else:
            shutil.copytree(ROOT / name, place, ignore=shutil.ignore_patterns("tuned", "dist"))
        return place


@pytest.mark.parametrize("page", [page for page in PAGES if any(b.language == "console" for b in blocks(page))])
def test_console_blocks_print_what_the_page_shows(page, tmp_path, environment):
    sandboxes = Sandboxes(tmp_path, environment)
    for block in blocks(page):
        kind, value = block.note or ("sandbox", "page")
        if kind == "file":
            file = sandboxes.of("page") / value
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text)
        if block.language != "console":
            continue
        for command in commands(block):
            if command.text in NOT_RUN:
                continue
            done = subprocess.run(
                ["bash", "-c", command.line],
                cwd=sandboxes.of(value),
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=120,
            )
            if command.output:
                assert matches(command.output, done.stdout), f"{block}: $ {command.line}\n{done.stdout}"
            else:
                assert done.returncode == 0, f"{block}: $ {command.line}\n{done.stdout}"


def test_commands_stand_in_console_blocks():
    assert [str(block) for language in ("sh", "bash", "shell") for block in in_language(language)] == []


def test_commands_that_are_not_run_are_parsed():
    for block in in_language("console"):
        for command in commands(block):
            if command.text in NOT_RUN and command.words[0] == "pretuned":
                parser().parse_args(command.words[1:])  # which exits where an option does not exist


def test_the_list_of_what_is_not_run_holds_nothing_else():
    shown = {command.text for block in in_language("console") for command in commands(block)}
    assert NOT_RUN.keys() <= shown
