"""`pretuned tune --from-usage`: tunes what was called, the most called first, and says which sizes to measure."""

from __future__ import annotations

import json

import pytest

import fake_session
import sample
from builders import H100
from fake_session import Held
from pretuned.build.usage import Usage, narrowed
from pretuned.record import usage
from pretuned.record.usage import Answers, Called
from pretuned.spec import space
from pretuned.tune.request import TuningRequest
from project_home import Home
from specs import loaded

SIZES = "n = { sizes = [1024, 65536] }"
TWO_DIMS = [
    ('shape = ["n"], align = "vec * sizeof(T)" },\n  { name = "x"', 'shape = ["n", "m"] },\n  { name = "x"'),
    ('shape = ["n"], align = "vec * sizeof(T)" },\n  { name = "a"', 'shape = ["n", "m", "lanes"] },\n  { name = "a"'),
    ('{ name = "n", dtype = "int32" },', '{ name = "n", dtype = "int32" },\n  { name = "m", dtype = "int32" },'),
    (SIZES, "n = { sizes = [1024, 65536] }\nm = { sizes = [8, 64] }\nlanes = { values = [2, 4], constant = true }"),
    ('float16"] }', 'float16"] }\nfast = { values = [false, true] }'),
    ('where = ["vec * sizeof(T) <= 16", "n % vec == 0"]', 'requires = ["n * m <= 1048576"]'),
]


def line(n=1024, T="float32", calls=1, **changes):  # noqa: N803 - the specialisation's name
    """Return a line as a generated package writes it."""
    data = {"format": 1, "package": "demo.tuned", "kernel": "scale", "device": "NVIDIA L4"}
    data |= {"specialisation": {"T": T}, "dims": {"n": n}, "calls": calls}
    return json.dumps(data | changes)


class Watched(Held):
    """A runner that tells which problems it was given, in their order."""

    asked: list

    def prepare(self, request):
        if request.problem not in self.asked:
            self.asked.append(request.problem)
        return super().prepare(request)


@pytest.fixture
def home(tmp_path, monkeypatch, capsys):
    home = Home(tmp_path, monkeypatch, capsys)
    monkeypatch.setattr(Watched, "asked", [], raising=False)
    fake_session.install(monkeypatch, tmp_path, runner=Watched)
    home.usage = tmp_path / "usage.jsonl"
    return home


def tune(home, *lines, options=()):
    """Run the command on these lines and return its status, the rows of the lock, and what it said."""
    home.usage.write_text("".join(f"{one}\n" for one in lines))
    status, _, said = home.run("tune", "--from-usage", home.usage, *options)
    rows = [(dict(row.specialisation)["T"], dict(row.problem.dims)["n"]) for row in home.read().rows]
    return status, rows, said


def asked():
    return [(dict(problem.specialisation)["T"], dict(problem.dims)["n"]) for problem in Watched.asked]


def test_only_what_was_called_is_tuned_and_the_rest_stays_missing(home):
    status, rows, _ = tune(home, line(n=900), line(n=1100, calls=7))
    assert (status, rows) == (0, [("float32", 1024)])
    assert home.run("check")[0] == 4
    assert home.run("tune")[0] == 0
    assert len(home.read().rows) == 4


def test_the_most_called_comes_first(home):
    lines = [line(calls=5), line(n=65536, calls=6), line(T="float16", calls=20), line(n=65537, calls=4), line(calls=4)]
    assert tune(home, *lines)[0] == 0
    order = [problem for problem in asked() if problem in {("float16", 1024), ("float32", 65536), ("float32", 1024)}]
    assert order == [("float16", 1024), ("float32", 65536), ("float32", 1024)]
    assert len(home.read().rows) == 3


def test_the_budget_goes_to_the_most_called(home):
    status, rows, said = tune(home, line(calls=5), line(T="float16", calls=6), options=["--budget", "0"])
    assert (status, rows) == (0, [])
    assert "2 rows not reached" in said


def test_fresh_rows_are_left_alone_and_a_second_run_has_nothing_to_do(home):
    tune(home, line())
    before = home.lock.read_bytes()
    Watched.asked.clear()
    status, _, said = tune(home, line())
    assert (status, said) == (
        0,
        f"pretuned.lock.json: every row that was called for {H100.name} is fresh; nothing to tune\n",
    )
    assert Watched.asked == []
    assert home.lock.read_bytes() == before
    assert tune(home, line(), options=["--force"])[0] == 0
    assert set(asked()) & {(T, n) for T in ("float32", "float16") for n in (1024, 65536)} == {("float32", 1024)}


def test_what_was_called_gets_its_selection_and_nothing_else_one():
    spec = sample.specs()["affine"]
    plain, other, missing = list(space.specialisations(spec))[:3]
    called, lacking = (
        next(problem for problem in space.all_problems(spec) if problem.specialisation == one)
        for one in (plain, missing)
    )
    request = TuningRequest(spec=spec, problems=(lacking,), select=(plain, other))
    calls = {("affine", called): 7, ("affine", lacking): 5}
    found = narrowed([request], Usage(measured=calls, called={}, lines={"affine": []}))
    assert [(one.problems, one.select) for one in found] == [((), (plain,)), ((lacking,), ())]


def test_other_rows_stay_in_the_lock(home):
    home.write(home.rows())
    before = home.lock.read_text().splitlines()
    assert tune(home, line(), options=["--force"])[0] == 0
    after = home.lock.read_text().splitlines()
    assert len(after) == len(before)
    assert sum(old != new for old, new in zip(before, after, strict=True)) <= 1


def test_lines_of_other_packages_count_for_nothing(home):
    lines = [line(package="pretuned.kernels"), line(kernel="softmax", package="elsewhere"), line(n=65536)]
    assert tune(home, *lines)[1] == [("float32", 65536)]


def test_a_package_goes_by_the_end_of_its_path_too(home):
    file = home.root / "pyproject.toml"
    file.write_text(file.read_text().replace("src/demo/tuned", "python/demo/tuned"))
    assert tune(home, line())[1] == [("float32", 1024)]


# What stands in a file that anybody may write to.

BAD = [
    ("{", "is not JSON, or is cut off"),
    ("[" * 5000, "is not JSON, or is cut off"),
    ("\x00\xff", "is not JSON, or is cut off"),
    ("7", "is not of format 1"),
    ('{"format": 2}', "is not of format 1"),
    (line(calls=0), "`calls` is missing, or of the wrong kind"),
    (line(calls=-1), "`calls` is missing, or of the wrong kind"),
    (line(calls=True), "`calls` is missing, or of the wrong kind"),
    (line(calls=1.5), "`calls` is missing, or of the wrong kind"),
    (line(calls=1 << 63), "`calls` is missing, or of the wrong kind"),
    (line(n=-1), "`dims` is missing, or of the wrong kind"),
    (line(n="1024"), "`dims` is missing, or of the wrong kind"),
    (line(dims=[1024]), "`dims` is missing, or of the wrong kind"),
    (line(kernel=None), "`kernel` is missing, or of the wrong kind"),
    (line(kernel=["scale"]), "`kernel` is missing, or of the wrong kind"),
    (line(package={}), "`package` is missing, or of the wrong kind"),
    (line(specialisation={"T": None}), "`specialisation` is missing, or of the wrong kind"),
    (line(specialisation={"T": ["float32"]}), "`specialisation` is missing, or of the wrong kind"),
    (line(kernel="x" * 70000), "too long"),
    (line(kernel="x" * 200000), "too long"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD, ids=range(len(BAD)))
def test_a_line_that_cannot_be_read_is_told_by_its_number_and_passed_over(home, bad, reason):
    home.usage.write_bytes(f"{line()}\n\n{bad}\n{line(n=65536)}\n".encode("latin-1"))
    status, _, said = home.run("tune", "--from-usage", home.usage)
    assert status == 0
    assert said.startswith(f"usage.jsonl: passed over line 3: {reason}\n")
    assert len(home.read().rows) == 2


def test_many_lines_that_cannot_be_read_are_told_in_few(home):
    said = tune(home, line(), *["{"] * 100)[2].splitlines()
    assert [text for text in said if "passed over" in text] == [
        *(f"usage.jsonl: passed over line {number}: is not JSON, or is cut off" for number in range(2, 10)),
        "usage.jsonl: passed over 92 more lines that cannot be read",
    ]


def test_a_last_line_that_was_cut_off_costs_that_line_alone(home):
    home.usage.write_text(f"{line()}\n{line(n=65536)[:60]}")
    status, _, said = home.run("tune", "--from-usage", home.usage)
    assert status == 0
    assert said.startswith("usage.jsonl: passed over line 2: is not JSON, or is cut off\n")


@pytest.mark.parametrize(
    "changes",
    [
        {"specialisation": {"T": "float64"}},
        {"specialisation": {}},
        {"specialisation": {"T": "float32", "fast": True}},
        {"specialisation": {"T": 1}},
        {"dims": {}},
        {"dims": {"n": 1, "m": 1}},
    ],
)
def test_calls_that_the_specs_no_longer_admit_are_told(home, changes):
    _, rows, said = tune(home, line(**changes), line())
    assert said.startswith("usage.jsonl: passed over 1 line for which the specs have no problem (1)\n")
    assert rows == [("float32", 1024)]


@pytest.mark.parametrize("lines", [[], ["{"], [line(package="elsewhere")], [line(specialisation={})]])
def test_a_file_without_a_call_is_refused(home, lines):
    home.usage.write_text("".join(f"{one}\n" for one in lines))
    status, _, said = home.run("tune", "--from-usage", home.usage)
    assert status == 2
    assert said.splitlines()[-1] == (
        "error: run a program with PRETUNED_USAGE=usage.jsonl, which adds its calls when it ends: "
        f"'{home.usage}' has no call of scale in demo.tuned"
    )
    assert not home.lock.exists()


def test_a_file_that_is_not_there_is_refused(home):
    status, _, said = home.run("tune", "--from-usage", "nowhere.jsonl")
    assert (status, said) == (2, "error: 'nowhere.jsonl' cannot be read: No such file or directory\n")


# Sizes that lie far from all that are measured.


def gaps_of(said):
    return [text for text in said.splitlines() if "further than" in text or "sizes = [" in text]


def test_sizes_far_from_all_measured_ones_are_told_with_the_line_to_write(home):
    lines = [
        line(n=1536),
        line(n=683),
        line(n=1537, calls=1),
        line(n=8000, calls=30),
        line(n=9000, T="float16", calls=9),
    ]
    first, second = gaps_of(tune(home, *lines, line(n=0))[2])
    assert first == (
        "scale: n: called further than a factor of 1.5 from every measured size: 8000 (30 calls), 9000 (9 calls), "
        "1537 (1 call)"
    )
    assert second == "  to measure there, write into scale.toml: n = { sizes = [1024, 1537, 8000, 65536] }"


def test_that_line_leaves_no_gap(home):
    lines = [line(n=n, calls=n % 97 + 1) for n in range(1, 300_000, 1237)]
    *_, told = gaps_of(tune(home, *lines)[2])
    file = home.root / "kernels/scale.toml"
    file.write_text(file.read_text().replace(SIZES, told.partition(": ")[2]))
    assert gaps_of(tune(home, *lines)[2]) == []


def test_where_nothing_is_to_tune_gaps_are_told_all_the_same(home):
    home.write(home.rows())
    said = tune(home, *(line(n=4096 + n) for n in range(20)))[2]
    first, second = gaps_of(said)
    assert first.endswith("4102 (1 call), 4103 (1 call) and 12 more")
    assert second.endswith("n = { sizes = [1024, 4096, 65536] }")
    assert "is fresh; nothing to tune" in said


# Which measured problem answers for a call.


def called(spec, dims, **specialisation):
    return Called(lines=[1], package="", kernel=spec.name, specialisation=specialisation, dims=dims, calls=1)


def test_a_called_problem_is_answered_for_as_calls_find_their_row(tmp_path):
    spec = loaded(tmp_path, *TWO_DIMS)
    answers = Answers(spec)
    for n, m, fast, wanted in (
        (1, 1, False, (1024, 8)),
        (8192, 22, True, (1024, 8)),  # as near to 65536: the smaller
        (8193, 22, True, (65536, 8)),
        (8192, 23, False, (1024, 64)),
        (20000, 23, False, (65536, 8)),  # 65536 * 64 is not admitted: the nearest row answers
    ):
        found = answers.of(called(spec, {"n": n, "m": m, "lanes": 4}, T="float16", fast=fast))
        assert found is not None
        assert dict(found.specialisation) == {"T": "float16", "fast": fast, "lanes": 4}
        assert (dict(found.dims)["n"], dict(found.dims)["m"]) == wanted
        assert found in list(space.problems(spec, found.specialisation))
    for dims, specialisation in (
        ({"n": 1, "m": 1, "lanes": 3}, {"T": "float16", "fast": True}),
        ({"n": 1, "m": 1}, {"T": "float16", "fast": True}),
        ({"n": 1, "m": 1, "lanes": 2}, {"T": "float16", "fast": 1}),
        ({"n": 1, "m": 1, "lanes": 2}, {"T": "float16"}),
    ):
        assert answers.of(called(spec, dims, **specialisation)) is None


def test_lines_are_read_whatever_ends_them(tmp_path):
    file = tmp_path / "usage"
    file.write_bytes(b"\r\n".join([line().encode(), b"  ", b"null", line(calls=3).encode()]))
    found, unread = usage.read(file)
    assert [(one.lines, one.calls) for one in found] == [([1, 4], json.loads(line())["calls"] + 3)]
    assert [one.line for one in unread] == [3]


def test_lines_that_differ_in_their_calls_alone_are_read_together_and_no_others(tmp_path):
    file, own = tmp_path / "usage", json.loads(line(calls=5))
    strange = json.dumps(own)[:-1] + ', "kernel": "other"}'  # behind its calls
    reordered = json.dumps({"calls": 7, **{key: value for key, value in own.items() if key != "calls"}})
    one, other = line(calls=2), line(calls=2, n=65536)
    file.write_text(
        "\n".join([strange, one, strange, other, line(calls=40), reordered, reordered, line(calls=0)]) + "\n"
    )
    found, unread = usage.read(file)
    listed = [(said.kernel, tuple(said.lines), said.calls) for said in found]
    assert listed == [
        *(("other", (1,), 5), ("scale", (2, 5), 42), ("other", (3,), 5), ("scale", (4,), 2)),
        *(("scale", (6,), 7), ("scale", (7,), 7)),
    ]
    assert [str(one) for one in unread] == ["line 8: `calls` is missing, or of the wrong kind"]


def test_devices_do_not_matter(home):
    assert tune(home, line(device=H100.name), line(device="NVIDIA L4", n=65536), line(device=7, T="float16"))[0] == 0
    assert len(home.read().rows) == 3
