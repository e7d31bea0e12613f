"""`pretuned tune`, with a made-up GPU: what it asks for, writes, prints and removes."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace

import pytest

from builders import H100, row, rows, selections
from fake_runner import ROWS_ALONE
from pretuned.api import crews
from pretuned.cli import main
from pretuned.fleet import tuning as fleet
from pretuned.measure.runner import TuningError
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from pretuned.record.selections import Certificate, Losses
from pretuned.spec.space import all_problems
from pretuned.tune.events import Certified
from pretuned.tune.request import TuningDevice
from pretuned.tune.session import Tuned
from pretuned.tune.spending import Spending
from specs import SCALE, loaded, write

TABLE = '[tool.hatch.build.hooks.pretuned]\nmodule = "src/demo/tuned"\n'
OTHER = f'template = "scale.cu.jinja"\n{SCALE}'
TARGET = TuningDevice(record=H100, driver="580.159.04", effort=ROWS_ALONE)
MADE = "NVIDIA H100 80GB HBM3: {} rows, {} faster than the default (driver 580.159.04, NVRTC 13.0.88, 2026-11-21)\n"


class Machine:
    """A project in `root`, and a GPU that finds every row at once; `skip` of them it does not reach."""

    def __init__(self, root, monkeypatch, capsys):
        self.root, self.capsys = root, capsys
        (root / "kernels").mkdir()
        (root / "pyproject.toml").write_text(TABLE)
        self.spec = loaded(root / "kernels")
        self.lock = root / "pretuned.lock.json"
        self.asked, self.given, self.skip, self.error, self.ending, self.noise = [], {}, 0, None, {}, ""
        monkeypatch.setattr(crews, "find_device", lambda index, known: TARGET)
        monkeypatch.setattr(crews, "devices_here", lambda backend, known, first: [TARGET])
        monkeypatch.setattr(fleet, "tune", self.tune)
        monkeypatch.setenv("PRETUNED_CACHE_DIR", str(root / "cache"))
        monkeypatch.chdir(root)

    def tune(self, requests, target, **given):
        if self.error is not None:
            raise self.error
        self.given, self.target = given, target
        self.requests = requests
        self.asked = [(one.spec, problem) for one in requests for problem in one.problems]
        found = tuple(replace(row(spec, problem), noise=self.noise) for spec, problem in self.asked[self.skip :])
        return Tuned(
            device=target, rows=found, skipped=(), left=self.skip, spending=Spending(launched=9), **self.ending
        )

    def run(self, *arguments):
        with pytest.raises(SystemExit) as end:
            main(["tune", *arguments])
        captured = self.capsys.readouterr()
        return end.value.code, captured.out, captured.err

    def write(self, entries):
        lockfile.write(self.lock, Lock().updated({H100.name: H100}, entries))


@pytest.fixture
def machine(tmp_path, monkeypatch, capsys):
    return Machine(tmp_path, monkeypatch, capsys)


def test_the_lock_is_written_and_a_second_run_has_nothing_to_do(machine):
    status, out, err = machine.run()
    assert status == 0
    assert out.startswith(MADE.format(4, 4))
    assert (
        "0 sources compiled, 9 measurements\ngained: 4 rows, 1.25x as fast as with defaults (geometric mean)\n" in out
    )
    assert err == "pretuned.lock.json: written\n"
    before = machine.lock.read_bytes()
    assert len(lockfile.read(machine.lock).rows) == 4
    fresh = "pretuned.lock.json: every row for NVIDIA H100 80GB HBM3 is fresh; nothing to tune\n"
    assert machine.run() == (0, "", fresh)
    assert machine.lock.read_bytes() == before


def test_rows_that_the_tuning_of_another_gpu_has_written_meanwhile_stay(machine, monkeypatch):
    l4 = replace(H100, name="NVIDIA L4", sm_count=58, compute_capability=89)
    mine = machine.tune

    def meanwhile(requests, target, **given):
        lockfile.write(machine.lock, Lock().updated({l4.name: l4}, rows(machine.spec, device=l4.name)))
        return mine(requests, target, **given)

    monkeypatch.setattr(fleet, "tune", meanwhile)
    machine.run()
    assert [found.device for found in lockfile.read(machine.lock).rows] == [H100.name] * 4 + [l4.name] * 4


def test_a_tuning_again_of_stale_rows_changes_their_lines_alone(machine):
    first, second, *rest = rows(machine.spec)
    winner = replace(first.winner, candidate="of yesterday")
    machine.write([replace(first, choices=(winner, first.default)), replace(second, date="2026-01-01"), *rest])
    before = machine.lock.read_text().splitlines()
    assert machine.run()[0] == 0
    changed = [old for old, new in zip(before, machine.lock.read_text().splitlines(), strict=True) if old != new]
    assert len(changed) == 1
    assert "of yesterday" in changed[0]


def test_force_tunes_everything_anew_without_the_cache_and_confirms(machine):
    machine.write(rows(machine.spec))
    before = machine.lock.read_bytes()
    status, _, err = machine.run("--force")
    assert status == 0
    assert err == "pretuned.lock.json: every row confirmed, nothing to write\n"
    assert (len(machine.asked), machine.given["demands"].anew) == (4, True)
    assert machine.lock.read_bytes() == before


@pytest.mark.parametrize(
    ("named", "asked"),
    [
        (("scale",), lambda _: True),
        (("scale:T=float32",), lambda problem: "T=float32" in str(problem)),
        (("scale: T=float32, n = 1024",), lambda problem: str(problem) == "n=1024, T=float32"),
        (("scale:T=float32,n=1024", "scale:T=float16,n=1024"), lambda problem: "n=1024" in str(problem)),
    ],
)
def test_named_rows_are_tuned_again_though_they_are_fresh_and_only_those(machine, named, asked):
    machine.write(rows(machine.spec))
    status, _, _ = machine.run(*(part for name in named for part in ("--again", name)))
    assert status == 0
    wanted = [problem for problem in all_problems(machine.spec) if asked(problem)]
    assert wanted
    assert [problem for _, problem in machine.asked] == wanted
    assert machine.given["demands"].anew
    assert all(set(request.incumbents) >= set(request.problems) for request in machine.requests)


def test_noisy_rows_come_with_the_commands_that_keep_clocks_steady(machine):
    machine.noise = "clocks were 12% below their best"
    status, _, err = machine.run()
    assert status == 0
    assert "4 rows noisy (clocks were 12% below their best): `sudo nvidia-smi --lock-gpu-clocks=MHZ`" in err
    assert "then `pretuned tune --again scale`, and `sudo nvidia-smi --reset-gpu-clocks`" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--again", "scael"], "error: again scael: there is no kernel 'scael'"),
        (
            ["--again", "scale:n=5"],
            "error: again scale:n=5: no row of scale has n=5; they have T=float16, T=float32, n=",
        ),
        (["--again", "scale", "--force"], "error: `--again` names all that is tuned; leave out --force, --certify and"),
    ],
)
def test_rows_that_there_are_not_cannot_be_tuned_again(machine, arguments, message):
    status, _, said = machine.run(*arguments)
    assert status == 2
    assert message in said


@pytest.mark.parametrize(
    ("table", "arguments", "most", "loss"),
    [
        ("", (), 20, None),
        ("max-loss = 0.03\nmax-configurations = 4\n", (), 4, 0.03),
        ("max-loss = 0.03\n", ("--max-loss", "0.01"), 20, 0.01),
    ],
)
def test_what_selections_must_be_like_stands_in_the_table_and_the_option_goes_first(
    machine, table, arguments, most, loss
):
    (machine.root / "pyproject.toml").write_text(TABLE + table)
    assert machine.run(*arguments)[0] == 0
    demands = machine.given["demands"]
    assert (demands.max_configurations, demands.max_loss, demands.certify) == (most, loss, None)


@pytest.mark.parametrize(
    ("table", "environment", "arguments", "effort"),
    [
        ("", "", (), "default"),
        ('effort = "fast"\n', "", (), "fast"),
        ('effort = "fast"\n', "thorough", (), "thorough"),
        ("", "thorough", ("--effort", "fast"), "fast"),
    ],
)
def test_the_option_goes_before_the_environment_and_that_before_the_table(
    machine, monkeypatch, table, environment, arguments, effort
):
    (machine.root / "pyproject.toml").write_text(TABLE + table)
    monkeypatch.setenv("PRETUNED_EFFORT", environment)
    monkeypatch.setattr(crews, "find_device", lambda index, known: replace(TARGET, effort=None))
    monkeypatch.setattr(crews, "devices_here", lambda backend, known, first: [replace(TARGET, effort=None)])
    assert machine.run(*arguments)[0] == 0
    assert machine.target.profile.name == effort


def test_fresh_rows_of_less_effort_than_asked_for_are_counted(machine):
    machine.run()
    _, _, err = machine.run("--effort", "thorough", "--kernel", "scale")
    assert err.endswith(
        "nothing to tune\n4 rows of less effort left as they are: `--force` tunes them with `thorough`\n"
    )
    assert "less effort" not in machine.run("--effort", "fast")[2]
    hurried = lockfile.read(machine.lock)
    hurried = replace(hurried, rows=tuple(replace(row, effort="fast") for row in hurried.rows))
    lockfile.write(machine.lock, hurried)
    assert "4 rows of less effort" in machine.run()[2]


def test_what_was_gained_is_there_as_data(machine):
    _, printed, _ = machine.run("--json")
    gains = json.loads(printed)["gains"]
    assert (gains["rows"], gains["faster"], gains["gained_us"]) == (4, 1.25, 2.0)
    assert gains["thorough"] == {"configurations": 0, "seconds": 0, "gain": 0.0}


def test_what_was_certified_is_summed_up(machine):
    inside = Losses(problems=32, mean=0.031, p95=0.05, worst=0.08, slower=0.0, worst_at=(("n", 1031),))
    certificate = Certificate(seed=3, inside=inside)
    event = Certified(kernel="scale", specialisation=(), certificate=certificate, attempts=1, spent=True)
    machine.ending = {"certified": (event,)}
    _, printed, _ = machine.run("--max-loss", "0.02")
    assert "\n1 selection certified at 32 problems: mean 3.1%, worst 8.0% (scale at n=1031), " in printed
    assert "\nscale: mean 3.1% is over max-loss 2.0% after 1 refinement: the time for it ended\n" in printed
    (found,) = json.loads(machine.run("--json", "--force")[1])["certificates"]
    assert (found["kernel"], found["seed"], found["inside"]["worst_at"]) == ("scale", 3, {"n": 1031})
    assert (found["outside"], found["refinements"], found["budget spent"], found["hurried"]) == (None, 1, True, False)


def test_json_says_which_selections_the_budget_left_wide_or_untried(machine):
    inside = Losses(problems=32, mean=0.01, p95=0.05, worst=0.08, slower=0.0, worst_at=(("n", 1031),))
    event = Certified(kernel="scale", specialisation=(), certificate=Certificate(seed=3, inside=inside), hurried=True)
    first, second = selections(machine.spec)[:2]
    left = replace(first, certificate=None, space="")
    machine.ending = {"certified": (event,), "selections": (left, replace(second, certificate=None))}
    found = json.loads(machine.run("--json", "--force")[1])
    assert [one["hurried"] for one in found["certificates"]] == [True]
    assert found["uncertified"] == [{"kernel": "scale", "specialisation": dict(first.specialisation)}]


def test_certificates_are_renewed_and_nothing_is_tuned(machine):
    before = selections(machine.spec)
    machine.write(rows(machine.spec))
    lockfile.write(machine.lock, lockfile.read(machine.lock).updated({}, selections=before))
    first = before[0]
    renewed = replace(first, certificate=replace(first.certificate, seed=9))  # which confirms the one that stands
    machine.ending = {"selections": (renewed,)}
    status, _, said = machine.run("--certify", "16", "--seed", "9")
    assert (status, said) == (0, "pretuned.lock.json: written\n")
    (request,) = machine.requests
    assert request.problems == ()
    assert {one.specialisation for one in request.selections} == {one.specialisation for one in before}
    assert (machine.given["demands"].certify, machine.given["demands"].seed) == (16, 9)
    now = lockfile.read(machine.lock)
    assert {rule.key: rule for rule in now.selections}[first.key].certificate.seed == 9
    assert (len(now.rows), len(now.selections)) == (4, 2)


def test_what_has_no_selection_has_no_certificate_to_renew(machine):
    machine.write(rows(machine.spec))
    status, _, said = machine.run("--certify", "16")
    assert (status, said) == (
        4,
        f"error: pretuned.lock.json has no selection for {H100.name} that is not stale; run `pretuned tune`\n",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--certify", "0"], "--certify: '0' is not a number of problems; write 1 to 10000"),
        (["--certify", "many"], "--certify: 'many' is not a number of problems; write 1 to 10000"),
        (["--certify", "10001"], "--certify: '10001' is not a number of problems; write 1 to 10000"),
        (["--certify", "9" * 5000], "99' is not a number of problems; write 1 to 10000"),
        (["--seed", "-1"], f"--seed: '-1' is not a seed; write a whole number, 0 to {2**63 - 1}"),
        (["--seed", "9" * 20], "is not a seed; write a whole number, 0 to"),
        (["--seed", "9" * 5000], "is not a seed; write a whole number, 0 to"),
        (["--certify", "8", "--force"], "error: `--certify` tunes nothing; leave out --force, and write --usage"),
    ],
)
def test_odd_numbers_of_problems_and_seeds_are_refused(machine, arguments, message):
    status, _, said = machine.run(*arguments)
    assert status == 2
    assert message in said


@pytest.mark.parametrize("given", ["2", "0", "-0.1", "two", "nan"])
def test_a_loss_is_a_share(machine, given):
    status, _, said = machine.run("--max-loss", given)
    assert status == 2
    assert f"'{given}' is not a share between 0 and 1; write 0.02 for 2%" in said


@pytest.mark.parametrize(
    ("arguments", "environment", "budget_s"),
    [
        ((), "", None),
        ((), "7", 7.0),
        (("--budget", "5"), "7", 5.0),
        (("--budget", "0"), "", 0.0),
        (("--budget", "none"), "7", None),
    ],
)
def test_the_budget_is_the_options_then_the_environments_and_never_the_builds(
    machine, monkeypatch, arguments, environment, budget_s
):
    (machine.root / "pyproject.toml").write_text(TABLE + "budget = 60\n")
    monkeypatch.setenv("PRETUNED_BUDGET", environment)
    assert machine.run(*arguments)[0] == 0
    assert machine.given["budget_s"] == budget_s


def test_rows_that_were_not_reached_are_told_and_come_next_time(machine):
    machine.skip = 1
    assert machine.run()[2] == ("pretuned.lock.json: written\nrun the same command again to go on: 1 row not reached\n")
    assert "no time was given to measure anything: 1 row not reached" in machine.run("--budget", "0")[2]
    machine.skip = 0
    assert machine.run()[0] == 0
    assert len(machine.asked) == 1
    assert len(lockfile.read(machine.lock).rows) == 4


def test_json_is_json_also_where_nothing_is_to_do(machine):
    status, out, _ = machine.run("--json")
    found = json.loads(out)
    assert (status, found["device"], len(found["rows"]), found["left"], found["launched"]) == (0, H100.name, 4, 0, 9)
    found = json.loads(machine.run("--json")[1])
    assert (found["device"], found["rows"], found["launched"]) == (H100.name, [], 0)


def test_one_kernel_leaves_the_others_alone(machine):
    write(machine.root / "kernels", OTHER, name="other")
    status, _, _ = machine.run("--kernel", "other")
    assert status == 0
    assert {spec.name for spec, _ in machine.asked} == {"other"}


def test_what_another_tuning_has_written_meanwhile_stays_where_nothing_is_left_to_tune(machine, monkeypatch):
    machine.run()
    whole = lockfile.read(machine.lock)
    machine.write([replace(whole.rows[0], kernel="gone"), *whole.rows])
    l4 = replace(H100, name="NVIDIA L4", compute_capability=89)

    def requests(*_):
        meanwhile = lockfile.read(machine.lock).updated({l4.name: l4}, rows(machine.spec, device=l4.name))
        lockfile.write(machine.lock, meanwhile)
        return []

    monkeypatch.setattr("pretuned.api.tuning.tuning_requests", requests)
    assert "4 obsolete" not in machine.run()[2]
    kept = lockfile.read(machine.lock).rows
    assert {(row.kernel, row.device) for row in kept} == {("scale", H100.name), ("scale", l4.name)}


def test_a_cache_that_cannot_be_used_is_said(machine, monkeypatch):
    monkeypatch.setenv("PRETUNED_CACHE_DIR", "/proc/none")
    status, _, err = machine.run()
    assert status == 0
    assert "warning: /proc/none: the cache cannot be used, so what is measured is kept in rows alone: " in err
    assert "; name a folder that can be written with PRETUNED_CACHE_DIR" in err


def test_rows_of_what_the_specs_no_longer_have_are_removed(machine):
    write(machine.root / "kernels", OTHER, name="other")
    machine.run()
    assert {entry.kernel for entry in lockfile.read(machine.lock).rows} == {"scale", "other"}
    (machine.root / "kernels/other.toml").unlink()
    machine.run("--kernel", "scale")
    assert {entry.kernel for entry in lockfile.read(machine.lock).rows} == {"scale", "other"}
    assert machine.run() == (
        0,
        "",
        "pretuned.lock.json: every row for NVIDIA H100 80GB HBM3 is fresh; nothing to tune; 4 obsolete rows removed\n",
    )
    assert {entry.kernel for entry in lockfile.read(machine.lock).rows} == {"scale"}
    with pytest.raises(SystemExit) as end:
        main(["check"])
    assert end.value.code == 0


def test_a_default_that_fails_ends_with_its_own_status_and_leaves_the_lock(machine):
    machine.error = TuningError("scale: the default fails")
    assert machine.run() == (7, "", "error: scale: the default fails\n")
    assert not machine.lock.exists()


def test_ctrl_c_leaves_the_lock(machine):
    machine.error = KeyboardInterrupt()
    assert machine.run() == (130, "", "interrupted; what was measured is kept\n")
    assert not machine.lock.exists()


@pytest.mark.parametrize(
    ("ending", "status", "said"),
    [
        ({"interrupted": True}, 130, "interrupted; what was measured"),
        ({"trouble": "the GPU is gone"}, 5, "the GPU is gone"),
    ],
)
def test_what_was_settled_before_an_early_end_is_written(machine, ending, status, said):
    machine.skip, machine.ending = 1, ending
    code, _, err = machine.run()
    assert (code, said in err) == (status, True)
    assert len(lockfile.read(machine.lock).rows) == 3


def test_where_the_lock_could_not_be_written_nothing_is_tuned(machine, monkeypatch):
    def refuse(path, *, folder):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(lockfile, "temporary", refuse)
    said = f"error: {machine.lock}: the lock cannot be written: Read-only file system; make it writable, or name"
    assert machine.run() == (10, "", f"{said} another path\n")
    assert machine.asked == []
