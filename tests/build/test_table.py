"""Which rows a build bakes: modes against the state of the lock, with and without a GPU."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from builders import H100, losses, row, rows, selections
from pretuned.build import core, table, tuning
from pretuned.build.freshness import Freshness
from pretuned.config import ModuleTable, Place, Project, Settings
from pretuned.errors import DeviceError, LockError, SpecError
from pretuned.fleet import tuning as fleet
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.record.rows import Skipped
from pretuned.render import candidate
from pretuned.spec.space import Configuration, Problem
from pretuned.tune.events import OnDevice, Waiting
from pretuned.tune.request import TuningDevice
from pretuned.tune.session import Tuned
from pretuned.tune.spending import Spending
from reported import Reported
from specs import SCALE_TEMPLATE, loaded

TARGET = TuningDevice(record=H100, driver="580.159.04")


class Build:
    """A project with one kernel; `tuned` is what was asked to be tuned."""

    def __init__(self, folder, monkeypatch):
        self.kernels = folder / "kernels"
        self.kernels.mkdir()
        self.spec = loaded(self.kernels, template="#include <cuda_fp16.h>\n" + SCALE_TEMPLATE)
        self.project = Project(
            root=folder,
            modules=(ModuleTable(kernels=self.kernels, module="src/p/tuned"),),
            lock=folder / "pretuned.lock.json",
        )
        self.settings = Settings(cache=folder / "cache")
        self.said, self.asked, self.left, self.ending = Reported(), [], 0, {}
        self.gpu = None
        monkeypatch.setattr(table, "find_device", lambda index, known: self.gpu)
        monkeypatch.setattr(core, "find_device", lambda index, known: self.gpu)
        monkeypatch.setattr(tuning, "devices_here", lambda backend, known, first: [first])
        monkeypatch.setattr(fleet, "tune", self.tune)

    def tune(self, requests, target, **given):
        self.calls = [request.calls for request in requests]
        self.select = [request.select for request in requests]
        self.asked = [
            (problem, request.incumbents.get(problem)) for request in requests for problem in request.problems
        ]
        self.given = given
        found = [row(self.spec, problem) for problem, _ in self.asked[self.left :]]
        return Tuned(device=target, rows=tuple(found), skipped=(), left=self.left, spending=Spending(), **self.ending)

    def lock(self, entries, rules=()):
        lockfile.write(self.project.lock, Lock().updated({H100.name: H100}, entries, (), rules))

    def resolve(self, **changes):
        project = replace(self.project, **changes)
        return table.resolve(project, self.settings, Freshness({"scale": self.spec}), self.said, lambda _event: None)


@pytest.fixture
def build(tmp_path, monkeypatch):
    return Build(tmp_path, monkeypatch)


def stale(found):
    return replace(found, choices=(replace(found.choices[0], candidate="of yesterday"), *found.choices[1:]))


def test_a_build_that_tunes_asks_for_what_the_table_says(build):
    build.gpu = TARGET
    file = build.project.root / "calls.jsonl"
    dims = {"n": 1536}
    line = {"format": 1, "package": "p.tuned", "kernel": "scale", "specialisation": {"T": "float32"}, "dims": dims}
    file.write_text(json.dumps(line | {"calls": 9}))
    build.ending = {"selections": tuple(selections(build.spec))}
    build.resolve(usage=file, max_loss=0.02, max_configurations=3)
    assert build.calls == [{Problem(specialisation=(("T", "float32"),), dims=(("n", 1536),)): 9}]
    assert (build.given["demands"].max_loss, build.given["demands"].max_configurations) == (0.02, 3)


def test_a_build_tunes_on_all_gpus_of_the_first_ones_kind_unless_one_is_named(build, monkeypatch):
    used = []

    def tune_here(works, devices, terms):
        used.append([device.place.index for device in devices])
        terms.listen(OnDevice(device="GPU 1", event=Waiting(device="GPU 1")))
        return build.tune(works[0].requests, works[0].device)

    others = [replace(TARGET, place=Place(index=index)) for index in (1, 2)]
    others[0] = replace(others[0], record=replace(H100, name="NVIDIA L4"))
    monkeypatch.setattr(tuning, "devices_here", lambda backend, known, first: [TARGET, *others])
    monkeypatch.setattr(tuning, "tune_here", tune_here)
    build.gpu = TARGET
    build.resolve()
    build.resolve(devices="cuda:0")
    build.settings = replace(build.settings, device=Place())
    build.resolve()
    assert used == [[0, 2], [0], [0]]
    assert f"another tuning is using {H100.name}; waiting up to 300 s for it to end" in build.said


def test_auto_without_gpu_or_lock_bakes_the_defaults_and_warns(build):
    assert build.resolve().rows == ()
    assert build.said == [
        (
            "warning: no GPU here and no rows in pretuned.lock.json: only the defaults are baked; "
            "run `pretuned tune` on a machine with a GPU and commit the lock"
        )
    ]


def test_auto_without_gpu_bakes_the_lock(build):
    build.lock(rows(build.spec), selections(build.spec))
    assert len(build.resolve().rows) == 4
    assert build.said == ["no GPU here: baking 4 rows and 2 selections of pretuned.lock.json for NVIDIA H100 80GB HBM3"]


@pytest.mark.parametrize("mode", ["auto", "locked"])
def test_rows_without_a_selection_are_baked_with_a_warning_in_every_mode(build, mode):
    build.lock(rows(build.spec), selections(build.spec)[:1])
    assert len(build.resolve(mode=mode).rows) == 4
    assert build.said[1:] == [
        (
            "warning: pretuned.lock.json: rows and no selection for scale on NVIDIA H100 80GB HBM3 at T=float32: sizes "
            "between them take the nearest row, and what that loses is not certified; run `pretuned tune`"
        )
    ]


def test_a_tuning_that_had_time_for_rows_alone_warns_too(build):
    build.gpu = TARGET
    build.resolve()
    assert build.said[-1] == (
        "warning: pretuned.lock.json: rows and no selection for scale on NVIDIA H100 80GB HBM3 at T=float16 and 1 "
        "more: sizes between them take the nearest row, and what that loses is not certified; build again, raise "
        "`budget`, or run `pretuned tune`"
    )


def test_auto_bakes_the_default_in_place_of_stale_rows(build):
    first, *rest = rows(build.spec)
    build.lock([stale(first), *rest])
    found = {row.problem: row for row in build.resolve().rows}
    assert found.pop(first.problem).choices == (first.default,)
    assert list(found.values()) == rest
    assert build.said[1] == (
        "warning: pretuned.lock.json: scale: 1 row stale, so the default is baked instead; run `pretuned tune`; first: "
        "scale on NVIDIA H100 80GB HBM3 at n=1024, T=float16: stale (the template, "
        "options, launches or arguments of block=256, vec=4 have changed)"
    )


def test_stale_rows_are_told_a_line_a_kernel(build):
    build.lock([stale(found) for found in rows(build.spec)])
    build.resolve()
    (line,) = (line for line in build.said if "stale" in line)
    assert line.startswith(
        "warning: pretuned.lock.json: scale: 4 rows stale, so the default is baked instead; run `pretuned tune`"
    )


def test_auto_with_a_gpu_and_a_fresh_lock_tunes_nothing(build):
    build.gpu = TARGET
    build.lock(rows(build.spec), selections(build.spec))
    assert len(build.resolve().rows) == 4
    assert build.asked == []
    assert build.said == ["NVIDIA H100 80GB HBM3: every row of pretuned.lock.json is fresh; nothing to tune"]


def test_auto_with_a_gpu_tunes_what_is_missing_or_stale(build):
    build.gpu = TARGET
    first, second, *_ = rows(build.spec)
    build.lock([stale(first), second])
    found = build.resolve(budget_s=5.0)
    assert len(found.rows) == 4
    assert second.problem not in {problem for problem, _ in build.asked}
    assert dict(build.asked)[first.problem] == tuple(choice.configuration for choice in first.choices)
    assert (build.given["budget_s"], build.given["cache_folder"]) == (5.0, build.settings.cache)


def test_a_spent_budget_is_told(build):
    build.gpu = TARGET
    build.left = 1
    assert len(build.resolve().rows) == 3
    assert build.said[-1] == (
        "warning: 1 row not reached; what was measured is kept; build again, raise `budget`, or run `pretuned tune`"
    )
    with pytest.raises(DeviceError, match=r"^require-tuned: the tuning did not reach 1 row$"):
        build.resolve(require_tuned=True)


def test_a_device_that_is_lost_on_the_way_costs_only_what_was_not_settled(build):
    build.gpu, build.left, build.ending = TARGET, 3, {"trouble": "GPU 0 cannot be used: fallen off the bus"}
    assert len(build.resolve().rows) == 1
    assert build.said[0] == "warning: the tuning ended early: GPU 0 cannot be used: fallen off the bus"
    assert len(build.resolve(mode="force").rows) == 1
    for mode in ("auto", "force"):
        with pytest.raises(DeviceError, match="fallen off the bus"):
            build.resolve(mode=mode, require_tuned=True)


def test_a_build_that_its_user_interrupts_ends(build):
    build.gpu, build.ending = TARGET, {"interrupted": True}
    with pytest.raises(KeyboardInterrupt):
        build.resolve()


def test_rows_of_another_device_are_kept_beside(build):
    other = replace(H100, name="NVIDIA A100", sm_count=108, compute_capability=80)
    build.gpu = TuningDevice(record=other, driver="580")
    build.lock(rows(build.spec))
    assert {found.device for found in build.resolve().rows} == {H100.name}
    assert len(build.asked) == 4


def test_locked_takes_a_fresh_lock_and_never_tunes(build):
    build.gpu = TARGET
    build.lock(rows(build.spec))
    assert len(build.resolve(mode="locked").rows) == 4
    assert build.asked == []


def test_locked_refuses_a_lock_that_is_not_fresh(build):
    first, *rest = rows(build.spec)
    build.lock([stale(first), *rest[1:]])
    with pytest.raises(LockError) as error:
        build.resolve(mode="locked")
    assert str(error.value) == (
        "mode locked: pretuned.lock.json is not fresh; run `pretuned tune` and commit it:\n"
        "  scale on NVIDIA H100 80GB HBM3 at n=1024, T=float16: stale (the template, options, launches or arguments "
        "of block=256, vec=4 have changed)\n"
        "  scale on NVIDIA H100 80GB HBM3 at n=65536, T=float16: missing"
    )


def test_locked_names_a_few_of_many(build, monkeypatch):
    monkeypatch.setattr(table, "LISTED", 3)
    build.lock([stale(found) for found in rows(build.spec)])
    with pytest.raises(LockError) as error:
        build.resolve(mode="locked")
    assert len(str(error.value).splitlines()) == 1 + 3 + 1
    assert str(error.value).endswith("\n  and 1 more: `pretuned check`")


def test_locked_refuses_an_empty_lock(build):
    with pytest.raises(LockError) as error:
        build.resolve(mode="locked")
    assert str(error.value) == (
        "mode locked: pretuned.lock.json has no rows; run `pretuned tune` on a GPU and commit it"
    )


def test_force_ignores_lock_and_cache(build):
    build.gpu = TARGET
    build.lock(rows(build.spec))
    assert len(build.resolve(mode="force").rows) == 4
    assert [incumbent for _, incumbent in build.asked] == [None] * 4
    assert build.given["demands"].anew


def test_force_without_a_gpu_bakes_the_defaults_unless_rows_are_required(build):
    build.lock(rows(build.spec))
    assert build.resolve(mode="force").rows == ()
    assert build.said == ["warning: mode force: there is no GPU 0 here: only the defaults are baked"]
    with pytest.raises(DeviceError) as error:
        build.resolve(mode="force", require_tuned=True)
    assert str(error.value) == "require-tuned: there is no GPU 0 here, so mode force leaves out 4 rows"


def test_off_bakes_the_defaults(build):
    build.gpu = TARGET
    build.lock(rows(build.spec))
    assert build.resolve(mode="off").rows == ()
    assert build.said == ["mode off: only the defaults are baked"]


def test_require_tuned_refuses_a_build_without_gpu_and_rows(build):
    with pytest.raises(DeviceError) as error:
        build.resolve(require_tuned=True)
    assert str(error.value) == "require-tuned: there is no GPU, and pretuned.lock.json lacks 4 rows"


def test_what_a_build_needs_installed(build):
    build.lock(rows(build.spec), selections(build.spec))
    needs = core.compile_needs(build.project, build.settings)
    assert (needs.compile, needs.tune, needs.compiler) == (True, False, "13.0.88")
    build.gpu = TARGET
    assert not core.compile_needs(build.project, build.settings).tune
    assert core.compile_needs(replace(build.project, max_loss=0.001), build.settings).tune
    build.project.lock.unlink()
    assert core.compile_needs(build.project, build.settings).tune
    assert core.compile_needs(replace(build.project, cuda="12.9"), build.settings).compiler == "12.9"
    assert not core.compile_needs(replace(build.project, cubins=False, mode="off"), build.settings).compile


FLOAT8 = '"y", role = "out", dtype = "float8_e4m3fn", shape = ["n"]'


@pytest.mark.parametrize(
    ("edit", "needed"),
    [
        (('["float32", "float16"]', '["float32", "float16"]'), False),
        (('["float32", "float16"]', '["float32", "bfloat16"]'), True),
        (('"y", role = "out", dtype = "T", shape = ["n"], align = "vec * sizeof(T)"', FLOAT8), True),
    ],
    ids=["NumPy knows them", "a specialisation", "a fixed type"],
)
def test_types_that_numpy_lacks_need_ml_dtypes(build, edit, needed):
    loaded(build.kernels, edit)
    assert core.compile_needs(build.project, build.settings).ml_dtypes is needed


def test_locked_refuses_another_cubin(build):
    build.lock(rows(build.spec))
    with pytest.raises(LockError) as error:
        core.bake_project(replace(build.project, mode="locked"), build.settings, build.said)
    assert str(error.value).startswith("mode locked: scale at n=1024, T=float16: NVRTC 13.0.")
    assert "compiles another cubin than the one that was measured, of NVRTC 13.0.88" in str(error.value)


def test_other_modes_mark_it_recompiled(build):
    build.lock(rows(build.spec))
    (baked,) = core.bake_project(build.project, build.settings, build.said)
    assert b'"", True)' in baked.files["__init__.py"]


def test_two_modules_cannot_have_kernels_of_one_name(build, tmp_path):
    (tmp_path / "more").mkdir()
    loaded(tmp_path / "more")
    modules = (*build.project.modules, ModuleTable(kernels=tmp_path / "more", module="src/p/more"))
    with pytest.raises(SpecError) as error:
        core.load_specs(replace(build.project, modules=modules))
    assert str(error.value) == (
        "invalid kernel spec (1 problem):\n"
        "  scale.toml: a kernel of this name is in the module 'src/p/tuned' too; rename one of them"
    )


def test_require_tuned_counts_what_the_lock_lacks_on_every_device(build):
    first, second, *_ = rows(build.spec)
    build.lock([first, stale(second)])
    with pytest.raises(DeviceError) as error:
        build.resolve(require_tuned=True)
    assert str(error.value) == "require-tuned: there is no GPU, and pretuned.lock.json lacks 3 rows"
    build.lock(rows(build.spec))
    assert len(build.resolve(require_tuned=True).rows) == 4


def test_rows_of_an_older_space_or_reference_are_baked_and_tuned_again_where_a_gpu_is(build):
    first, second, *rest = rows(build.spec)
    old = [replace(first, space="of yesterday"), replace(second, verification="of yesterday"), *rest]
    build.lock(old, selections(build.spec))
    assert len(build.resolve().rows) == 4
    assert build.said == [
        "no GPU here: baking 4 rows and 2 selections of pretuned.lock.json for NVIDIA H100 80GB HBM3",
        (
            "pretuned.lock.json: 2 rows baked though not up to date; run `pretuned tune`; first: "
            "scale on NVIDIA H100 80GB HBM3 at "
            "n=1024, T=float16: incomplete (the space, the sizes, `requires` or terms of costs have changed)"
        ),
    ]
    build.gpu = TARGET
    build.resolve()
    assert {problem for problem, _ in build.asked} == {first.problem, second.problem}


def test_a_problem_that_was_skipped_is_not_asked_for_again(build):
    *some, last = rows(build.spec)
    skipped = Skipped(kernel="scale", device=H100.name, problem=last.problem, reason="takes 99 GB")
    lockfile.write(build.project.lock, Lock().updated({H100.name: H100}, some, [skipped]))
    build.gpu = TARGET
    assert len(build.resolve(require_tuned=True, mode="locked").rows) == 3
    assert len(build.resolve(require_tuned=True).rows) == 3
    assert build.asked == []


def test_rows_of_a_kernel_that_is_gone_are_left_out(build):
    build.lock([*rows(build.spec), replace(rows(build.spec)[0], kernel="gone")])
    assert {found.kernel for found in build.resolve().rows} == {"scale"}
    assert build.said[1] == (
        "warning: pretuned.lock.json: gone: 1 row not baked; run `pretuned prune --stale`; first: "
        "gone on NVIDIA H100 80GB HBM3 at "
        "n=1024, T=float16: stale (there is no such kernel)"
    )


def test_a_gpu_that_cannot_be_used_costs_the_tuning_not_the_build(build, monkeypatch):
    def fail(*_, **__):
        raise DeviceError("GPU 0 cannot be used: out of memory")

    monkeypatch.setattr(fleet, "tune", fail)
    build.gpu = TARGET
    build.lock(rows(build.spec)[:1])
    assert len(build.resolve().rows) == 1
    assert build.said == [
        (
            "warning: NVIDIA H100 80GB HBM3 is here, but nothing was tuned: GPU 0 cannot be used: out of memory: "
            "baking 1 row of pretuned.lock.json for NVIDIA H100 80GB HBM3"
        ),
        (
            "warning: pretuned.lock.json: rows and no selection for scale on NVIDIA H100 80GB HBM3 at T=float16: sizes "
            "between them take the nearest row, and what that loses is not certified; run `pretuned tune`"
        ),
    ]
    with pytest.raises(DeviceError) as error:
        build.resolve(require_tuned=True)
    assert str(error.value) == (
        "require-tuned: GPU 0 cannot be used: out of memory; NVIDIA H100 80GB HBM3 lacks 3 rows"
    )


@pytest.mark.parametrize("mode", ["auto", "locked"])
def test_a_lock_that_cannot_be_read_ends_the_build(build, mode):
    build.project.lock.write_text('{"format": 1, "rows": [')
    with pytest.raises(LockError, match=r"^pretuned\.lock\.json: is not JSON"):
        build.resolve(mode=mode)


@pytest.mark.parametrize("mode", ["off", "force"])
def test_modes_that_ignore_the_lock_do_not_read_it(build, mode):
    build.project.lock.write_text("{")
    build.gpu = TARGET
    assert len(build.resolve(mode=mode).rows) == (4 if mode == "force" else 0)


FLOAT16, FLOAT32 = (("T", "float16"),), (("T", "float32"),)


def lossy(rule, mean):
    return replace(rule, certificate=replace(rule.certificate, inside=losses((("n", 1024),), mean=mean)))


def test_selections_of_the_lock_are_baked_and_what_is_stale_of_them_is_not(build):
    first, second = selections(build.spec)
    build.lock(rows(build.spec), [first, second])
    assert build.resolve().selections == (first, second)
    baking = "baking 4 rows and 2 selections of pretuned.lock.json for NVIDIA H100 80GB HBM3"
    assert build.said == [f"no GPU here: {baking}"]
    build.lock(rows(build.spec), [stale(first), second])
    found = build.resolve().selections
    assert [[choice.configuration for choice in rule.choices] for rule in found] == [
        [first.choices[-1].configuration],
        [choice.configuration for choice in second.choices],
    ]
    assert build.said[2].startswith(
        "warning: pretuned.lock.json: scale: 1 selection stale, so the default is baked instead; run `pretuned tune`; "
        "first: the selection of scale on NVIDIA H100 80GB HBM3 at T=float16: stale (the template,"
    )


def test_locked_refuses_a_selection_that_is_not_fresh(build):
    first, second = selections(build.spec)
    build.lock(rows(build.spec), [replace(first, space="", certificate=None), second])
    with pytest.raises(LockError) as error:
        build.resolve(mode="locked")
    assert str(error.value) == (
        "mode locked: pretuned.lock.json is not fresh; run `pretuned tune` and commit it:\n"
        "  the selection of scale on NVIDIA H100 80GB HBM3 at T=float16: incomplete (the budget ended before it was "
        "certified)"
    )
    build.lock(rows(build.spec), [first, replace(second, compiler="13.1.80")])
    with pytest.raises(LockError, match=r"its rows were measured with NVRTC 13\.0\.88 and 13\.1\.80"):
        build.resolve(mode="locked")


def test_a_gpu_makes_anew_what_is_stale_or_loses_too_much_and_asks_for_no_rows(build):
    build.gpu = TARGET
    first, second = selections(build.spec)
    build.lock(rows(build.spec), [stale(first), lossy(second, 0.03)])
    build.ending = {"selections": (first,)}
    assert build.resolve().selections == (first, lossy(second, 0.03))
    assert (build.asked, build.select) == ([], [(FLOAT16,)])
    assert build.said[0].startswith("NVIDIA H100 80GB HBM3: tuned 1 selection that pretuned.lock.json lacks")
    build.ending = {"selections": (first, second)}
    assert build.resolve(max_loss=0.02).selections == (first, second)
    assert (build.asked, build.select) == ([], [(FLOAT16, FLOAT32)])


def test_a_selection_that_ships_more_than_the_table_admits_is_made_anew_with_its_rows(build):
    first, second = selections(build.spec)
    third = replace(
        first.choices[0], configuration=Configuration(implementation="main", values=(("block", 128), ("vec", 1)))
    )
    key = candidate(build.spec, first.specialisation, third.configuration).key
    crowded = replace(first, choices=(first.choices[0], replace(third, candidate=key), first.choices[-1]))
    build.lock(rows(build.spec), [crowded, second])
    assert build.resolve(max_configurations=3).selections == (crowded, second)
    assert len(build.said) == 1
    assert build.resolve(max_configurations=2).selections == (crowded, second)
    assert build.said[-1] == (
        "warning: pretuned.lock.json: the selection of scale on NVIDIA H100 80GB HBM3 at T=float16: ships more than 2 "
        "configurations (max-configurations); run `pretuned tune`"
    )
    build.gpu, build.ending = TARGET, {"selections": (first,)}
    assert build.resolve(max_configurations=2).selections == (first, second)
    assert build.select == [(FLOAT16,)]
    assert {problem.specialisation for problem, _ in build.asked} == {FLOAT16}
    assert len(build.asked) == 2


def test_a_gpu_makes_the_selections_that_the_lock_lacks(build):
    build.gpu = TARGET
    first, second = selections(build.spec)
    build.lock(rows(build.spec), [first])
    build.ending = {"selections": (second,)}
    assert build.resolve().selections == (first, second)
    assert (build.asked, build.select) == ([], [(FLOAT32,)])


@pytest.mark.parametrize("mode", ["auto", "locked"])
def test_what_is_baked_keeps_to_max_loss_or_the_build_ends(build, mode):
    first, second = selections(build.spec)
    build.lock(rows(build.spec), [lossy(first, 0.02), second])
    assert len(build.resolve(mode=mode, max_loss=0.02).rows) == 4
    build.lock(rows(build.spec), [lossy(first, 0.0314)])
    with pytest.raises(LockError) as error:
        build.resolve(mode=mode, max_loss=0.02)
    assert str(error.value) == (
        "max-loss: run `pretuned tune` with a larger budget, or raise `max-loss` in the table (0.02 now): what would "
        "be baked does not keep to it:\n"
        "  scale on NVIDIA H100 80GB HBM3 at T=float32: no selection, so no certificate\n"
        "  scale on NVIDIA H100 80GB HBM3 at T=float16: loses 3.1% on average, by its certificate"
    )
    assert build.resolve(mode="off", max_loss=0.02).rows == ()


def test_what_is_left_of_a_stale_selection_is_not_certified(build):
    first, second = selections(build.spec)
    build.lock(rows(build.spec), [stale(first), second])
    with pytest.raises(LockError, match=r"at T=float16: not certified$"):
        build.resolve(max_loss=0.02)
