from pathlib import Path

import platformdirs
import pytest

from pretuned.config import GPU, Place, Settings, build_project, overlay, read_settings
from pretuned.errors import ConfigError
from pretuned.schema.descriptions import ENVIRONMENT


def test_an_empty_environment_leaves_everything_to_the_table():
    expected = Settings(
        mode=None, device=Place(every=True), budget_s=None, cache=platformdirs.user_cache_path("pretuned")
    )
    assert read_settings({}) == expected
    assert read_settings({"PRETUNED_MODE": "", "PRETUNED_BUDGET": " "}) == expected


def test_every_variable_is_read(tmp_path):
    environ = {
        "PRETUNED_MODE": "force",
        "PRETUNED_TUNE_ON": "cuda:1",
        "PRETUNED_BUDGET": "2.5",
        "PRETUNED_CACHE_DIR": str(tmp_path),
        "PRETUNED_PROGRESS": "plain",
        "PRETUNED_EFFORT": "fast",
    }
    assert read_settings(environ) == Settings(
        mode="force", device=Place(index=1), budget_s=2.5, cache=tmp_path, progress="plain", effort="fast"
    )


PLACES = {
    "auto": Place(every=True),
    "cuda": GPU,
    "cuda:0": GPU,
    "cuda:12": Place(backend="cuda", index=12),
    "host": Place(backend="host"),
}


@pytest.mark.parametrize(("value", "device"), PLACES.items())
def test_the_device_to_tune_on(value, device):
    assert read_settings({"PRETUNED_TUNE_ON": value}).device == device


def test_a_relative_cache_folder_does_not_move_with_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_settings({"PRETUNED_CACHE_DIR": "cache"}).cache == tmp_path / "cache"


def test_all_bad_values_are_named_at_once(tmp_path):
    file = tmp_path / "file"
    file.touch()
    environ = {
        "PRETUNED_MODE": "lock",
        "PRETUNED_TUNE_ON": "gpu",
        "PRETUNED_BUDGET": "1m",
        "PRETUNED_CACHE_DIR": str(file),
        "PRETUNED_PROGRESS": "no",
        "PRETUNED_EFFORT": "slow",
    }
    with pytest.raises(ConfigError) as caught:
        read_settings(environ)
    assert str(caught.value).splitlines() == [
        "invalid configuration (6 problems):",
        "  PRETUNED_MODE: is \"lock\"; expected 'auto', 'locked', 'force' or 'off'; did you mean 'locked'?",
        "  PRETUNED_TUNE_ON: is \"gpu\"; expected 'auto', 'cuda', 'cuda:1' or 'host'",
        "  PRETUNED_BUDGET: is \"1m\"; expected seconds, such as '60'",
        f"  PRETUNED_CACHE_DIR: '{file}' is a file; expected a folder",
        "  PRETUNED_PROGRESS: is \"no\"; expected 'auto', 'plain' or 'off'",
        "  PRETUNED_EFFORT: is \"slow\"; expected 'fast', 'default' or 'thorough'",
    ]


@pytest.mark.parametrize("value", ["-1", "inf", "nan", "1e9", "٣"])
def test_a_budget_is_a_plain_number_of_seconds(value):
    with pytest.raises(ConfigError, match="PRETUNED_BUDGET"):
        read_settings({"PRETUNED_BUDGET": value})


@pytest.mark.parametrize("value", ["cuda:", "cuda:-1", "cuda:a", "gpu", "cpu"])
def test_an_unknown_device_to_tune_on(value):
    with pytest.raises(
        ConfigError, match=f"PRETUNED_TUNE_ON: is \"{value}\"; expected 'auto', 'cuda', 'cuda:1' or 'host'"
    ):
        read_settings({"PRETUNED_TUNE_ON": value})


def test_the_environment_goes_before_the_table():
    project = build_project({"module": "a", "mode": "locked", "budget": 30}, root=Path("/project"))
    untouched = overlay(project, read_settings({}))
    assert untouched == project
    forced = overlay(project, read_settings({"PRETUNED_MODE": "auto", "PRETUNED_BUDGET": "0"}))
    assert (forced.mode, forced.budget_s) == ("auto", 0.0)
    assert forced.modules == project.modules


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x" * 5000, "has 5000 characters, too many for a path; expected a folder"),
        ("~nobodyatall/x", '"~nobodyatall/x": there is no such user; expected a folder'),
    ],
)
def test_a_cache_folder_that_cannot_be(value, message):
    with pytest.raises(ConfigError) as caught:
        read_settings({"PRETUNED_CACHE_DIR": value})
    assert str(caught.value).splitlines()[1:] == [f"  PRETUNED_CACHE_DIR: {message}"]


def test_a_user_without_a_home_has_no_cache(monkeypatch):
    def no_home(_name):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(platformdirs, "user_cache_path", no_home)
    assert read_settings({}).cache is None


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("PRETUNED_MOD", "PRETUNED_MODE"),
        ("PRETUNED_BUDGETT", "PRETUNED_BUDGET"),
        ("PRETUNED_TUNEON", "PRETUNED_TUNE_ON"),
        ("PRETUNED_mode", "PRETUNED_MODE"),
    ],
)
def test_a_misspelt_variable_is_an_error_that_names_the_one_that_was_meant(name, meant):
    with pytest.raises(ConfigError) as caught:
        read_settings({name: "locked"})
    assert [str(fault) for fault in caught.value.faults] == [
        f"{name}: there is no such variable; did you mean '{meant}'?"
    ]


def test_variables_of_run_time_and_those_of_others_are_left_alone():
    others = {name: "1" for name in ENVIRONMENT if name not in ("PRETUNED_MODE", "PRETUNED_TUNE_ON", "PRETUNED_BUDGET")}
    others |= {"PRETUNED_EFFORT": "", "PRETUNED_PROGRESS": "", "PRETUNED_CACHE_DIR": "", "PRETUNED_HOME": "1"}
    assert read_settings(others) == read_settings({})
