"""The order in which tests run, the libraries that they may lack, and the figures that they measure and do not judge.

Tests that take seconds come first, dealt to all workers of pytest-xdist, so that none is left with a long one at the
end. The order within a module stays, but for modules whose tests share no work and are dealt one by one.
"""

import gc
import importlib
import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long anything takes is judged nowhere: other programs may have the machine.
settings.register_profile("pretuned", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pretuned")

HERE = Path(__file__).parent
APART = ("end_to_end/",)  # each test of these folders takes seconds
LONG = (*APART, "host/", "hostile/", "compile/", "strategies/", "tune/test_library_candidates.py", "measure/")


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """A user cache: what one test has compiled, those behind it find."""
    return tmp_path_factory.mktemp("compiled")


def pytest_addoption(parser):
    parser.addoption(
        "--all-libraries",
        action="store_true",
        help="fail, rather than skip, where a test asks for a library that is not installed",
    )


def pytest_configure(config):
    if config.getoption("--all-libraries"):
        pytest.importorskip = lambda name, *_, **__: importlib.import_module(name)


@pytest.fixture(autouse=True)
def locks_of_their_own(monkeypatch):
    """Have GPUs that tests make up be locked by tests of the same TMPDIR alone."""
    if (session := sys.modules.get("pretuned.tune.session")) is not None:
        monkeypatch.setattr(session, "SHARED", Path(tempfile.gettempdir()))


@pytest.hookimpl(trylast=True)  # after what is deselected has gone
def pytest_collection_modifyitems(items):
    """Put first what is long; the parts are as many and as large as those that `--dist worksteal` begins with."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers < 2:
        return
    by_unit = {}
    for item in items:
        path = Path(os.path.relpath(item.path, HERE)).as_posix()
        rank = next((rank for rank, folder in enumerate(LONG) if path.startswith(folder)), len(LONG))
        unit = item.nodeid if path.startswith(APART) else path
        by_unit.setdefault((rank, unit), []).append(item)
    units = sorted(by_unit, key=lambda unit: unit[0])  # stable: the order within a rank is that of collection
    long = [unit for unit in units if unit[0] < len(LONG)]
    parts = [[item for unit in long[worker::workers] for item in by_unit[unit]] for worker in range(workers)]
    rest = [item for unit in units[len(long) :] for item in by_unit[unit]]
    left = len(items)
    for number, part in enumerate(parts):
        wanted = max(left // (workers - number) - len(part), 0)
        part.extend(rest[:wanted])
        del rest[:wanted]
        left -= len(part)
    items[:] = [item for part in parts for item in part] + rest


def pytest_collection_finish():
    """Leave what collecting made, nearly all of it for good, out of every later garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter):
    """Print the figures: `record_property("figure", text)`, in whichever process."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    found = [text for report in reports for name, text in getattr(report, "user_properties", ()) if name == "figure"]
    figures = list(dict.fromkeys(found))  # set-up, call and tear-down each report them
    if figures:
        terminalreporter.section("figures")
        terminalreporter.write_line("\n".join(figures))
