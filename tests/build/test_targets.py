"""What the devices of a project lack of what its kernels need, said with the version that brought it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import attributed
from builders import H100
from fake_session import PROBED
from pretuned.build import targets
from pretuned.build.targets import check_targets
from pretuned.compile.nvrtc import newer_release
from pretuned.config import Project
from pretuned.device import probe
from pretuned.device.probe import DriverVersion
from pretuned.errors import ConfigError
from pretuned.record.lock import Lock
from pretuned.spec.loader import load
from reported import Reported
from specs import loaded

A100 = replace(H100, compute_capability=80)
CAME = "came with compute capability 9.0, which is newer than"
REMEDY = "calls there are errors; give the kernel a default without, if they should not be"


@pytest.fixture
def spec(tmp_path):
    """A kernel that launches clusters of two."""
    attributed.spec(tmp_path, 'cluster = ["size"]')
    text = (tmp_path / "wide.toml").read_text().replace("default = { size = 1 }", "default = { size = 2 }")
    (tmp_path / "wide.toml").write_text(text)
    return load(tmp_path / "wide.toml")


@pytest.fixture
def machine(monkeypatch):
    """Sets what the machine has: a driver's CUDA version, GPUs, and a version of NVRTC."""

    def machine(*gpus, cuda=None, nvrtc=None):
        found = None if cuda is None else DriverVersion(version="", cuda=cuda)
        monkeypatch.setattr(probe, "driver", lambda: found)
        monkeypatch.setattr(probe, "gpus", lambda: gpus)
        monkeypatch.setattr(targets, "installed_nvrtc", lambda: nvrtc)

    machine()
    return machine


def said(spec, folder, *architectures, devices=()):
    project = Project(root=folder, modules=(), lock=folder / "pretuned.lock.json", architectures=architectures)
    reported = Reported()
    check_targets(project, [spec], Lock().updated({device.name: device for device in devices}, []), reported)
    return reported


def test_a_kernel_that_is_newer_than_a_target_is_warned_of(spec, machine, tmp_path):
    begin = f"warning: wide.toml: launches[0].cluster: clusters {CAME}"
    assert said(spec, tmp_path, "sm_90", devices=[H100]) == []
    assert said(spec, tmp_path, "sm_80", "sm_90") == [f"{begin} sm_80 (`architectures`): {REMEDY}"]
    machine(replace(PROBED, name="NVIDIA L4", compute_capability=89), PROBED)
    assert said(spec, tmp_path, devices=[replace(A100, name="NVIDIA A100")]) == [
        f"{begin} NVIDIA A100 (pretuned.lock.json) and NVIDIA L4 (this machine): {REMEDY}"
    ]


def test_arch_specific_code_is_newer_too_and_a_cluster_of_one_is_not(spec, machine, tmp_path):
    text = (tmp_path / "wide.toml").read_text()
    (tmp_path / "wide.toml").write_text(text.replace("size = 2 }", "size = 1 }"))
    assert said(load(tmp_path / "wide.toml"), tmp_path, "sm_80") == []
    (tmp_path / "wide.toml").write_text(text + "\n[compile]\narch-specific = true\n")
    assert said(load(tmp_path / "wide.toml"), tmp_path, "sm_86") == [
        f"warning: wide.toml: compile.arch-specific: arch-specific code {CAME} sm_86 (`architectures`): {REMEDY}"
    ]


def test_a_driver_that_is_too_old_is_warned_of(spec, machine, tmp_path):
    machine(cuda=(11, 8))
    assert said(spec, tmp_path) == [
        (
            "warning: the driver supports CUDA 11.8, and CuPy needs one that supports CUDA 12 or newer; tuning "
            "and calls here need a newer one"
        )
    ]
    machine(cuda=(12, 0))
    assert said(spec, tmp_path) == []


def test_an_architecture_that_is_newer_than_nvrtc_is_an_error(spec, machine, tmp_path):
    machine(nvrtc="12.4.127")
    with pytest.raises(ConfigError) as caught:
        said(spec, tmp_path, "sm_90", "sm_100a")
    assert str(caught.value).splitlines()[1:] == [
        (
            "  pyproject.toml: architectures[1]: sm_100a came with CUDA 12.8, and NVRTC here is 12.4.127; install that "
            "release of it, or leave sm_100a out"
        )
    ]


@pytest.mark.parametrize(
    ("architecture", "nvrtc", "newer"),
    [
        ("sm_100", "12.6.85", "12.8"),
        ("sm_100a", "12.8.61", ""),
        ("compute_103", "12.8.93", "12.9"),
        ("sm_120", "12.10.1", ""),
        ("sm_110", "12.9.86", "13.0"),
        ("sm_90", "12.0.76", ""),
        ("sm_999", "13.0.88", ""),
    ],
)
def test_the_release_that_brought_an_architecture(architecture, nvrtc, newer):
    assert newer_release(architecture, nvrtc) == newer


SCALE_WHERE = ("n % vec == 0", 'n % vec == 0", "n * vec <= device.l2_bytes // 100", "device.compute_capability >= 90')


def test_a_default_that_a_condition_about_the_device_excludes_is_warned_of(machine, tmp_path):
    spec = loaded(tmp_path, SCALE_WHERE)
    small = replace(H100, name="NVIDIA Small", l2_bytes=5_000_000)
    assert said(spec, tmp_path, "sm_90", devices=[H100]) == []
    machine(replace(PROBED, name="NVIDIA Little", l2_bytes=4_000_000))
    end = "calls there without another choice are errors, and it cannot be tuned; "
    end += "choose a default that every device admits"
    default = "excludes the default (block=256, vec=1) on"
    head = "warning: scale.toml: constraints.where"
    assert said(spec, tmp_path, "sm_80", devices=[H100, small]) == [
        (
            f"{head}[3]: 'device.compute_capability >= 90' {default} sm_80 (`architectures`), as at n=1024, T=float16: "
            f"{end}"
        ),
        (
            f"{head}[2]: 'n * vec <= device.l2_bytes // 100' {default} NVIDIA Small (pretuned.lock.json) and "
            f"NVIDIA Little (this machine), as at n=65536, T=float16: {end}"
        ),
    ]
