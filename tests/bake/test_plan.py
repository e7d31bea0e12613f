"""What ships, and what is compiled for whom."""

import dataclasses
import re

import pytest

import attributed
import sample
from pretuned.bake.plan import plan
from pretuned.errors import BakeError
from pretuned.spec.loader import load_folder
from pretuned.spec.space import Configuration, default


def shipped(found, kernel):
    (one,) = [k for k in found.kernels if k.spec.name == kernel]
    return {(s.specialisation, str(s.configuration)) for s in one.shipped}


def architectures(found, kernel, specialisation, configuration):
    (one,) = [k for k in found.kernels if k.spec.name == kernel]
    (entry,) = [
        s for s in one.shipped if (dict(s.specialisation), str(s.configuration)) == (specialisation, configuration)
    ]
    return [architecture for module, architecture in found.jobs if module.key == entry.source.key]


FLOAT = {"T": "float32", "relu": False}


def test_without_rows_only_defaults_ship():
    found = plan(sample.specs(), [], {})
    assert {text for _, text in shipped(found, "affine")} == {"block=128, vec=1"}
    assert len(shipped(found, "affine")) == 4
    assert {architecture for _, architecture in found.jobs} == {"compute_80"}


def test_winners_are_compiled_for_their_device_and_defaults_for_all():
    found = plan(sample.specs(), sample.rows(), sample.DEVICES, architectures=["sm_100"])
    assert architectures(found, "affine", FLOAT, "block=64, vec=2") == ["sm_90"]
    assert architectures(found, "affine", FLOAT, "block=1024, vec=1") == ["sm_80"]
    assert architectures(found, "affine", FLOAT, "block=128, vec=1") == ["compute_80", "sm_100", "sm_80", "sm_90"]
    assert architectures(found, "accumulate", {"lanes": 2}, "atomic: block=256")[0] == "compute_80"


def test_ptx_is_for_the_oldest_architecture_that_is_wanted():
    found = plan(sample.specs(), [], {}, architectures=["sm_100", "sm_90"])
    assert {architecture for _, architecture in found.jobs} == {"sm_90", "sm_100", "compute_90"}


def test_no_job_is_done_twice():
    found = plan(sample.specs(), sample.rows() * 2, sample.DEVICES)
    keys = [(module.key, architecture) for module, architecture in found.jobs]
    assert len(keys) == len(set(keys))


def test_what_was_asked_for_ships_for_every_specialisation_and_architecture():
    wanted = Configuration(implementation="main", values=(("block", 64), ("vec", 4)))
    found = plan(sample.specs(), sample.rows(), sample.DEVICES, extra=[("affine", wanted)])
    assert len([text for _, text in shipped(found, "affine") if text == "block=64, vec=4"]) == 4
    assert architectures(found, "affine", FLOAT, "block=64, vec=4") == ["sm_80", "sm_90"]


def test_without_cubins_there_is_nothing_to_compile():
    assert plan(sample.specs(), sample.rows(), sample.DEVICES, cubins=False).jobs == ()


def arch_specific(tmp_path):
    for file in (sample.GOLDEN / "specs").glob("affine*"):
        (tmp_path / file.name).write_text(file.read_text())
    text = (tmp_path / "affine.toml").read_text()
    (tmp_path / "affine.toml").write_text(text + "\n[compile]\narch-specific = true\n")
    return {"affine": load_folder(tmp_path)["affine"]}


def test_modules_for_one_architecture_have_no_ptx_and_need_the_suffix(tmp_path):
    rows = [row for row in sample.rows() if row.kernel == "affine"]
    found = plan(arch_specific(tmp_path), rows, sample.DEVICES, architectures=["sm_90", "sm_100"])
    assert {architecture for _, architecture in found.jobs} == {"sm_90a", "sm_100a"}


def test_rows_at_sizes_that_the_spec_no_longer_has_are_left_out():
    (row, *_) = sample.rows()
    moved = dataclasses.replace(row, problem=dataclasses.replace(row.problem, dims=(("cols", 63), ("rows", 16))))
    assert plan(sample.specs(), [moved], sample.DEVICES).kernels[1].rows == ()


def test_the_default_comes_first_of_each_specialisation():
    for kernel in plan(sample.specs(), sample.rows(), sample.DEVICES).kernels:
        first = {}
        for entry in kernel.shipped:
            first.setdefault(entry.specialisation, entry.configuration)
        assert set(first.values()) == {default(kernel.spec)}


def bad(**values):
    return Configuration(implementation="main", values=tuple(sorted(values.items())))


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (("afine", bad(block=64)), "--with names the kernel 'afine', which is not one of accumulate, affine"),
        (
            ("affine", bad(block=65, vec=1)),
            "--with of affine names block=65, vec=1, which is not in the space of affine.toml",
        ),
        (("affine", bad(block=64)), "--with of affine names block=64, which is not in the space of affine.toml"),
        (("affine", bad(block=64, vec=True)), "--with of affine names block=64, vec=true, which is not in the space"),
        (
            ("accumulate", bad(block=128)),
            "--with of accumulate names the implementation 'main'; there are atomic, staged",
        ),
    ],
)
def test_an_extra_that_the_spec_does_not_admit(extra, message):
    with pytest.raises(BakeError, match=re.escape(message)):
        plan(sample.specs(), [], {}, extra=[extra])


def test_an_extra_that_no_specialisation_admits(tmp_path):
    for file in (sample.GOLDEN / "specs").glob("affine*"):
        (tmp_path / file.name).write_text(file.read_text().replace('"vec * sizeof(T) <= 16"', '"vec * sizeof(T) <= 4"'))
    specs = load_folder(tmp_path)
    with pytest.raises(BakeError, match=r"--with affine: block=64, vec=4 is legal for no specialisation"):
        plan(specs, [], {}, extra=[("affine", bad(block=64, vec=4))])
    assert len(plan(specs, [], {}, extra=[("affine", bad(block=64, vec=2))]).kernels[0].shipped) == 4 + 2


def test_a_row_of_an_unknown_device_or_outside_the_space():
    (row, *_) = sample.rows()
    with pytest.raises(BakeError, match="rows name the device 'NVIDIA H100 80GB HBM3', of which nothing is known"):
        plan(sample.specs(), [row], {})
    outside = dataclasses.replace(row, choices=(sample.choice(1.0, block=96, vec=1),))
    with pytest.raises(
        BakeError, match=r"a row or a selection of affine names block=96, vec=1, which is not in the space"
    ):
        plan(sample.specs(), [outside], sample.DEVICES)


def test_an_architecture_that_is_none():
    with pytest.raises(BakeError, match=r"'hopper' is not an architecture; write sm_80, sm_90, \.\.\."):
        plan(sample.specs(), [], {}, architectures=["hopper"])


def selected(*choices):
    (one,) = sample.selections()
    return dataclasses.replace(one, choices=tuple(choices) or one.choices)


def test_what_a_selection_names_ships_for_its_device():
    found = plan(sample.specs(), [], sample.DEVICES, selections=[selected()])
    relu = {"T": "float32", "relu": True}
    assert architectures(found, "affine", relu, "block=64, vec=4") == ["sm_90"]
    assert {text for of, text in shipped(found, "affine") if dict(of) == relu} == {
        "block=128, vec=1",
        "block=64, vec=1",
        "block=64, vec=4",
    }
    assert [device.name for device in found.devices] == [sample.H100.name]


@pytest.mark.parametrize(
    ("term", "message"),
    [
        ("cols ** 9", "block=64, vec=4: the term 'cols ** 9' is not a cost over cols, rows"),
        ("n", "block=64, vec=4: the term 'n' is not a cost over cols, rows"),
    ],
)
def test_a_selection_whose_costs_cannot_be_written(term, message):
    first, *others = selected().choices
    spoilt = selected(dataclasses.replace(first, cost=((term, 1),)), *others)
    with pytest.raises(BakeError, match=re.escape(f"the selection of affine on {sample.H100.name}, {message}")):
        plan(sample.specs(), [], sample.DEVICES, selections=[spoilt])


def test_a_selection_that_does_not_end_with_the_default():
    first, *_, default = selected().choices
    with pytest.raises(BakeError, match="does not end with the default; tune affine again"):
        plan(sample.specs(), [], sample.DEVICES, selections=[selected(default, first)])


@pytest.mark.parametrize(
    ("launch", "names", "wanted"),
    [
        ('cluster = ["size"]', ["sm_80", "sm_90", "sm_100"], ["compute_80", "sm_100", "sm_80", "sm_90"]),
        ("cluster = [2]", ["sm_80", "sm_90", "sm_100"], ["compute_90", "sm_100", "sm_90"]),
        ("cluster = [2]", ["sm_100"], ["compute_100", "sm_100"]),
        ("cluster = [2]", [], ["compute_90"]),
        ("cooperative = true", [], ["compute_80"]),
    ],
)
def test_clusters_are_compiled_for_what_has_them(tmp_path, launch, names, wanted):
    wide = attributed.spec(tmp_path, launch, grid="2 * ceil_div(n, 512)")
    found = plan({"wide": wide}, [], {}, architectures=names)
    assert sorted(architecture for _, architecture in found.jobs) == wanted
