"""`pretuned check`: fresh or not, and why, by kernel; the status is 0 exactly where mode locked takes the lock."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from builders import H100, selections
from pretuned.build import table
from pretuned.build.freshness import Freshness
from pretuned.cli import main
from pretuned.config import Place, read_settings
from pretuned.errors import LockError
from pretuned.frontends.registry import load_project
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.tune.request import TuningDevice
from project_home import TABLE, Home
from reported import Reported
from specs import SCALE_TEMPLATE, loaded

LINE = "scale   NVIDIA H100 80GB HBM3     {}  {}  {}"


@pytest.fixture
def home(tmp_path, monkeypatch, capsys, compiled):
    found = Home(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("PRETUNED_CACHE_DIR", str(compiled))
    return found


def states(home):
    """Rows in each of the states."""
    stale, incomplete, unverified, missing = home.rows()
    return {
        "stale": replace(stale, choices=(replace(stale.winner, candidate="of yesterday"), stale.default)),
        "incomplete": replace(incomplete, space="of yesterday"),
        "unverified": replace(unverified, verification="of yesterday"),
        "missing": None,
        "fresh": missing,
    }


def selected(home, *rules):
    """Write a lock of fresh rows, and of selections."""
    home.write(home.rows())
    lockfile.write(home.lock, home.read().updated({}, selections=rules))


def losing(home, mean):
    """Selections of which the first is certified to lose so much on average."""
    first, *others = selections(home.spec)
    inside = replace(first.certificate.inside, mean=mean)
    return [replace(first, certificate=replace(first.certificate, inside=inside)), *others]


@pytest.mark.parametrize(("table", "status"), [("", 0), ("max-loss = 0.04\n", 0), ("max-loss = 0.02\n", 4)])
def test_selections_are_held_to_max_loss_as_locked_holds_them(home, table, status):
    (home.root / "pyproject.toml").write_text(TABLE + table)
    selected(home, *losing(home, 0.031))
    found, out, _ = home.run("check")
    assert (found == 0) == (status == 0) == locked_takes(home)
    certified, last = out.splitlines()[-2:]
    assert certified == (
        "pretuned.lock.json: 2 selections certified at 64 problems: mean 1.8%, worst 4.3% (scale (T=float16) at "
        "n=1024), none slower than the default"
    )
    assert last == "pretuned.lock.json: 4 rows and 2 selections" + (
        ", all fresh, but 1 not certified to keep to max-loss (0.02); run `pretuned tune`, which refines them, or "
        "raise `max-loss` in the table"
        if status
        else f" for {H100.name}, all fresh"
    )
    named = f"scale on {H100.name} at T=float16: loses 3.1% on average, by its certificate"
    assert (named in out) == (status != 0)
    data = json.loads(home.run("check", "--json")[1])
    assert (data["fresh"], data["selections"], data["over max-loss"]) == (status == 0, 2, [named] if status else [])


def test_rows_without_a_selection_are_a_warning_as_long_as_the_table_admits_any_loss(home):
    note = (
        f"warning: pretuned.lock.json: rows and no selection for scale on {H100.name} at T=float32: sizes between them "
        "take the nearest row, and what that loses is not certified; run `pretuned tune`\n"
    )
    selected(home, *selections(home.spec))
    assert home.run("check")[::2] == (0, "")
    selected(home, selections(home.spec)[0])
    assert home.run("check")[::2] == (0, note)
    assert json.loads(home.run("check", "--json")[1])["without a selection"] == [
        {"kernel": "scale", "device": H100.name, "specialisation": {"T": "float32"}}
    ]
    (home.root / "pyproject.toml").write_text(TABLE + "max-loss = 0.04\n")
    status, out, _ = home.run("check")
    assert status == 4
    assert not locked_takes(home)
    assert f"scale on {H100.name} at T=float32: no selection, so no certificate" in out


def test_the_host_is_not_held_to_max_loss(home):
    (home.root / "pyproject.toml").write_text(TABLE + "max-loss = 0.02\n")
    on_host = [replace(found, device="host") for found in (*home.rows(), *losing(home, 0.5))]
    rows, rules = on_host[:4], on_host[4:]
    record = replace(H100, name="host", sm_count=4, compute_capability=0)
    assert not record.is_gpu
    lock = Lock().updated({"host": record}, rows, (), rules)
    lockfile.write(home.root / "pretuned.lock.host.json", lock)
    status, out, err = home.run("check", "--on", "host")
    assert (status, err) == (
        0,
        "pretuned.lock.host.json: max-loss holds GPUs alone: the host's times say nothing about one\n",
    )
    assert out.endswith("pretuned.lock.host.json: 4 rows and 2 selections for host, all fresh\n")
    freshness = Freshness({"scale": home.spec})
    device = TuningDevice(record=record, driver="Abacus 3000", place=Place(backend="host"))
    assert freshness.requests(lock, device, max_loss=device.held_to(0.02)) == []
    assert freshness.requests(lock, device, max_loss=0.02) != []


def locked_takes(home):
    project = replace(load_project(home.root), mode="locked")
    freshness = Freshness({"scale": home.spec})
    try:
        table.resolve(project, read_settings(), freshness, Reported(), lambda _event: None)
    except LockError:
        return False
    return True


@pytest.mark.parametrize("state", ["fresh", "stale", "incomplete", "unverified", "missing"])
def test_the_status_is_what_locked_would_say(home, state):
    fresh = home.rows()
    found = states(home)[state]
    kept = [row for row in fresh if found is None or row.problem != found.problem]
    home.write(kept[1:] if found is None else [*kept, found])
    status, out, _ = home.run("check")
    assert (status == 0) == locked_takes(home) == (state == "fresh")
    assert (" missing" if state == "missing" else state) in out


def test_rows_of_two_compilers_are_what_no_locked_build_ships(home):
    (home.root / "pyproject.toml").write_text(TABLE.replace("cubins = false\n", ""))
    rows = home.rows()
    home.write([*rows[:-1], replace(rows[-1], compiler="13.5.10")])
    status, out, _ = home.run("check")
    assert status == 4
    assert out == (
        f"pretuned.lock.json: {len(rows)} rows, all fresh, but mode locked does not take them: its rows were measured "
        f"with NVRTC {rows[0].compiler} and 13.5.10, and a build compiles with one; run `pretuned tune --force` with "
        "one NVRTC on every machine\n"
    )
    assert not locked_takes(home)


def test_a_line_for_each_kernel_says_how_its_rows_are_and_why(home):
    found = states(home)
    home.write([found["stale"], found["incomplete"], found["unverified"]])
    status, out, _ = home.run("check")
    assert status == 4
    head, line, last = out.splitlines()
    assert head.split() == ["kernel", "device", "rows", "state", "why"]
    assert line == (
        "scale   NVIDIA H100 80GB HBM3     3  1 stale, 1 missing, 1 unverified, 1 incomplete  the template, options, "
        "launches or arguments of block=256, vec=4 have changed"
    )
    assert last == "pretuned.lock.json: 3 of 3 rows are not fresh, 1 missing; run `pretuned tune`"


def test_verbose_names_each_row(home):
    home.write([states(home)["stale"], *home.rows()[1:3]])
    out = home.run("check", "--verbose")[1].splitlines()
    assert [line.split(" at ")[1].partition(": ")[::2][0] for line in out[:-1]] == [
        "n=1024, T=float16",
        "n=65536, T=float32",
    ]


def test_another_kernels_rows_are_no_matter(home):
    home.write([*home.rows(), replace(home.rows()[0], kernel="gone")])
    assert home.run("check")[0] == 4
    assert home.run("check", "--kernel", "scale")[0] == 0


def test_json_has_every_row(home):
    home.write([states(home)["stale"], *home.rows()[1:3]])
    found = json.loads(home.run("check", "--json")[1])
    assert (found["fresh"], found["rows"]) == (False, 3)
    assert [entry["state"] for entry in found["findings"]] == ["stale", "missing"]


def test_on_host_the_hosts_lock_is_meant(home):
    home.write(home.rows())
    assert home.run("check", "--on", "host")[:2] == (
        4,
        "pretuned.lock.host.json: no rows; run `pretuned tune --on host`\n",
    )


def test_faults_of_other_specs_are_not_those_of_the_kernel_asked_for(tmp_path, monkeypatch, capsys):
    (tmp_path / "pyproject.toml").write_text('[tool.hatch.build.hooks.pretuned]\nmodule = "src/mypkg/tuned"\n')
    (tmp_path / "kernels").mkdir()
    loaded(tmp_path / "kernels")
    (tmp_path / "kernels" / "broken.toml").write_text("format = 1\n")
    monkeypatch.chdir(tmp_path)
    for arguments, status, said in (
        (["check", "--kernel", "scale"], 4, "no rows"),
        (["check", "--kernel", "broken"], 2, "broken.toml"),
        (["check", "--kernel", "scael"], 2, "did you mean 'scale'?"),
        (["check"], 2, "broken.toml"),
    ):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        captured = capsys.readouterr()
        assert end.value.code == status
        assert said in captured.out + captured.err
        assert ("broken.toml" in captured.err) == (arguments[-1] != "scale" and said == "broken.toml")


def test_scalars_whose_swap_would_not_show_are_named(home):
    """Floats are given different values while tuning; integers may be sizes, and stay."""
    scalar = '  { name = "a", dtype = "float32", value = 2.0 },\n'
    others = "".join(
        f'  {{ name = "{name}", dtype = "{dtype}", value = {value} }},\n'
        for name, dtype, value in (("b", "float32", 2.0), ("rows", "int32", 4), ("columns", "int32", 4))
    )
    template = SCALE_TEMPLATE.replace("float a,", "float a, float b, int rows, int columns,")
    loaded(home.root / "kernels", (scalar, scalar + others), template=f"#include <cuda_fp16.h>\n{template}")
    _, _, err = home.run("check")
    assert err == (
        "warning: scale.toml: arguments[5].value: tuning passes 'columns' and 'rows' the same int32, 4, so that it "
        "would not see them swapped; write different values\n"
    )


@pytest.mark.parametrize(
    ("extent", "said"),
    [
        (
            "n - 2000",
            "-976 at n=1024, T=float16, which the spec lists; an array has 0 elements or more: ",
        ),
        ("n - 9", '-9 at n=0, T=float16, which a call may have; write `requires = ["n - 9 >= 0"]` into [constraints]'),
    ],
)
def test_an_extent_below_0_is_named_where_it_is_measured_first(home, extent, said):
    change = '"n"], align = "vec * sizeof(T)" },\n  { name = "a"', f'"{extent}"] }},\n  {{ name = "a"'
    loaded(home.root / "kernels", change, template=f"#include <cuda_fp16.h>\n{SCALE_TEMPLATE}")
    _, _, err = home.run("check")
    assert f"arguments[1].shape[0]: the extent {extent} of 'x' is {said}" in err


def test_what_would_hide_wrong_results_is_named(home):
    changes = ("value = 2.0", "value = 0.0"), ("rtol = { float32 = 1e-5", "rtol = { float32 = 100.0")
    loaded(home.root / "kernels", *changes, template=f"#include <cuda_fp16.h>\n{SCALE_TEMPLATE}")
    _, _, err = home.run("check")
    assert err == (
        "warning: scale.toml: arguments[2].value: tuning passes 0.0, so that it would not see what else a kernel makes "
        "of 'a'; write a value without a 0\n"
        "warning: scale.toml: verify.rtol: is 100.0, by which a result of 0 is right; write a share far below 1\n"
    )


def test_a_space_too_large_to_be_searched_is_refused(home):
    changes = (
        ("block = [128, 256]", "block = { from = 1, to = 1024 }"),
        ("vec   = [1, 2, 4]", "vec = { from = 1, to = 10000 }"),
        ('"vec * sizeof(T) <= 16", "n % vec == 0"', ""),
        (', align = "vec * sizeof(T)"', ""),
    )
    loaded(home.root / "kernels", *changes, template=f"#include <cuda_fp16.h>\n{SCALE_TEMPLATE}")
    status, _, err = home.run("check")
    assert status == 2
    assert "space: has more than 5,000,000 legal configurations; narrow it by shorter lists or by constraints" in err


def test_a_device_of_the_project_that_is_too_old_is_named(home):
    (home.root / "pyproject.toml").write_text(TABLE + 'architectures = ["sm_80"]\n')
    template = f"#include <cuda_fp16.h>\n{SCALE_TEMPLATE}"
    loaded(home.root / "kernels", ("[verify]", "[compile]\narch-specific = true\n\n[verify]"), template=template)
    _, _, err = home.run("check")
    assert err == (
        "warning: scale.toml: compile.arch-specific: arch-specific code came with compute capability 9.0, which is "
        "newer than sm_80 (`architectures`): calls there are errors; give the kernel a default without, if they should "
        "not be\n"
    )


def test_faults_of_a_spec_are_json_as_well(home):
    spec = home.root / "kernels" / "scale.toml"
    spec.write_text(spec.read_text().replace("grid ", "gird ").replace("rtol", "rotl"))
    status, out, err = home.run("check", "--json")
    assert status == 2
    found = json.loads(out)["faults"]
    assert [fault["path"] for fault in found] == ["verify.rotl", "launches[0].gird"]
    assert found[0]["message"] == "unknown key 'rotl'; did you mean 'rtol'?"
    assert "invalid kernel spec (2 problems)" in err


def test_a_configuration_that_its_launch_bounds_exclude_is_a_warning_with_its_line(home):
    kernel = 'extern "C" __global__ void scale('
    bound = kernel.replace(" scale", " __launch_bounds__(128) scale")
    (home.root / "kernels" / "scale.cu.jinja").write_text(SCALE_TEMPLATE.replace(kernel, bound))
    file = home.root / "kernels" / "scale.toml"
    file.write_text(file.read_text().replace("block = 256", "block = 128"))
    status, _, err = home.run("check")
    assert status == 4  # for want of rows: a configuration that fails is no fault
    assert (
        "warning: scale.toml: launches[0].block: block=256, vec=1: a block of 256 threads, and scale.cu.jinja:4 gives "
        "'scale' `__launch_bounds__(128)`, so that it cannot be launched; write `__launch_bounds__({{ block }})` "
        "there, or take such configurations out of the space\n"
    ) in err
