"""`using` and `use`: who sees which overrides, and that none runs that is over; two packages in one process."""

import asyncio
import importlib
import json
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import sample

H100 = "NVIDIA H100 80GB HBM3"
A100 = "NVIDIA A100-SXM4-40GB"
PROBLEM = {"rows": 16, "cols": 1024, "T": "float32", "relu": False}
MINE = {"block": 64, "vec": 1}
OTHER = {"block": 128, "vec": 1}
ROWS = (128, 2)  # block, and blocks along y, of the row's choice
WIDTHS = {"MINE": (64, 16), "OTHER": (128, 8), "ROWS": ROWS}


def runtime(tuned, name):
    """Return a module of a package's runtime."""
    return importlib.import_module(f"{tuned.__name__}._runtime.{name}")


def ran(tuned, cupy):
    """Call a kernel and return what ran: block, and blocks along y."""
    x = cupy.ndarray((16, 1024), "float32")
    tuned.affine(x, 1.0, relu=False)
    launch = next(one for one in reversed(cupy.library.launches) if one.arguments[1] == x.data.ptr)
    return launch.block[0], launch.grid[1]


def in_thread(work):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


# What is in force where.


@pytest.mark.parametrize("before", [0, 1, 2, 4])
def test_wishes_hold_inside_and_not_outside_whatever_was_called_before(tuned, cupy, before):
    for _ in range(before):
        assert ran(tuned, cupy) == ROWS
    for _ in range(4):
        with tuned.using(affine=MINE):
            assert [ran(tuned, cupy) for _ in range(4)] == [WIDTHS["MINE"]] * 4
            assert tuned.explain("affine", **PROBLEM).why == ("using",)
        assert [ran(tuned, cupy) for _ in range(4)] == [ROWS] * 4


def test_they_nest_and_the_outer_ones_come_back(tuned, cupy):
    with tuned.using(affine=MINE):
        with tuned.using(accumulate={"implementation": "atomic", "block": 256}):
            assert ran(tuned, cupy) == WIDTHS["MINE"]  # what is not said again stays
            with tuned.using(affine=OTHER):
                assert ran(tuned, cupy) == WIDTHS["OTHER"]
            assert ran(tuned, cupy) == WIDTHS["MINE"]
            assert tuned.explain("accumulate", n=65536, lanes=2).configuration == {"block": 256}
        assert tuned.explain("accumulate", n=65536, lanes=2).configuration == {"blocks": 64}
    assert ran(tuned, cupy) == ROWS


def test_an_exception_ends_them(tuned, cupy):
    with pytest.raises(ZeroDivisionError), tuned.using(affine=MINE), tuned.using(affine=OTHER):
        raise ZeroDivisionError
    assert ran(tuned, cupy) == ROWS


def test_one_object_may_be_entered_again_within_itself_and_in_several_threads(tuned, cupy):
    overrides, inside, left = tuned.using(affine=MINE), threading.Event(), threading.Event()

    def second():
        with overrides:
            inside.set()
            assert left.wait(30)  # who came first goes first
            found = ran(tuned, cupy)
        return found, ran(tuned, cupy)

    with ThreadPoolExecutor(1) as pool:
        with overrides:
            other = pool.submit(second)
            assert inside.wait(30)
            assert ran(tuned, cupy) == WIDTHS["MINE"]
        left.set()
        assert ran(tuned, cupy) == ROWS
        assert other.result() == (WIDTHS["MINE"], ROWS)
    with overrides:
        with overrides:
            pass
        assert ran(tuned, cupy) == WIDTHS["MINE"]
    assert ran(tuned, cupy) == ROWS


@pytest.mark.skipif(
    getattr(sys.flags, "thread_inherit_context", False),
    reason="this Python's threads begin with their parent's context",
)
def test_another_thread_does_not_see_them(tuned, cupy):
    with tuned.using(affine=MINE):
        assert in_thread(lambda: ran(tuned, cupy)) == ROWS
        assert ran(tuned, cupy) == WIDTHS["MINE"]


def test_each_thread_has_its_own(tuned, cupy):
    wanted = [("MINE", MINE), ("OTHER", OTHER), ("ROWS", None)] * 2
    barrier = threading.Barrier(len(wanted), timeout=30)

    def work(configuration):
        barrier.wait()
        found = set()
        for _ in range(100):
            if configuration is None:
                found.add(ran(tuned, cupy))
                continue
            with tuned.using(affine=configuration):
                found.add(ran(tuned, cupy))
        return found

    with ThreadPoolExecutor(len(wanted)) as pool:
        running = [pool.submit(work, configuration) for _, configuration in wanted]
        assert [one.result() for one in running] == [{WIDTHS[name]} for name, _ in wanted]


def test_each_task_has_its_own(tuned, cupy):
    async def work(configuration, wanted):
        for _ in range(5):
            with tuned.using(affine=configuration):
                await asyncio.sleep(0)
                assert ran(tuned, cupy) == wanted
                assert await asyncio.create_task(inner()) == wanted  # a task begins with its parent's
                await asyncio.sleep(0)
                assert ran(tuned, cupy) == wanted
            await asyncio.sleep(0)
            assert ran(tuned, cupy) == ROWS

    async def inner():
        await asyncio.sleep(0)
        return ran(tuned, cupy)

    async def main():
        await asyncio.gather(
            *(work({"MINE": MINE, "OTHER": OTHER}[name], WIDTHS[name]) for name in ("MINE", "OTHER") * 3)
        )

    asyncio.run(main())


# `use`.


@pytest.mark.parametrize("before", [0, 3])
def test_use_holds_for_the_process_and_without_arguments_ends(tuned, cupy, before):
    for _ in range(before):
        assert ran(tuned, cupy) == ROWS
    tuned.use(affine=MINE)
    assert [ran(tuned, cupy) for _ in range(4)] == [WIDTHS["MINE"]] * 4
    assert in_thread(lambda: ran(tuned, cupy)) == WIDTHS["MINE"]
    assert tuned.explain("affine", **PROBLEM).why == ("use",)
    tuned.use(defaults=True)  # not beside the former: in its place
    assert tuned.explain("affine", **PROBLEM).why == ("use: the default",)
    tuned.use()
    assert [ran(tuned, cupy) for _ in range(4)] == [ROWS] * 4


def test_without_arguments_the_environment_counts_again(load, baked, cupy, monkeypatch):
    monkeypatch.setenv("PRETUNED_CONFIG", "affine:block=64,vec=1")
    tuned = load(baked)
    for _ in range(2):
        assert ran(tuned, cupy) == WIDTHS["MINE"]
        tuned.use(affine=OTHER)
        assert ran(tuned, cupy) == WIDTHS["OTHER"]
        with tuned.using(affine=MINE):
            assert ran(tuned, cupy) == WIDTHS["MINE"]
        tuned.use()
    with tuned.using(accumulate={"implementation": "atomic", "block": 256}):
        assert tuned.explain("affine", **PROBLEM).why == ("PRETUNED_CONFIG",)  # each by who asked for it
        assert tuned.explain("accumulate", n=65536, lanes=2).why == ("using",)


@pytest.mark.parametrize("defaults", [True, ["affine"], ["pkg.tuned.affine"]], ids=["all", "one", "by its whole name"])
def test_defaults_hold_over_a_configuration_that_was_asked_for_outside(load, baked, cupy, monkeypatch, defaults):
    monkeypatch.setenv("PRETUNED_CONFIG", "affine:block=64,vec=1")
    tuned = load(baked)
    with tuned.using(defaults=defaults):
        assert tuned.explain("affine", **PROBLEM).why == ("using: the default",)
        assert ran(tuned, cupy) == WIDTHS["OTHER"]  # the default
        with tuned.using(affine=MINE):
            assert ran(tuned, cupy) == WIDTHS["MINE"]
    tuned.use(defaults=defaults)
    assert ran(tuned, cupy) == WIDTHS["OTHER"]
    tuned.use()
    assert ran(tuned, cupy) == WIDTHS["MINE"]


def test_using_holds_over_use_and_use_within_it_shows_after_it(tuned, cupy):
    with tuned.using(affine=MINE):
        tuned.use(affine=OTHER)
        assert ran(tuned, cupy) == WIDTHS["MINE"]
    assert ran(tuned, cupy) == WIDTHS["OTHER"]
    with tuned.using(strict=True):
        assert ran(tuned, cupy) == WIDTHS["OTHER"]


def test_what_use_refuses_leaves_what_was_in_force(tuned, cupy):
    tuned.use(affine=MINE)
    ran(tuned, cupy)
    with pytest.raises(tuned.PretunedError, match="does not ship"):
        tuned.use(affine={"block": 7, "vec": 1})
    assert [ran(tuned, cupy) for _ in range(4)] == [WIDTHS["MINE"]] * 4
    assert in_thread(lambda: tuned.explain("affine", **PROBLEM).why) == ("use",)


@pytest.mark.parametrize("before", range(5))
def test_a_call_under_way_leaves_nothing_of_the_wishes_that_it_began_with(tuned, cupy, cuda, before):
    """In the middle of a launch another thread changes the overrides; the next call goes by the new ones."""
    x, y = (cupy.ndarray((16, 1024), "float32") for _ in range(2))
    for _ in range(before):
        tuned.affine(x, 1.0, relu=False, y=y)
    cuda.during = lambda: in_thread(lambda: tuned.use(affine=MINE))
    tuned.affine(x, 1.0, relu=False, y=y)
    cuda.during = lambda: None
    for _ in range(4):
        tuned.affine(x, 1.0, relu=False, y=y)
        assert cuda.launches[-1].block[0] == 64


@pytest.mark.usefixtures("fast_path")
def test_a_fast_path_that_is_being_written_looks_for_overrides_that_come_meanwhile(tuned, cupy, cuda, monkeypatch):
    """While the first fast path is written, another thread enters the first block of all with overrides of its own."""
    x, y = (cupy.ndarray((16, 1024), "float32") for _ in range(2))

    def call():
        tuned.affine(x, 1.0, relu=False, y=y)
        return cuda.launches[-1].block[0]

    def elsewhere():
        with tuned.using(affine=MINE):
            pass

    source, thread = runtime(tuned, "fastpath.source").FastPathSource, threading.Thread(target=elsewhere)
    write = source.function

    def interrupted(*given, **options):
        thread.start()
        thread.join(0.2)  # it may have to wait for the fast path
        return write(*given, **options)

    call()
    monkeypatch.setattr(source, "function", interrupted)
    assert call() == 128
    monkeypatch.setattr(source, "function", write)
    thread.join()
    assert [call() for _ in range(4)] == [128] * 4
    with tuned.using(affine=MINE):
        assert [call() for _ in range(4)] == [64] * 4
    assert call() == 128


# Each choice.


def test_a_device_the_defaults_strictness(tuned, cupy):
    with tuned.using(device="A100-SXM4-40GB"):
        found = tuned.explain("affine", device=H100, **PROBLEM)
        assert (found.rows_of, found.configuration["block"], found.why[0]) == (A100, 1024, f"using '{A100}'")
    for defaults in (True, ["affine"], "affine", ("pkg.tuned.affine",), (name for name in ["affine"])):
        with tuned.using(defaults=defaults):
            assert ran(tuned, cupy) == WIDTHS["OTHER"]
            with tuned.using(defaults=False):
                assert ran(tuned, cupy) == ROWS
    with tuned.using(defaults=["accumulate"]):
        assert ran(tuned, cupy) == ROWS
    half = cupy.ndarray((16, 1024), "float16")
    with tuned.using(strict=True), pytest.raises(tuned.PretunedError, match="strict is set"):
        tuned.affine(half, 1.0, relu=False)
    with pytest.warns(UserWarning, match="no row for the device"):
        tuned.affine(half, 1.0, relu=False)


def table(folder, configuration):
    row = {
        "kernel": "affine",
        "device": H100,
        "specialisation": {"T": "float32", "relu": False},
        "problem": {"rows": 16, "cols": 1024},
        "choices": [{"implementation": "main", "configuration": configuration, "time_us": 1.5}],
    }
    document = {"format": 1, "devices": {H100: {"sm_count": 132, "compute_capability": 90}}, "rows": [row]}
    file = folder / "table.json"
    file.write_text(json.dumps(document, indent=configuration["block"] % 3))
    return str(file)


def test_a_table_which_is_read_again_when_it_was_written_anew(tuned, cupy, tmp_path):
    for configuration, wanted in ((MINE, "MINE"), (OTHER, "OTHER"), (MINE, "MINE")):
        with tuned.using(table=table(tmp_path, configuration)):
            assert ran(tuned, cupy) == WIDTHS[wanted]
        assert ran(tuned, cupy) == ROWS


UNKNOWN = [
    ({"afine": MINE}, "pkg.tuned has no kernel 'afine'; did you mean 'affine'?"),
    ({"defaults": ["afine"]}, "pkg.tuned has no kernel 'afine'; did you mean 'affine'?"),
    (
        {"affine": {"block": 512, "vec": 4}},
        "pkg.tuned.affine does not ship block=512, vec=4; it ships block=1024, vec=1; ",
    ),
    (
        {"affine": {"block": 64}},
        "pkg.tuned.affine: a configuration names every parameter, and vec is missing; it ships block=1024, vec=1; ",
    ),
    ({"affine": {"block": 64, "vek": 1}}, "pkg.tuned.affine: there is no parameter 'vek', but block, vec; it ships "),
    ({"affine": {"block": "64", "vec": 1}}, "pkg.tuned.affine: block: expected 64, found '64'; it ships "),
    ({"device": 3}, "device: expected a device's name, found 3"),
    ({"defaults": 1}, "defaults: expected True, False or names of kernels, found 1"),
    ({"table": 3}, "table: expected the path of a lock, found 3"),
    ({"strict": "no"}, "strict: expected True or False, found 'no'"),
    ({"affine": {"block": True, "vec": 1}}, "pkg.tuned.affine does not ship block=true, vec=1; "),
    ({"affine": 64}, "affine: expected a configuration as in {'block': 512}, found 64"),
    (
        {"accumulate": {"implementation": "tree", "block": 2}},
        "pkg.tuned.accumulate does not ship tree: block=2; it ships ",
    ),
    (
        {"device": "NVIDIA H100"},
        f"the table has no device 'NVIDIA H100'; did you mean '{H100}'?",
    ),
    ({"table": "nowhere.json"}, "'nowhere.json' cannot be read as JSON: "),
]


@pytest.mark.parametrize(("overrides", "message"), UNKNOWN)
@pytest.mark.parametrize("way", ["using", "use"])
def test_what_the_package_does_not_have_is_refused(tuned, cupy, way, overrides, message):
    with pytest.raises(ValueError, match=f"^{way}: {re.escape(message)}") as caught:
        getattr(tuned, way)(**overrides)
    assert isinstance(caught.value, tuned.PretunedError)
    assert ran(tuned, cupy) == ROWS


def test_a_wrong_environment_is_told_by_using_and_use_too(load, baked, cupy, monkeypatch):
    monkeypatch.setenv("PRETUNED_STRICT", "perhaps")
    tuned = load(baked)
    for way in (tuned.using, tuned.use):
        with pytest.raises(tuned.PretunedError, match=r"^PRETUNED_STRICT: expected 1 or 0, found 'perhaps'$"):
            way(affine=MINE)


# Two packages in one process: `pkg.tuned` has both kernels, `other.kernels` only affine.


@pytest.fixture(scope="module")
def second(tmp_path_factory):
    """The folder of `other.kernels`."""
    folder = tmp_path_factory.mktemp("second")
    specs = {"affine": sample.specs()["affine"]}
    found = sample.plan(specs, [row for row in sample.rows() if row.kernel == "affine"], sample.DEVICES)
    sample.write({"__init__.py": b""}, folder / "other")
    sample.write(sample.files(found, sample.binaries(found), version="0.0.0"), folder / "other" / "kernels")
    return folder


@pytest.fixture
def both(load, baked, second, cupy, monkeypatch):
    """Import both packages under an environment."""

    def both(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(f"PRETUNED_{name}", value)
        tuned = load(baked)
        for name in [name for name in sys.modules if name.partition(".")[0] == "other"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.syspath_prepend(str(second))
        importlib.invalidate_caches()
        return tuned, importlib.import_module("other.kernels")

    yield both
    for name in [name for name in sys.modules if name.partition(".")[0] == "other"]:
        del sys.modules[name]


SCOPES = [
    ({"CONFIG": "affine:block=64,vec=1"}, "MINE", "MINE"),
    ({"CONFIG": "pkg.tuned.affine:block=64,vec=1"}, "MINE", "ROWS"),
    ({"CONFIG": "other.kernels.affine:block=64,vec=1; pkg.tuned.affine:block=128,vec=1"}, "OTHER", "MINE"),
    ({"CONFIG": "accumulate:implementation=atomic,block=256"}, "ROWS", "ROWS"),
    ({"CONFIG": "pkg.tuned.accumulate:implementation=atomic,block=256; nowhere.affine:block=9"}, "ROWS", "ROWS"),
    ({"DEFAULTS": "affine"}, "OTHER", "OTHER"),
    ({"DEFAULTS": "accumulate"}, "ROWS", "ROWS"),
    ({"DEFAULTS": "other.kernels, accumulate"}, "ROWS", "OTHER"),
    ({"DEFAULTS": "pkg.tuned.affine, nowhere.affine, nothing"}, "OTHER", "ROWS"),
    ({"DEFAULTS": "yes"}, "OTHER", "OTHER"),
]


@pytest.mark.parametrize(("variables", "first", "then"), SCOPES)
def test_wishes_reach_the_packages_and_kernels_that_they_name(both, cupy, variables, first, then):
    tuned, other = both(**variables)
    for _ in range(3):
        assert (ran(tuned, cupy), ran(other, cupy)) == (WIDTHS[first], WIDTHS[then])


DEVICES = [
    (A100, (A100, A100)),
    (f"affine:{A100}", (A100, A100)),
    (f"accumulate:{H100}; other.kernels: a100 sxm4 40gb", (H100, A100)),
    (f"pkg.tuned.affine:{A100}; nothing:NVIDIA T4; nowhere.affine:NVIDIA T4; nowhere:NVIDIA T4", (A100, H100)),
]


@pytest.mark.parametrize(("choice", "rows_of"), DEVICES)
def test_devices_reach_the_packages_and_kernels_that_they_name(both, choice, rows_of):
    for package, wanted in zip(both(DEVICE=choice), rows_of, strict=True):
        found = package.explain("affine", **PROBLEM)
        assert (found.rows_of, found.configuration["block"]) == (wanted, 1024 if wanted == A100 else 128)


ERRORS = [
    (
        {"CONFIG": "other.kernels.accumulate:block=256"},
        "PRETUNED_CONFIG: other.kernels has no kernel 'accumulate'; known are affine",
    ),
    (
        {"CONFIG": "other.kernels:block=64"},
        "PRETUNED_CONFIG: 'other.kernels:block=64' names a package; name one of its kernels",
    ),
    (
        {"DEFAULTS": "affine, other.kernels.afine"},
        "PRETUNED_DEFAULTS: other.kernels has no kernel 'afine'; did you mean 'affine'?",
    ),
    (
        {"DEVICE": f"other.kernels.accumulate:{H100}"},
        "PRETUNED_DEVICE: other.kernels has no kernel 'accumulate'; known are affine",
    ),
    ({"DEVICE": "other.kernels:NVIDIA T4"}, "PRETUNED_DEVICE: the table has no device 'NVIDIA T4'; known are NVIDIA "),
]


@pytest.mark.parametrize(("variables", "message"), ERRORS)
def test_what_is_wrong_for_one_package_is_its_error_alone(both, cupy, variables, message):
    tuned, other = both(**variables)
    for _ in range(2):
        with pytest.raises(other.PretunedError, match=f"^{re.escape(message)}"):
            ran(other, cupy)
        assert ran(tuned, cupy)[0] == 128


def test_using_and_use_are_each_packages_own(both, cupy):
    tuned, other = both()
    with tuned.using(affine=MINE):
        assert (ran(tuned, cupy), ran(other, cupy)) == (WIDTHS["MINE"], ROWS)
        with other.using(affine=OTHER):
            assert (ran(tuned, cupy), ran(other, cupy)) == (WIDTHS["MINE"], WIDTHS["OTHER"])
    other.use(affine=MINE)
    assert (ran(tuned, cupy), ran(other, cupy)) == (ROWS, WIDTHS["MINE"])
    with pytest.raises(other.PretunedError, match=r"other\.kernels has no kernel 'accumulate'"):
        other.use(accumulate={"block": 256})
