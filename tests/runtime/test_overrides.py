"""What the environment may ask for, and what it may not."""

import json
import re
import warnings

import pytest

PROBLEM = {"rows": 16, "cols": 1024, "T": "float32", "relu": False}


@pytest.fixture
def loaded(load, baked, cupy, monkeypatch):
    """Import the package under an environment."""

    def loaded(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(f"PRETUNED_{name}", str(value))
        return load(baked)

    return loaded


def block(tuned, cupy, cols=1024):
    tuned.affine(cupy.ndarray((16, cols), "float32"), 1.0, relu=False)
    return cupy.library.launches[-1].block[0]


def test_another_devices_rows(loaded, cupy):
    with pytest.warns(UserWarning, match="was compiled for 'NVIDIA H100 80GB HBM3' while the program runs"):
        assert block(loaded(DEVICE="A100-SXM4-40GB"), cupy) == 1024
    assert cupy.compiled[0][1][:2] == ("-arch=sm_90", "--std=c++17")


def test_the_defaults(loaded, cupy, cuda):
    assert block(loaded(DEFAULTS=1), cupy) == 128
    assert cuda.launches[0].grid == (16, 8, 1)


@pytest.mark.parametrize(
    "choice",
    [
        "affine:block=64,vec=1",
        " pkg.tuned.affine : vec = 1 , block=64 ; ",
        "affine:implementation=main,block=64,vec=1",
        "elsewhere:block=3; other.package.affine:block=7; affine:block=64,vec=1",
    ],
)
def test_a_shipped_configuration(loaded, cupy, choice):
    tuned = loaded(CONFIG=choice)
    assert block(tuned, cupy) == 64
    assert tuned.explain("affine", **PROBLEM).why[-1] == "PRETUNED_CONFIG"


def test_a_configuration_whose_guards_fail_leaves_the_rows_choice(loaded, cupy, cuda):
    tuned = loaded(CONFIG="affine:block=64,vec=4")
    assert block(tuned, cupy, cols=1022) == 64
    found = tuned.explain("affine", **PROBLEM | {"cols": 1022})
    assert found.configuration == {"block": 64, "vec": 1}
    assert found.why[0] == "passed over block=64, vec=4: 'cols % vec == 0' does not hold"
    assert block(tuned, cupy) == 64
    assert cuda.launches[-1].grid == (16, 4, 1)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"CONFIG": "affine:block=512,vec=4"},
            (
                "PRETUNED_CONFIG: pkg.tuned.affine does not ship block=512, vec=4; it ships block=1024, vec=1; "
                "block=128, vec=1; block=128, vec=4; block=64, vec=1; block=64, vec=2; block=64, vec=4. "
                "To ship another, build with `pretuned bake --with affine:block=512,vec=4`"
            ),
        ),
        (
            {"CONFIG": "accumulate:implementation=staged,blocks=8"},
            (
                "does not ship staged: blocks=8; it ships atomic: block=128; atomic: block=256; staged: blocks=64. "
                "To ship another, build with `pretuned bake --with accumulate:implementation=staged,blocks=8`"
            ),
        ),
        ({"CONFIG": "affine:block=true,vec=1"}, "does not ship block=true, vec=1"),
        (
            {"CONFIG": "pkg.tuned.afine:block=64"},
            "pkg.tuned has no kernel 'afine'; did you mean 'affine'?",
        ),
        ({"CONFIG": "block=64"}, "'block=64' is not KERNEL:key=value,... as in 'axpby:block=512'"),
        ({"CONFIG": "affine:block"}, "'block' in 'affine:block' is not key=value"),
        ({"CONFIG": "affine:block=big"}, "a configuration names every parameter, and vec is missing"),
        (
            {"DEVICE": "NVIDIA H100"},
            "PRETUNED_DEVICE: the table has no device 'NVIDIA H100'; did you mean 'NVIDIA H100 80GB HBM3'?",
        ),
        ({"STRICT": "perhaps"}, "PRETUNED_STRICT: expected 1 or 0, found 'perhaps'"),
        ({"TABLE": "nowhere.json"}, "PRETUNED_TABLE: 'nowhere.json' cannot be read as JSON"),
    ],
)
def test_a_wish_that_cannot_be_granted_is_an_error_at_every_call(loaded, cupy, variables, message, cuda):
    tuned = loaded(**variables)
    for _ in range(2):
        with pytest.raises(ValueError, match=re.escape(message)) as caught:
            block(tuned, cupy)
        assert isinstance(caught.value, tuned.PretunedError)
    assert cuda.launches == []


def test_a_configuration_not_shipped_for_this_specialisation(loaded, cupy):
    tuned = loaded(CONFIG="affine:block=64,vec=4")
    with pytest.raises(ValueError, match=r"does not ship block=64, vec=4; it ships block=128, vec=1\. To ship"):
        tuned.affine(cupy.ndarray((16, 1024), "float16"), 1.0, relu=False)


def test_strict_refuses_what_was_not_measured(loaded, cupy):
    tuned = loaded(STRICT=1)
    assert block(tuned, cupy) == 128
    with pytest.raises(RuntimeError, match=r"no row for the device .* and strict is set") as caught:
        tuned.affine(cupy.ndarray((16, 1024), "float16"), 1.0, relu=False)
    assert isinstance(caught.value, tuned.PretunedError)


def test_the_warning_can_be_silenced(loaded, cupy):
    tuned = loaded(WARN=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tuned.affine(cupy.ndarray((16, 1024), "float16"), 1.0, relu=False)


CHOSEN = {"implementation": "main", "configuration": {"block": 64, "vec": 1}}


def lock(**changes):
    """Return a lock with one row: block 64, vec 1 at 1024 on a device of its own."""
    measured = {"time_us": 1.5, "ratio": [0.1, 0.2], "spread_us": [1.4, 1.5, 1.75]}
    row = {
        "kernel": "affine",
        "device": "NVIDIA H100 80GB HBM3",
        "specialisation": {"T": "float32", "relu": False},
        "problem": {"rows": 16, "cols": 1024},
        "choices": [CHOSEN | measured],
        "unknown": "ignored",
    }
    devices = {"NVIDIA H100 80GB HBM3": {"sm_count": 132, "compute_capability": 90}}
    return {"format": 1, "devices": devices, "rows": [row | changes]}


def test_another_table(loaded, cupy, tmp_path):
    (tmp_path / "other.json").write_text(json.dumps(lock()))
    tuned = loaded(TABLE=tmp_path / "other.json")
    assert block(tuned, cupy) == 64
    found = tuned.explain("affine", **PROBLEM)
    assert (found.time_us, found.ratio, found.spread_us) == (1.5, (0.1, 0.2), (1.4, 1.5, 1.75))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("[]", "is not a lock of format 1 (its format is None)"),
        ('{"format": 2}', "is not a lock of format 1 (its format is 2)"),
        (json.dumps(lock())[:80], "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        (
            json.dumps(lock(problem={"rows": 1})),
            "rows[0]: 'problem' is {'rows': 1}, not sizes of cols, rows; take a lock as `pretuned tune` writes it",
        ),
        (
            json.dumps(lock(problem={"rows": 1, "cols": "7"})),
            "rows[0]: 'cols' is '7', not a whole number from 0 to 4611686018427387904; take a lock as",
        ),
        (
            json.dumps(lock(choices=[{**CHOSEN, "spread_us": [2, 1, 3]}])),
            "rows[0].choices[0]: 'spread_us' is [2, 1, 3], not three times above 0 in ascending order; take a lock as",
        ),
        (json.dumps(lock(choices=7)), "rows[0]: 'choices' is 7, not a list; take a lock as"),
        (json.dumps(lock(kernel=["affine"])), "rows[0]: 'kernel' is ['affine'], not a text; take a lock as"),
        (
            json.dumps(lock(choices=[{"implementation": "main", "configuration": {"block": 512, "vec": 8}}])),
            "pkg.tuned.affine does not ship block=512, vec=8; it ships",
        ),
        (
            json.dumps(
                lock(
                    kernel="accumulate",
                    specialisation={"lanes": 2},
                    problem={"n": 65536},
                    choices=[{"implementation": "staged", "configuration": {"blocks": 8}}],
                )
            ),
            "build with `pretuned bake --with accumulate:implementation=staged,blocks=8`",
        ),
    ],
)
def test_a_table_that_cannot_be_used(loaded, cupy, tmp_path, document, message):
    (tmp_path / "other.json").write_text(document)
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        block(loaded(TABLE=tmp_path / "other.json"), cupy)
    assert str(caught.value).startswith("PRETUNED_TABLE: ")
