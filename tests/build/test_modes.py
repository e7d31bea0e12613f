"""The mode table: what each mode bakes, by the state of the lock and of the machine, and the line that says so."""

from __future__ import annotations

import ast
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from builders import H100, rows
from fake_session import Shelf, install
from generated import assigned
from pretuned.build import core, table
from pretuned.build.freshness import Freshness
from pretuned.config import ModuleTable, Project, Settings
from pretuned.errors import DeviceError, LockError
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.spec.space import all_problems
from pretuned.tune import session
from pretuned.tune.request import TuningDevice
from reported import Reported
from specs import SCALE_TEMPLATE, loaded

MODES = ("auto", "locked", "force", "off")
LOCKS = ("fresh", "stale", "missing", "none")
MACHINES = ("gpu", "none", "busy", "no NVRTC")
NAME = H100.name
LACKING = {"fresh": 0, "stale": 1, "missing": 1, "none": 4}  # rows that hold no more, or never were
UNUSABLE = {
    "none": "there is no GPU 0 here",
    "busy": "another tuning has used NVIDIA H100 80GB HBM3 for 0.25 s",
    "no NVRTC": "compiling needs CuPy and NVRTC (ImportError: libnvrtc.so.13): install it",
}


class Bare(Shelf):
    """What a library is where CuPy finds no NVRTC."""

    @property
    def compiler(self):
        raise DeviceError(UNUSABLE["no NVRTC"])


class Case:
    """A project with one kernel of four rows, its lock in state `lock`, on `machine`."""

    def __init__(self, folder, monkeypatch, lock, machine):
        self.machine = machine
        kernels = folder / "kernels"
        kernels.mkdir()
        self.spec = loaded(kernels, template="#include <cuda_fp16.h>\n" + SCALE_TEMPLATE)
        module = ModuleTable(kernels=kernels, module="src/p/tuned")
        # a turn is waited for five times as long as the budget
        budget_s = 0.05 if machine == "busy" else 60.0
        self.project = Project(
            root=folder, modules=(module,), lock=folder / "pretuned.lock.json", budget_s=budget_s, cubins=False
        )
        self.settings = Settings(cache=folder / "cache")
        self.said = Reported()
        shown = {"gpus": ()} if machine == "none" else {"binaries": Bare} if machine == "no NVRTC" else {}
        install(monkeypatch, folder, **shown)
        self._write(lock)

    def _write(self, lock):
        first, *rest = rows(self.spec)
        winner = replace(first.winner, candidate="of yesterday")
        stale = replace(first, choices=(winner, *first.choices[1:]))
        found = {"fresh": [first, *rest], "stale": [stale, *rest], "missing": rest, "none": []}[lock]
        if found:
            lockfile.write(self.project.lock, Lock().updated({NAME: H100}, found))

    def resolve(self, **changes):
        with ExitStack() as stack:
            if self.machine == "busy":
                stack.enter_context(session.device_lock(TuningDevice(record=H100, driver="580")))
            project = replace(self.project, **changes)
            return table.resolve(
                project, self.settings, Freshness({"scale": self.spec}), self.said, lambda _event: None
            )

    def headline(self):
        """The one line that says what was done and why, without what it cost."""
        asides = ("warning: pretuned.lock.json:", "another tuning is")
        (line,) = (line for line in self.said if not line.startswith(asides))
        return line.partition(" sources compiled")[0].rpartition(": ")[0] if "sources compiled" in line else line


UNSELECTED = (
    f"warning: pretuned.lock.json: rows and no selection for scale on {NAME} at T=float16 and 1 more: sizes between "
    "them take the nearest row, and what that loses is not certified; run `pretuned tune`"
)


def baking(count):
    return f"baking {count} rows of pretuned.lock.json for {NAME}" if count else "only the defaults are baked"


def expected(mode, lock, machine):  # noqa: PLR0911 - one return a kind of cell of the table
    """How many rows are tuned and how many baked, and the line; or the beginning of an error."""
    lacking, usable = LACKING[lock], machine == "gpu"
    kept = {"fresh": 4, "stale": 4, "missing": 3, "none": 0}[lock]
    match mode:
        case "off":
            return 0, 0, "mode off: only the defaults are baked"
        case "locked" if lock == "fresh":
            return 0, 4, f"mode locked: {baking(4)}, all fresh"
        case "locked" if lock == "none":
            return LockError, "mode locked: pretuned.lock.json has no rows"
        case "locked":
            return LockError, "mode locked: pretuned.lock.json is not fresh"
        case "force" if usable:
            return 4, 4, f"{NAME}: tuned 4 rows anew (mode force)"
        case "force":
            return 0, 0, f"warning: mode force: {UNUSABLE[machine]}: only the defaults are baked"
    if machine == "none":
        nothing = (
            "warning: no GPU here and no rows in pretuned.lock.json: only the defaults are baked; "
            "run `pretuned tune` on a machine with a GPU and commit the lock"
        )
        return 0, kept, f"no GPU here: {baking(kept)}" if kept else nothing
    if not lacking:
        return 0, 4, f"{NAME}: every row of pretuned.lock.json is fresh; nothing to tune"
    if usable:
        return lacking, 4, f"{NAME}: tuned {lacking} row{'s' * (lacking > 1)} that pretuned.lock.json lacks"
    return 0, kept, f"warning: {NAME} is here, but nothing was tuned: {UNUSABLE[machine]}: {baking(kept)}"


@pytest.fixture
def case(tmp_path, monkeypatch, lock, machine):
    return Case(tmp_path, monkeypatch, lock, machine)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("mode", MODES)
def test_what_is_baked_and_said(case, mode, lock, machine):
    wanted = expected(mode, lock, machine)
    if wanted[0] is LockError:
        with pytest.raises(LockError) as error:
            case.resolve(mode=mode)
        assert str(error.value).startswith(wanted[1])
        assert case.said == []
        return
    found = case.resolve(mode=mode)
    tuned = 0 if found.tuned is None else len(found.tuned.rows)
    assert (tuned, len(found.rows), case.headline()) == wanted
    assert not Freshness({"scale": case.spec}).status(Lock(devices=dict(found.devices), rows=found.rows)).stale


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("mode", MODES)
def test_require_tuned_gives_every_row_or_an_error(case, mode, lock, machine):
    gives = {"auto": machine == "gpu" or lock == "fresh", "locked": lock == "fresh", "force": machine == "gpu"}
    if gives.get(mode):
        found = case.resolve(mode=mode, require_tuned=True)
        assert {row.problem for row in found.rows if len(row.choices) > 1} == set(all_problems(case.spec))
    else:
        with pytest.raises((DeviceError, LockError), match=r"^(require-tuned|mode locked): "):
            case.resolve(mode=mode, require_tuned=True)


def entries(baked):
    """The winners of the generated table, by specialisation and size."""
    table = assigned(ast.parse(baked.files["__init__.py"]), "TABLE")
    found = ast.literal_eval(table)["scale"].get(NAME, ())
    return {(entry[0]["T"], entry[1]["n"]): entry[2][0][1] for entry in found}


@pytest.mark.parametrize(("lock", "machine"), [("stale", "none")])
def test_in_place_of_a_stale_row_its_default_is_baked_with_a_warning(case):
    (baked,) = core.bake_project(case.project, case.settings, case.said)
    winners = entries(baked)
    assert winners.pop(("float16", 1024)) == {"block": 256, "vec": 1}
    assert list(winners.values()) == [{"block": 256, "vec": 4}] * 3
    assert case.said == [
        f"no GPU here: baking 4 rows of pretuned.lock.json for {NAME}",
        (
            "warning: pretuned.lock.json: scale: 1 row stale, so the default is baked instead; run "
            "`pretuned tune`; first: "
            f"scale on {NAME} at n=1024, T=float16: stale (the template, options, launches or arguments of "
            "block=256, vec=4 have changed)"
        ),
        UNSELECTED,
    ]


@pytest.mark.parametrize(("lock", "machine"), [("fresh", "none")])
def test_where_the_default_has_changed_too_nothing_of_the_row_is_baked(case):
    file = Path(case.project.modules[0].kernels, "scale.cu.jinja")
    file.write_text(file.read_text().replace("a * static_cast", "1.0f * a * static_cast"))
    (baked,) = core.bake_project(case.project, case.settings, case.said)
    assert entries(baked) == {}
    assert case.said[0].startswith("warning: no GPU here and only stale rows in pretuned.lock.json: only the def")
    assert "scale: 4 rows stale, so the default is baked instead; run `pretuned tune`" in case.said[1]


@pytest.mark.parametrize(("lock", "machine"), [("none", "busy")])
def test_waiting_is_told_with_its_limit(case):
    case.resolve()
    assert case.said[0] == f"another tuning is using {NAME}; waiting up to 0.25 s for it to end"


@pytest.mark.parametrize(("lock", "machine"), [("stale", "gpu")])
def test_what_was_tuned_again_is_no_reason_for_a_warning(case):
    case.resolve()
    assert len(case.said) == 2
    assert case.said[1].startswith("warning: pretuned.lock.json: rows and no selection for scale")


@pytest.mark.parametrize(("lock", "machine"), [("none", "gpu")])
def test_a_second_build_finds_everything_measured(case):
    first = case.resolve()
    second = case.resolve()
    assert second.rows == first.rows
    assert second.tuned.spending.launched == 0
