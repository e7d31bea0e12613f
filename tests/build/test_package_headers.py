"""Headers of an installed package: found by its distribution's name, part of the key, not of the sdist."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace

import pytest

from builders import H100, rows
from pretuned.build import core
from pretuned.compile import nvrtc
from pretuned.compile.gpu_only import GPU_ONLY
from pretuned.compile.host import HOST, compile_source, compiler
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
from pretuned.spec.packages import PackageError, package_folder
from reported import Reported
from specs import SCALE_TEMPLATE, faults, loaded

TEMPLATE = "#include <cuda_fp16.h>\n#include <steps/factor.cuh>\n" + SCALE_TEMPLATE.replace(
    "a * static", "FACTOR * a * static"
)
HEADERS = {
    "steps/factor.cuh": '#pragma once\n#include "step.cuh"\n#define FACTOR (STEP * 2.0f)\n',
    "steps/step.cuh": "#pragma once\n#define STEP 1.5f\n",
    "steps/unused.cuh": "#define UNUSED 1\n",
}
INCLUDE = "package:Step-Headers/step_headers/include"
COMPILE = ("[constraints]", f'[compile]\ninclude = ["{INCLUDE}"]\n\n[constraints]')


def install(site, headers=HEADERS, version="1.2"):
    """Write what `pip install` does of a package of headers."""
    for name, text in headers.items():
        file = site / "step_headers" / "include" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    facts = site / f"step_headers-{version}.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: step-headers\nVersion: {version}\n")
    (facts / "RECORD").write_text("".join(f"step_headers/include/{name},,\n" for name in headers))
    return site


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    monkeypatch.syspath_prepend(str(folder))
    install(folder)
    importlib.invalidate_caches()
    return folder


@pytest.fixture
def project(tmp_path, monkeypatch, site):
    monkeypatch.setenv("PRETUNED_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(probe, "gpus", lambda given=None: ())
    monkeypatch.setattr(probe, "driver", lambda given=None: None)
    root = tmp_path / "project"
    (root / "kernels").mkdir(parents=True)
    (root / "pyproject.toml").write_text('[tool.hatch.build.hooks.pretuned]\nmodule = "demo/tuned"\n')
    spec_of(root / "kernels")  # written there
    return root


def spec_of(folder, table=COMPILE):
    return loaded(folder, table, template=TEMPLATE)


def source(spec):
    return candidate(spec, next(iter(space.specialisations(spec))), space.default(spec)).source


def test_what_is_included_of_it_is_in_the_key_and_compiles(tmp_path, site):
    found = source(spec_of(tmp_path))
    assert [(header.name, header.package) for header in found.headers] == [
        ("Step-Headers/steps/factor.cuh", "Step-Headers"),
        ("Step-Headers/steps/step.cuh", "Step-Headers"),
    ]
    assert list(found.header_digests) == ["package:Step-Headers"], "one digest, however many headers"
    assert isinstance(nvrtc.compile_source(found, "sm_90"), Binary)
    if compiler() is not None:
        assert isinstance(compile_source(found, HOST), Binary)


def test_another_version_of_it_changes_the_key_where_what_is_included_differs(tmp_path, monkeypatch):
    keys = []
    for number, (name, text) in enumerate([("unused", "1"), ("unused", "2"), ("step", "#define STEP 2.5f\n")]):
        site = install(tmp_path / f"site{number}", HEADERS | {f"steps/{name}.cuh": text}, version=f"1.{number}")
        monkeypatch.syspath_prepend(str(site))
        keys.append(source(spec_of(tmp_path)).key)
    assert keys[0] == keys[1] != keys[2]


def test_own_headers_come_first(tmp_path, site):
    (tmp_path / "include" / "steps").mkdir(parents=True)
    (tmp_path / "include" / "steps" / "factor.cuh").write_text("#define FACTOR 1.0f\n")
    both = (COMPILE[0], COMPILE[1].replace("[compile]\ninclude = [", '[compile]\ninclude = ["include", '))
    assert [header.name for header in source(spec_of(tmp_path, both)).headers] == ["include/steps/factor.cuh"]


def test_a_package_that_is_installed_in_place_is_found(tmp_path, monkeypatch, site):
    elsewhere = tmp_path / "checkout"
    elsewhere.mkdir()
    (site / "step_headers").rename(elsewhere / "step_headers")
    monkeypatch.syspath_prepend(str(elsewhere))
    importlib.invalidate_caches()
    assert len(source(spec_of(tmp_path)).headers) == 2


def test_it_ships_is_in_no_sdist_and_makes_rows_stale(project, site):
    spec = spec_of(project / "kernels")
    fresh = [replace(row, headers=tuple(source(spec).header_digests.items())) for row in rows(spec)]
    lockfile.write(project / "pretuned.lock.json", Lock().updated({H100.name: H100}, fresh))
    opened = load_project(project)
    assert not any(site in file.parents for file in core.sources(opened))
    (package,) = core.bake_project(opened, read_settings(), Reported())
    assert {name.partition("-")[0] for name in package.files if "/include/" in name} == {
        "kernels/include/factor",
        "kernels/include/step",
    }
    other = install(site.parent / "other", HEADERS | {"steps/step.cuh": "#define STEP 2.5f\n"}, version="1.3")
    sys.path.insert(0, str(other))
    try:
        judge = FreshnessJudge(spec_of(project / "kernels"))
        reasons = {judge.judge(row).reason for row in lockfile.read(project / "pretuned.lock.json").rows}
    finally:
        sys.path.remove(str(other))
    assert reasons == {"headers of Step-Headers have changed"}


@pytest.mark.parametrize(
    ("include", "message"),
    [
        (
            "package:step-heads/include",
            (
                "step-heads is not installed here; `pip install step-heads`, and add "
                '"step-heads" to `requires` of [build-system] in pyproject.toml, since builds are isolated'
            ),
        ),
        (
            "package:step-headers",
            "step-headers 1.2 has no folder ''; write \"package:step-headers/step_headers/include\"",
        ),
        (
            "package:step-headers/include",
            "step-headers 1.2 has no folder 'include'; write \"package:step-headers/step_headers/include\"",
        ),
        (
            "package:Nvidia_CUDA-CCCL/nvidia/cu13/include/cccl",
            "CUDA's own headers are found without being named; remove it",
        ),
        *(
            (
                f"package:{name}",
                'write "package:DISTRIBUTION/FOLDER", as in "package:nvidia-cutlass/cutlass_library/source/include"',
            )
            for name in ("", "/usr/include", "step-headers/../..", "step-headers//usr/include")
        ),
    ],
)
def test_what_is_not_there_is_refused_with_what_to_write(tmp_path, site, include, message):
    table = (COMPILE[0], COMPILE[1].replace(INCLUDE, include))
    assert faults(tmp_path, table) == [f"scale.toml: compile.include[0]: '{include}': {message}"]


@pytest.mark.parametrize(
    "folder", ["a\0b", "step_headers.include/x", "no/such", ".", "step_headers/include/steps/step.cuh"]
)
def test_an_odd_folder_is_not_there(tmp_path, site, folder):
    with pytest.raises(PackageError, match=r"step-headers 1\.2 has no folder"):
        package_folder(f"package:step-headers/{folder}")


@pytest.mark.parametrize("name", ["a b", "a\0b", "é", "-", "step_headers-1.2", "[x]", "step-headers==1.2"])
def test_an_odd_distribution_is_not_installed(tmp_path, site, name):
    with pytest.raises(PackageError, match="is not installed here"):
        package_folder(f"package:{name}/include")


def test_a_build_without_it_says_what_to_require(project, monkeypatch, site):
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(site)])
    with pytest.raises(SpecError, match=r'add "Step-Headers" to `requires` of \[build-system\]'):
        core.load_specs(load_project(project))


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")
def test_cutlass_is_for_gpus_wherever_its_headers_lie(tmp_path, site):
    cute = site / "step_headers" / "include" / "cute"
    cute.mkdir()
    (cute / "tensor.hpp").write_text("#include <cuda_runtime_api.h>\n")
    spec = loaded(tmp_path, COMPILE, template=TEMPLATE.replace("steps/factor.cuh", "cute/tensor.hpp"))
    result = compile_source(source(spec), HOST)
    assert result == CompileError(line=f"kernel.cu:2: {GPU_ONLY}: <Step-Headers/cute/tensor.hpp>")
