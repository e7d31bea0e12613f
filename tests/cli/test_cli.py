"""The command line: what it prints, and the status it ends with."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from builders import H100, rows, selections
from pretuned.cli import devices, main
from pretuned.compile.result import Toolchain
from pretuned.device import host, probe
from pretuned.device.probe import Gpu
from pretuned.record import lock as lockfile
from pretuned.record.lock import Lock
from specs import SCALE_TEMPLATE, loaded, write

TABLE = '[tool.hatch.build.hooks.pretuned]\nmodule = "src/demo/tuned"\n'


TEMPLATE = "#include <cuda_fp16.h>\n" + SCALE_TEMPLATE


@pytest.fixture
def project(tmp_path, monkeypatch, compiled):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "pyproject.toml").write_text(TABLE)
    monkeypatch.setenv("PRETUNED_CACHE_DIR", str(compiled))
    monkeypatch.setattr(probe, "gpus", lambda given=None: ())
    monkeypatch.setattr(probe, "driver", lambda given=None: None)
    write(tmp_path / "kernels", template=TEMPLATE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    captured = capsys.readouterr()
    return end.value.code, captured.out, captured.err


def lock(project):
    spec = loaded(project / "kernels", template=TEMPLATE)
    lockfile.write(project / "pretuned.lock.json", Lock().updated({H100.name: H100}, rows(spec)))


def test_show_of_a_lock(project, capsys):
    lock(project)
    status, out, _ = run(capsys, "show")
    assert status == 0
    assert out == (
        "pretuned.lock.json (not baked: the project is not installed)\n\n"
        "NVIDIA H100 80GB HBM3: 4 rows, 4 faster than the default (driver 580.159.04, NVRTC 13.0.88, 2026-11-21)\n"
        "kernel  problem             default us  winner us  faster  configuration\n"
        "scale   n=1024, T=float16        10.00       8.00   1.25x  block=256, vec=4\n"
        "scale   n=65536, T=float16       10.00       8.00   1.25x  block=256, vec=4\n"
        "scale   n=1024, T=float32        10.00       8.00   1.25x  block=256, vec=4\n"
        "scale   n=65536, T=float32       10.00       8.00   1.25x  block=256, vec=4\n"
    )
    status, out, _ = run(capsys, "show", "pretuned.lock.json", "--json", "--device", "H100")
    assert [entry["speedup"] for entry in json.loads(out)["rows"]] == [1.25] * 4
    assert json.loads(run(capsys, "show", "--json", "--kernel", "other")[1])["rows"] == []


def test_show_of_a_lock_with_selections(project, capsys):
    lock(project)
    spec = loaded(project / "kernels", template=TEMPLATE)
    held = lockfile.read(project / "pretuned.lock.json")
    lockfile.write(project / "pretuned.lock.json", held.updated({}, selections=selections(spec)))
    out = run(capsys, "show")[1]
    assert f"\n\n{H100.name}, at all other sizes: 2 selections\n" in out
    assert "\nscale   T=float32           2    32 inside   0.6%  2.1%   4.3%       0  n=1024\n" in out
    found = json.loads(run(capsys, "show", "--json", "--kernel", "scale")[1])["selections"]
    assert [(one["specialisation"], one["certificate"]["seed"]) for one in found] == [
        ("T=float16", 7),
        ("T=float32", 7),
    ]
    assert json.loads(run(capsys, "show", "--json", "--device", "L4")[1])["selections"] == []


@pytest.mark.parametrize(
    ("name", "sms", "gbps", "note"),
    [
        (H100.name, 132, 3352, ""),
        ("NVIDIA H200", 132, 4814, f"takes the rows of {H100.name}"),
        (
            "NVIDIA H100 PCIe",
            114,
            2039,
            f"takes the rows of {H100.name}, with a warning: it has 3352 GB/s of memory where this device has 2039",
        ),
        (
            f"{H100.name} MIG 1g.10gb",
            16,
            419,
            f"runs defaults ('{H100.name}' has 132 SMs where this device has 16)",
        ),
    ],
)
def test_show_says_whose_rows_a_gpu_here_takes(project, capsys, monkeypatch, name, sms, gbps, note):
    lock(project)
    facts = {"compute_capability": 90, "l2_bytes": 50 << 20, "shared_bytes": 232448, "memory_bytes": 80 << 30}
    gpu = Gpu(index=0, name=name, uuid="GPU-0", sm_count=sms, memory_gbps=gbps, power_w=700, **facts)
    monkeypatch.setattr("pretuned.cli.show.probe.gpus", lambda: (gpu,))
    *_, last = run(capsys, "show")[1].splitlines()
    assert last == f"cuda:0, {name}, {note}" if note else "cuda:0" not in last


def test_check(project, capsys):
    assert run(capsys, "check") == (4, "pretuned.lock.json: no rows; run `pretuned tune` on a machine with a GPU\n", "")
    lock(project)
    assert run(capsys, "check")[:2] == (0, "pretuned.lock.json: 4 rows for NVIDIA H100 80GB HBM3, all fresh\n")
    write(project / "kernels", template=(project / "kernels/scale.cu.jinja").read_text().replace("a * ", "2 * a * "))
    status, out, _ = run(capsys, "check", "--json")
    assert status == 4
    assert {finding["state"] for finding in json.loads(out)["findings"]} == {"stale"}
    assert run(capsys, "check")[1].endswith("pretuned.lock.json: 4 of 4 rows are not fresh; run `pretuned tune`\n")


def test_tune_without_a_gpu(project, capsys):
    message = (
        "error: use `--on host` to try things on this machine's processor: "
        "there is no GPU 0 here to tune on (`pretuned devices` lists what there is)\n"
    )
    assert run(capsys, "tune") == (5, "", message)


def test_devices_without_a_driver(project, capsys, monkeypatch):
    monkeypatch.setattr(host, "processor", lambda: "Abacus 3000")
    monkeypatch.setattr(devices, "CPP", Toolchain(worker="", installed=lambda: None, any_architecture=""))
    lines = (
        "no NVIDIA driver: builds here bake the rows of the lock, or else the defaults\n"
        "host: Abacus 3000, no C++ compiler (`--on host`, for trying things out)\n"
    )
    assert run(capsys, "devices")[:2] == (0, lines)
    assert json.loads(run(capsys, "devices", "--json")[1]) == {
        "driver": None,
        "gpus": [],
        "silent": [],
        "host": {"processor": "Abacus 3000", "compiler": None},
    }


def test_an_unknown_kernel_has_its_neighbour_named(project, capsys):
    status, _, err = run(capsys, "tune", "--kernel", "scal")
    assert (status, err) == (2, "error: there is no kernel 'scal'; did you mean 'scale'?\n")


def test_a_wrong_spec_and_a_wrong_table_have_their_own_status(project, capsys):
    (project / "kernels/scale.toml").write_text("format = 1\nlaunchs = []\n")
    status, _, err = run(capsys, "check")
    assert status == 2
    assert "scale.toml: launchs: unknown key 'launchs'; did you mean 'launches'?" in err
    (project / "pyproject.toml").write_text(TABLE + 'mode = "sometimes"\n')
    status, _, err = run(capsys, "check")
    assert status == 3
    assert "tool.hatch.build.hooks.pretuned.mode" in err


def test_a_lock_of_a_newer_format(project, capsys):
    (project / "pretuned.lock.json").write_text('{"format": 9}')
    status, _, err = run(capsys, "check")
    assert status == 4
    assert "has format 9, written by a newer pretuned" in err


def test_bake_writes_a_package_that_can_be_imported_and_explained(project, capsys, monkeypatch):
    lock(project)
    status, out, _ = run(capsys, "bake", "--output", "out", "--with", "scale:block=128,vec=2")
    assert status == 0
    assert "files" in out
    monkeypatch.syspath_prepend(str(project / "out/src"))
    (project / "out/src/demo/__init__.py").write_text("")
    status, out, _ = run(
        capsys, "explain", "scale", "n=1024", "T=float32", "--device", H100.name, "--package", "demo.tuned"
    )
    assert status == 0
    assert "runs    block=256, vec=4" in out
    status, out, _ = run(capsys, "show", "demo.tuned")
    assert "[recompiled]" in out
    assert "block=128, vec=2" not in out
    assert "(128" not in out
    assert "'block': 128, 'vec': 2" in (project / "out/src/demo/tuned/__init__.py").read_text().replace('"', "'")
    status, _, _ = run(capsys, "explain", "scale", "n=1024", "--device", H100.name, "--package", "demo.tuned")
    assert status == 2
    for name in [name for name in sys.modules if name.startswith("demo")]:
        del sys.modules[name]


def test_a_baked_package_shows_and_explains_the_selections_of_its_lock(project, capsys):
    spec = loaded(project / "kernels", template=TEMPLATE)
    first, second = selections(spec)
    held = Lock().updated({H100.name: H100}, rows(spec), selections=[first, replace(second, certificate=None)])
    lockfile.write(project / "pretuned.lock.json", held)
    of_lock = json.loads(run(capsys, "show", "pretuned.lock.json", "--json")[1])["selections"]
    run(capsys, "bake")
    try:
        of_package = json.loads(run(capsys, "show", "--json")[1])["selections"]
        status, out, _ = run(capsys, "explain", "scale", "n=5000", "T=float16", "--device", H100.name)
    finally:
        for name in [name for name in sys.modules if name.startswith("demo")]:
            del sys.modules[name]
    assert of_package == of_lock
    assert [one["certificate"] is None for one in of_package] == [False, True]
    assert status == 0
    assert "32 problems, mean 0.6%, p95 2.1%, worst 4.3%, none slower than the default" in out


def test_explain_finds_a_package_in_the_sources_of_a_project_that_is_not_installed(project, capsys):
    lock(project)
    run(capsys, "bake")
    try:
        status, out, _ = run(capsys, "explain", "scale", "n=1024", "T=float32", "--device", H100.name)
    finally:
        for name in [name for name in sys.modules if name.startswith("demo")]:
            del sys.modules[name]
    assert status == 0
    assert "runs    block=256, vec=4" in out
    assert not [place for place in sys.path if place.startswith(str(project))]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("scal:block=1", "--with scal:block=1: there is no kernel 'scal'; did you mean 'scale'?"),
        ("scale:block", "--with scale:block: 'block' is not a k=v"),
        ("scale:block=96", "--with scale:block=96: block is one of 128, 256 in scale.toml"),
        ("scale:blok=128", "--with scale:blok=128: scale has no parameter 'blok'; did you mean 'block'?"),
    ],
)
def test_bake_refuses_what_cannot_ship(project, capsys, extra, message):
    status, _, err = run(capsys, "bake", "--output", "out", "--with", extra)
    assert status != 0
    assert message in err


def test_ctrl_c_ends_with_130(project, capsys, monkeypatch):
    def interrupted(_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("pretuned.cli.check.run", interrupted)
    assert run(capsys, "check") == (130, "", "interrupted\n")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--device", "B200"), "no rows of a device with 'B200' in its name"),
        (("--kernel", "scal"), "no rows of scal"),
        (("--kernel", "scale", "--device", "B200"), "no rows of scale of a device with 'B200' in its name"),
    ],
)
def test_show_says_what_there_is_where_nothing_is_of_what_was_asked_for(project, capsys, asked, words):
    spec = loaded(project / "kernels", template=TEMPLATE)
    lockfile.write(project / "pretuned.lock.json", Lock().updated({H100.name: H100}, rows(spec)))
    status, out, _ = run(capsys, "show", "pretuned.lock.json", *asked)
    assert (status, out) == (0, f"pretuned.lock.json\n\n{words}; there are rows of scale on {H100.name}\n")


INTERRUPTED = """\
import sys
from pretuned.cli import main

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "pretuned.cli.parser":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Finder())
main(["check"])
"""


def test_ctrl_c_while_modules_are_imported_ends_as_quietly():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_where_the_reader_of_the_output_ends_first_the_status_is_not_that_of_success(project):
    command = [sys.executable, "-m", "pretuned", "check", "--json"]
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(command, cwd=project, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_no_command_and_an_unknown_one_are_usage_errors(capsys):
    assert run(capsys)[0] == 2
    assert run(capsys, "tuen")[0] == 2


def test_check_execute_asks_for_numpy_as_tuning_on_the_host_does(project, capsys, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "numpy" else find(name, *rest))
    said = "error: the host device needs NumPy: pip install numpy\n"
    assert run(capsys, "check", "--execute") == (5, "", said)


def test_no_time_helps_a_kernel_that_does_not_compile(project, capsys):
    write(project / "kernels", template=TEMPLATE.replace("{", "{ slip;", 1))
    status, out, err = run(capsys, "check", "--execute", "--sample", "1")
    assert (status, out.split()[-6:-3]) == (8, ["0", "of", "2"])
    assert re.search(r"^executed 0 of 2 configurations at 0 sizes in \d+ s$", err, re.MULTILINE)
