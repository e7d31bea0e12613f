"""A project's own headers: part of the key, of the lock's freshness, of the sdist, and of what ships."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from builders import H100, rows
from pretuned.build import core
from pretuned.compile import host, nvrtc
from pretuned.compile.result import Binary
from pretuned.config import read_settings
from pretuned.device import probe
from pretuned.errors import SpecError
from pretuned.frontends.registry import load_project
from pretuned.outcome import CompileError
from pretuned.record import lock as lockfile
from pretuned.record.freshness import FreshnessJudge
from pretuned.record.lock import Lock
from pretuned.render import candidate
from pretuned.spec import space
from reported import Reported
from specs import SCALE_TEMPLATE, faults, loaded, write

TEMPLATE = '#include <cuda_fp16.h>\n#include "load/factor.cuh"\n' + SCALE_TEMPLATE.replace(
    "a * static", "FACTOR * a * static"
)
HEADERS = {
    "include/load/factor.cuh": '#pragma once\n#include "step.cuh"  // beside this one\n#define FACTOR (STEP * 2.0f)\n',
    "include/load/step.cuh": "#pragma once\n#define STEP 1.5f\n",
    "include/unused.cuh": "#define UNUSED 1\n",
}
COMPILE = ("[constraints]", '[compile]\ninclude = ["../include"]\n\n[constraints]')
STEP = HEADERS["include/load/step.cuh"]


def project_in(root):
    for name, text in HEADERS.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "kernels").mkdir()
    (root / "pyproject.toml").write_text('[tool.hatch.build.hooks.pretuned]\nmodule = "demo/tuned"\n')
    return root, spec_of(root)


def spec_of(root):
    return loaded(root / "kernels", COMPILE, template=TEMPLATE)


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("PRETUNED_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(probe, "gpus", lambda given=None: ())
    monkeypatch.setattr(probe, "driver", lambda given=None: None)
    return project_in(tmp_path / "one")


def source(spec):
    return candidate(spec, next(iter(space.specialisations(spec))), space.default(spec)).source


def key(root):
    return source(spec_of(root)).key


def test_what_is_included_decides_the_key_wherever_it_lies(project, tmp_path):
    root, spec = project
    found = source(spec)
    assert [header.name for header in found.headers] == ["include/load/factor.cuh", "include/load/step.cuh"]
    assert "#include <include/load/factor.cuh>" in found.text
    assert key(project_in(tmp_path / "another" / "place")[0]) == found.key
    for file, text, same in (
        ("unused.cuh", "#define UNUSED 2\n", True),
        ("load/step.cuh", f"// reworded\n{STEP}", True),
        ("load/step.cuh", STEP.replace("1.5f", "2.5f"), False),
        ("load/factor.cuh", "#define FACTOR 3.0f\n", False),
    ):
        before = (root / "include" / file).read_text()
        (root / "include" / file).write_text(text)
        assert (key(root) == found.key) == same, file
        (root / "include" / file).write_text(before)
    (root / "kernels" / "load").mkdir()
    (root / "kernels" / "load" / "factor.cuh").write_text("#define FACTOR 1.0f\n")
    assert key(root) != found.key, "beside the template, a header goes before those of folders"


def test_a_header_edited_is_compiled_anew_and_its_rows_are_stale(project):
    root, spec = project
    fresh = [replace(row, headers=tuple(source(spec).header_digests.items())) for row in rows(spec)]
    lockfile.write(root / "pretuned.lock.json", Lock().updated({H100.name: H100}, fresh))

    def bake():
        (package,) = core.bake_project(load_project(root), read_settings(), Reported())
        return b"".join(data for name, data in sorted(package.files.items()) if name.endswith(".ptx"))

    before = bake()
    assert b"0f40400000" in before, "1.5 * 2"
    (root / "include/load/step.cuh").write_text(STEP.replace("1.5f", "2.5f"))
    after = bake()
    assert b"0f40A00000" in after, "2.5 * 2"
    assert b"0f40400000" not in after
    judge = FreshnessJudge(spec_of(root))
    assert {judge.judge(row).reason for row in lockfile.read(root / "pretuned.lock.json").rows} == {
        "the header include/load/step.cuh has changed"
    }


def test_the_lock_keeps_the_digests_of_headers(project):
    _, spec = project
    (row, *_) = rows(spec)
    row = replace(row, headers=(("include/a.cuh", "d" * 32),))
    text = lockfile.dumps(Lock().updated({H100.name: H100}, [row]))
    assert lockfile.loads(json.loads(text), "lock").rows == (row,)


def test_an_error_in_a_header_has_its_name_and_line(project):
    root, _ = project
    (root / "include/load/step.cuh").write_text("#pragma once\n__device__ float step() { return nowhere; }\n")
    one = source(spec_of(root))
    result = nvrtc.compile_source(one, "sm_90")
    assert result == CompileError(line='include/load/step.cuh(2): error: identifier "nowhere" is undefined')
    if host.compiler() is not None:
        result = host.compile_source(one, host.HOST)
        assert isinstance(result, CompileError)
        assert result.line.startswith("include/load/step.cuh:2:")


@pytest.mark.skipif(host.compiler() is None, reason="no C++ compiler here")
def test_the_host_device_finds_headers_and_what_in_them_is_for_gpus(project):
    root, spec = project
    assert isinstance(host.compile_source(source(spec), host.HOST), Binary)
    (root / "include/load/step.cuh").write_text('#define STEP 1.f\n__device__ void stop() { asm("trap;"); }\n')
    result = host.compile_source(source(spec_of(root)), host.HOST)
    assert result == CompileError(line="include/load/step.cuh:2: for GPUs only: inline PTX")


RECOMPILE = """
import sys
sys.path.insert(0, {root!r})
from types import SimpleNamespace as Facts
from demo import tuned
from demo.tuned._runtime import binaries, recompile
from demo.tuned._runtime.records import binaries_of
(name, *_), table = sorted(tuned._BINARIES), tuned._BINARIES
found = binaries_of(table, {{name}})[name]
headers = {{key: binaries._read(file) for key, file in found.headers.items()}}
image, compiled = recompile.recompiled(binaries._read(name + ".cu"), headers, found, Facts(compute_capability=80))
print(sorted(headers), image[:4], compiled)
print(recompile.recompiled(binaries._read(name + ".cu"), headers, found, Facts(compute_capability=80))[1])
"""


def test_what_ships_compiles_without_the_project(project):
    root, _ = project
    (package,) = core.bake_project(load_project(root), read_settings(), Reported())
    elsewhere = root.parent / "installed"
    for name, content in package.files.items():
        file = elsewhere / "demo" / "tuned" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    command = [sys.executable, "-c", RECOMPILE.format(root=str(elsewhere))]
    done = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True, check=False)
    assert done.stdout == ("['include/load/factor.cuh', 'include/load/step.cuh'] b'\\x7fELF' True\nFalse\n"), (
        done.stderr
    )


def test_an_sdist_carries_the_folders(project):
    root, _ = project
    listed = {file.relative_to(root).as_posix() for file in core.sources(load_project(root))}
    assert listed >= set(HEADERS)


@pytest.mark.parametrize(
    ("folder", "where"), [("../../elsewhere", "lies outside the project"), ("..", "is the project itself")]
)
def test_a_folder_that_no_sdist_can_carry_is_refused(project, folder, where):
    root, _ = project
    (root.parent / "elsewhere").mkdir()
    write(root / "kernels", (root / "kernels/scale.toml").read_text().replace("../include", folder), template=TEMPLATE)
    with pytest.raises(SpecError) as error:
        core.load_specs(load_project(root))
    assert f"scale.toml: compile.include: '{folder}' {where}" in str(error.value)


@pytest.mark.parametrize(
    ("compile_table", "message"),
    [
        (
            'options = ["-I../include"]',
            (
                "compile.options[0]: '-I../include' would leave headers out of keys and sdists; "
                'write `include = ["../include"]` in [compile], a folder relative to the spec'
            ),
        ),
        (
            'options = ["--include-path=/opt/include"]',
            (
                "compile.options[0]: '--include-path=/opt/include' would leave headers out of keys and sdists; "
                'write `include = ["include"]` in [compile], a folder relative to the spec'
            ),
        ),
        (
            'options = ["-isystem", "include"]',
            (
                "compile.options[0]: '-isystem' would leave headers out of keys and sdists; "
                'write `include = ["include"]` in [compile], a folder relative to the spec'
            ),
        ),
        (
            'options = ["-include=mine.h"]',
            "compile.options[0]: '-include=mine.h' is read by no build elsewhere; write `#include` into the template",
        ),
        ('include = ["headers"]', "compile.include[0]: there is no folder 'headers'; did you mean \"../headers\"?"),
        (
            'include = ["nowhere"]',
            "compile.include[0]: there is no folder 'nowhere'; paths are relative to the spec's folder",
        ),
        ('include = ["scale.toml"]', "compile.include[0]: 'scale.toml' is a file; name the folder that it lies in"),
        (
            'include = ["/usr/include"]',
            (
                "compile.include[0]: '/usr/include' is absolute; write a path relative to the spec's folder, "
                'as in "include" or "../include"'
            ),
        ),
        ('include = [".", "./"]', "compile.include[1]: './' is listed twice; remove one"),
    ],
)
def test_what_cannot_be_included_is_said_by_check(tmp_path, compile_table, message):
    (tmp_path / "headers").mkdir()
    (tmp_path / "kernels").mkdir()
    table = ("[constraints]", f"[compile]\n{compile_table}\n\n[constraints]")
    assert faults(tmp_path / "kernels", table) == [f"scale.toml: {message}"]
