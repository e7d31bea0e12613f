"""What a binary takes against what a launch passes: kernels that are wrong, and sound ones that look unusual."""

from __future__ import annotations

import contextlib
import re
import struct
import subprocess

import pytest

from documents import ROOT
from kernel_folders import bundled
from pretuned.build.contract import compare, compare_specs, interfaces
from pretuned.compile.contract import breach, launched, probe
from pretuned.compile.entries import entry_points
from pretuned.compile.pool import CompilePool, compile_all
from pretuned.compile.result import Binary
from pretuned.errors import SpecError
from pretuned.outcome import CompileError
from pretuned.record.cache import Cache
from pretuned.render import Source, located, source_of
from pretuned.spec import space
from pretuned.spec.loader import load
from pretuned.tune.binaries import BinaryStore
from pretuned.tune.spending import Spending
from wrong_kernels import GRID_BARRIER, SOUND, WRONG, write

PTX, SM_90, SM_90A, TYPES = "compute_80", "sm_90", "sm_90a", "compute_80 with types"
BINARIES = (PTX, SM_90, SM_90A)
SHARED = "80,000 bytes of static shared memory"

# What a binary says in place of a type: sizes in a cubin, and kinds besides in PTX.
IN_PTX = {"int64": "an integer of 64 bits or a pointer", "int32": "an integer of 32 bits"}
IN_CUBIN = {"int64": "8 bytes", "int32": "4 bytes", "float32": "4 bytes", "float64": "8 bytes"}
# What takes as many bytes as it should: the types tell it alone, or PTX too.
BLIND = {name: BINARIES for name, wrong in WRONG.items() if wrong.typed} | {"int for float": (SM_90, SM_90A)}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Specs and sources by name, and binaries by source and architecture."""
    texts = {name: wrong.text for name, wrong in WRONG.items()}
    texts |= {name: f"{head} {{}}\n// {{{{ block }}}}" for name, head in SOUND.items()}
    specs, sources, jobs = {}, {}, []
    for number, (name, text) in enumerate(texts.items()):
        specs[name] = load(write(tmp_path_factory.mktemp("kernels") / str(number), text))
        source = sources[name] = source_of(specs[name], (), space.default(specs[name]))
        jobs += [(probe(source), PTX), *((source, architecture) for architecture in BINARIES)]
    with CompilePool() as pool:
        binaries = {(source.key, architecture): made for (source, architecture), made in pool.compile(jobs)}
    return specs, sources, binaries


def said(compiled, name, architecture):
    specs, sources, binaries = compiled
    spec, source = specs[name], sources[name]
    made = binaries[probe(source).key, PTX] if architecture == TYPES else binaries[source.key, architecture]
    if not isinstance(made, Binary):
        return made
    found = breach(source, launched(spec, (), "main"), made.image)
    return None if found is None else located(spec, (), space.default(spec), found.message)


@pytest.mark.parametrize("architecture", [*BINARIES, TYPES])
@pytest.mark.parametrize("name", [name for name in WRONG if name != SHARED])
def test_a_kernel_that_does_not_take_what_is_passed_is_refused(compiled, name, architecture):
    words = {PTX: IN_PTX, TYPES: {}}.get(architecture, IN_CUBIN)
    wanted = re.sub(r" as (\w+);", lambda match: f" as {words.get(match[1], match[1])};", WRONG[name].message)
    assert said(compiled, name, architecture) == (None if architecture in BLIND.get(name, ()) else wanted)


@pytest.mark.parametrize("architecture", [PTX, TYPES])
def test_static_shared_memory_over_the_limit_is_found_without_an_assembler(compiled, architecture):
    assert said(compiled, SHARED, architecture) == WRONG[SHARED].message
    assert "uses too much shared data" in said(compiled, SHARED, SM_90).line


@pytest.mark.parametrize("name", SOUND)
def test_what_programmers_write_on_purpose_is_accepted(compiled, name):
    assert [said(compiled, name, architecture) for architecture in BINARIES] == [None] * 3
    typed = said(compiled, name, TYPES)
    if name in {"beside an overload", "in a namespace"}:
        assert isinstance(typed, CompileError)  # whose types stay unknown
    else:
        assert typed is None


@pytest.mark.parametrize("typed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_barrier_of_the_whole_grid_is_refused(tmp_path, typed):
    spec = load(write(tmp_path, GRID_BARRIER.text))
    source = source_of(spec, (), space.default(spec))
    asked = probe(source) if typed else source
    made = compile_all([asked], PTX)[asked.key]
    found = breach(source, launched(spec, (), "main"), made.image)
    assert located(spec, (), space.default(spec), found.message) == GRID_BARRIER.message


LARGE = """\
struct Table { char bytes[5000]; };
extern "C" __global__ void axpy(float* out, Table table, bool b, int i, short s) { out[i] = table.bytes[s] + b; }
extern "C" __global__ void none() {}
"""


@pytest.mark.parametrize("architecture", ["compute_80", "sm_75", "sm_90", "sm_90a", "sm_100", "sm_120a"])
def test_sizes_of_all_kinds_of_parameters_are_read(architecture):
    """More than 4 KB of parameters are listed in another way in a cubin."""
    source = Source(text=LARGE, options=(), functions=("axpy", "none"))
    entries = entry_points(compile_all([source], architecture)[source.key].image)
    assert [taken.bits // 8 for taken in entries["axpy"].taken] == [8, 5000, 1, 4, 2]
    assert entries["none"].taken == ()


def test_parameters_that_a_cubin_lists_in_an_unknown_way_are_accepted(compiled):
    """As a later compiler may: the total does not fit what was found."""
    specs, sources, binaries = compiled
    image = binaries[sources["parameter missing"].key, SM_90].image
    listed = struct.pack("<BBH", 4, 0x17, 12)
    assert image.count(listed) == 3
    other = image.replace(listed, struct.pack("<BBH", 4, 0x7F, 12))
    assert entry_points(other)["axpy"].taken is None
    assert breach(sources["parameter missing"], launched(specs["parameter missing"], (), "main"), other) is None


def test_an_image_that_says_nothing_of_itself_is_accepted(compiled):
    specs, sources, _ = compiled
    for image in (b"", b"made up", b"\x7fELF", b"\x7fELF" + bytes(200), b".version 9.0\n.visible .entry axpi("):
        name = "parameter missing"
        found = breach(sources[name], launched(specs[name], (), "main"), image)
        assert found is None or "axpy" in found.message


def specs_here():
    """Every sound spec of this repository by its place: bundled, examples, documentation and tests."""
    listed = subprocess.run(["git", "ls-files", "*.toml"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        if (ROOT / name).with_suffix(".cu.jinja").is_file() or "format = 1" in (ROOT / name).read_text():
            with contextlib.suppress(SpecError):  # it belongs to a test of wrong ones
                yield name, load(ROOT / name)


@pytest.mark.slow
def test_no_kernel_of_this_repository_is_refused(tmp_path):
    """Kernels of all kinds: half precision, vectors, scratch, several launches, planted mistakes of other sorts."""
    specs = dict(specs_here())
    assert len(specs) > 15
    found = compare_specs(specs.values(), tmp_path)
    assert found.faults == {}
    assert found.unknown == {}


def test_no_bundled_kernel_is_refused_for_one_type(tmp_path):
    specs = bundled()
    subjects = {subject.key: subject for subject in interfaces(specs.values()) if "float16" not in str(subject)}
    with Cache(tmp_path) as cache, BinaryStore(cache, Spending()) as binaries:
        found = compare(subjects.values(), binaries)
    assert (found.faults, found.unknown) == ({}, {})
