"""Spoilt specs, tables, environments and overrides: `python benchmarks/faults/fuzz.py`.

Each case spoils one input that stands in this repository: the bytes of its text, or one value, key or table of its
document. The input is then used as the tool uses it: a spec is loaded, and what loads is checked over its space and
baked; a project's table is read and baked; variables are read by a build, or by a generated package that explains a
call. Each case must end within `LIMIT_S` in a result or in an error of pretuned's own, of one line per fault, and must
leave nothing behind.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import io
import itertools
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tomlkit
from table import HUNG, LEFT, OTHER, TRACEBACK, Tried, main

from pretuned.cli import main as command
from pretuned.config import read_settings
from pretuned.errors import Error, ExitCode
from pretuned.spec.loader import load

ROOT = Path(__file__).parents[2]
KEPT = frozenset({"tmp", "quickstart", "cache", "tuned", "__init__.py", "__main__.py", "__pycache__"})
LIMIT_S = 20
MEMORY_BYTES = 4 << 30
OUR_EXITS = frozenset(ExitCode)
PLAIN = '[tool.pretuned]\nmodule = "src/quickstart/tuned"\ncubins = false\n'  # nothing is compiled
LONGEST = 6_000  # characters of a line of a message, which may quote a text of 5,000

NUMBERS = (0, 1, -1, 2, 7, 31, 255, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**40, 0.0, -0.5, 1e308)
TEXTS = (
    *("", " ", "\t", "n", "T", "float32", "block", "n * n * n * n", "1 / 0", "1 // 0", "2 ** 10 ** 9", "(" * 300),
    *("n" * 5_000, "a b", "../x", "/etc/passwd", "C:\\x", "{{ n }}", "{% if", "'", '"', "\\", "é", "\U0001f600"),
    *(
        "device.sm_count",
        "device.nothing",
        "ceil_div(n, 0)",
        "min()",
        "max(n)",
        "n if",
        "lambda: 1",
        "__import__('os')",
    ),
    *(
        "__import__('os')",
        "nan",
        "inf",
        "-0",
        "1e999",
        "0x10",
        "1_000",
        "true",
        "None",
        "n >= ",
        "x.y.z",
        "[1, 2]",
        "n\nm",
        "\u202e",
    ),
)
ODD = (*NUMBERS, *TEXTS, True, False, [], {}, [[]], [{}], {"a": 1}, [1, "a"], [0] * 300, float("nan"), float("inf"))
FLAG = ("0", "1", "yes", "off", "TRUE")
PATHS = ("x", "../x", "~", "~nobody/x", "/dev/null", "/proc/x", "pretuned.lock.json", "x" * 5_000, "a/" * 600)
VARIABLES = {  # those of a build, and those that a generated package reads, each with values that make sense
    "build": {
        "PRETUNED_MODE": ("auto", "locked", "force", "off"),
        "PRETUNED_TUNE_ON": ("auto", "cuda", "cuda:1", "cuda:9999", "host", "host:1"),
        "PRETUNED_BUDGET": ("60", "0", ".5", "1e9", "-1", "60s"),
        "PRETUNED_CACHE_DIR": PATHS,
        "SOURCE_DATE_EPOCH": ("0", "315532800", "4354819200", "-1", "now"),
    },
    "overrides": {
        "PRETUNED_CONFIG": (
            *("rms_norm:block=128", "rms_norm:block=128,vec=1", "rms_norm:implementation=main", "rms_norm:", "a:b=1"),
            *("quickstart.tuned.rms_norm:block=256,vec=4", "other.rms_norm:block=1", "rms_norm:block=true", ";;;"),
        ),
        "PRETUNED_DEVICE": ("NVIDIA H100 80GB HBM3", "H100", "rms_norm:NVIDIA H100 80GB HBM3", "A100", ":", "a:b;c"),
        "PRETUNED_DEFAULTS": (*FLAG, "rms_norm", "quickstart.tuned", "rms_norm, other.x", "nothing", ",,"),
        "PRETUNED_TABLE": (*PATHS, str(ROOT / "examples" / "quickstart" / "pretuned.lock.json"), __file__),
        "PRETUNED_USAGE": PATHS,
        "PRETUNED_STRICT": FLAG,
        "PRETUNED_WARN": FLAG,
        "PRETUNED_FAST_PATH": FLAG,
    },
}


class TooLong(Exception):  # noqa: N818 - it is no error of a case's own, but the end of it
    """A case that ran out of its time."""


def spoilt_bytes(text: str, rng: random.Random) -> str:
    """Return the text with up to four runs of characters removed, doubled, replaced or swapped."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice((1, 1, 1, 2, 5, 40)))
        piece = text[start:end]
        new = rng.choice(("", piece * 2, piece[::-1], rng.choice("[]{}=\"'#,.\n\\\0\x7f\ufeff0"), rng.choice(TEXTS)))
        text = text[:start] + new + text[end:]
    return text


def spoilt_document(text: str, rng: random.Random) -> str:
    """Return the text of a TOML document in which one or two values, keys or tables are others."""
    document = tomlkit.parse(text).unwrap()
    for _ in range(rng.choice((1, 1, 1, 2))):
        if not (places := list(_places(document))):
            break  # nothing is left of it
        holder, key = rng.choice(places)
        match rng.randrange(6):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                value = holder.pop(key)
                holder[rng.choice((key[:-1] or "x", key + "s", key.upper(), rng.choice(TEXTS)))] = value
            case 2 if isinstance(holder, list):
                holder.insert(key, holder[key])
            case 3:
                other, name = rng.choice(places)
                with contextlib.suppress(KeyError, IndexError):
                    holder[key] = copy.deepcopy(other[name])  # a value of another place, of the right kind now and then
            case 4 if isinstance(holder[key], str):
                holder[key] = spoilt_bytes(holder[key], rng)
            case _:
                holder[key] = rng.choice(ODD)
    try:
        return tomlkit.dumps(document)
    except (ValueError, TypeError, RecursionError, tomlkit.exceptions.TOMLKitError):
        return spoilt_bytes(text, rng)  # such a document cannot be written as TOML


def _places(node: Any, depth: int = 50) -> Iterator[tuple[Any, Any]]:
    keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys if depth else ():
        yield node, key
        yield from _places(node[key], depth - 1)


def spoilt_toml(text: str, rng: random.Random) -> str:
    return (spoilt_document if rng.random() < 0.7 else spoilt_bytes)(text, rng)


class Fuzz:
    """The inputs that are spoilt, and what is done with one; a case has the folder `case`."""

    def __init__(self, work: Path) -> None:
        self.case = work / "case"
        self.specs = sorted((ROOT / "templates").glob("*.toml")) + sorted(ROOT.glob("examples/*/kernels/*.toml"))
        self.project = work / "quickstart"
        shutil.copytree(ROOT / "examples" / "quickstart", self.project)
        shutil.rmtree(self.project / "src" / "quickstart" / "tuned", ignore_errors=True)
        self.table = (self.project / "pyproject.toml").read_text()
        (self.project / "pyproject.toml").write_text(PLAIN)
        sys.path.insert(0, str(self.project / "src"))
        self.run(["bake", "--project", str(self.project)])

    def run(self, arguments: list[str]) -> str:
        """Run a command of pretuned in this process; return what it prints to stderr. Raises for a foreign status."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                command(arguments)
            except SystemExit as end:
                status = end.code
        if status not in OUR_EXITS or "Traceback" in err.getvalue():
            raise AssertionError(f"status {status}: {err.getvalue()[:2000]}")
        if status:
            raise Error(err.getvalue())
        return err.getvalue()

    def spec(self, rng: random.Random) -> str:
        """Load a spoilt spec; where it loads, look at its space and bake it."""
        source = rng.choice(self.specs)
        folder = self.case / "kernels"
        shutil.copytree(source.parent, folder)
        for other in set(folder.glob("*.toml")) - {folder / source.name}:
            other.unlink()
        (folder / source.name).write_text(spoilt_toml(source.read_text(), rng), errors="surrogatepass")
        load(folder / source.name)
        project = self.case / "project"
        shutil.copytree(self.project, project, ignore=shutil.ignore_patterns("tuned", "kernels"))
        folder.rename(project / "kernels")
        (project / "pyproject.toml").write_text(PLAIN)
        self.run(["bake", "--project", str(project)])
        return "bakes"

    def table_of_project(self, rng: random.Random) -> str:
        """Bake a project whose pyproject.toml is spoilt; nothing outside of it is written."""
        project = self.case / "project"
        shutil.copytree(self.project, project, ignore=shutil.ignore_patterns("tuned"))
        text = self.table
        head, mark, rest = text.partition("[tool.hatch.build.hooks.pretuned]")
        more = rng.choice(("", 'kernels = "kernels"\nlock = "pretuned.lock.json"\nmode = "auto"\nbudget = 60\n'))
        whole = mark + rest + more
        (project / "pyproject.toml").write_text(head + spoilt_toml(whole, rng), errors="surrogatepass")
        self.run(["bake", "--project", str(project)])
        return "bakes"

    def build(self, rng: random.Random) -> str:
        """Check a project under spoilt variables of a build."""
        with self.environment("build", rng):
            settings = read_settings()
            if settings.mode == "force" or settings.device.backend == "host":
                return "is read"  # and would tune
            self.run(["bake", "--project", str(self.project)])
        return "bakes"

    def overrides(self, rng: random.Random) -> str:
        """Explain a call of a generated package, imported anew, under spoilt variables."""
        for name in [name for name in sys.modules if name.split(".")[0] == "quickstart"]:
            del sys.modules[name]
        with self.environment("overrides", rng):
            tuned = importlib.import_module("quickstart.tuned")
            try:
                str(tuned.explain("rms_norm", rows=64, cols=1024, T="float16", device="NVIDIA H100 80GB HBM3"))
            except tuned.PretunedError as error:
                raise Error(str(error)) from None
        return "explains"

    @contextlib.contextmanager
    def environment(self, kind: str, rng: random.Random) -> Iterator[None]:
        before = dict(os.environ)
        for name in rng.sample(list(VARIABLES[kind]), rng.randint(1, 3)):
            value = rng.choice(VARIABLES[kind][name] if rng.random() < 0.8 else (*TEXTS, *map(str, NUMBERS)))
            os.environ[name] = (spoilt_bytes(value, rng) if rng.random() < 0.3 else value).replace("\0", "")
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


KINDS: dict[str, Callable[[Fuzz, random.Random], str]] = {
    "spec": Fuzz.spec,
    "table of a project": Fuzz.table_of_project,
    "variables of a build": Fuzz.build,
    "overrides of a call": Fuzz.overrides,
}


def failures_of(case: Callable[[Fuzz, random.Random], str], fuzz: Fuzz, rng: random.Random) -> list[tuple[str, str]]:
    """Run one case; return what went wrong in it, by kind."""
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        case(fuzz, rng)
    except Error as error:
        message = str(error)
        if not message.strip() or max(map(len, message.splitlines())) > LONGEST:
            return [(OTHER, f"nobody reads this: {message[:400]}")]
    except TooLong:
        return [(HUNG, traceback.format_exc())]
    except BaseException:  # noqa: BLE001 - whatever else is raised is what is looked for
        return [(TRACEBACK, traceback.format_exc()[-2_000:])]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return []


def left_behind(work: Path) -> list[str]:
    """Return what a case left in the folders that it shares with others; its own folder is removed."""
    shutil.rmtree(work / "case", ignore_errors=True)
    places = work / "tmp", work, work / "quickstart" / "src" / "quickstart"
    found = {path.name for place in places for path in place.iterdir()} - KEPT
    return sorted(name for name in found if not name.startswith("pretuned-scratch-"))  # it goes with this process


def run(count: int, rng: random.Random) -> Iterator[Tried]:
    """Yield what became of `count` cases, the kinds in turn."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGALRM, _end)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        work = Path(folder)
        (work / "tmp").mkdir()
        tempfile.tempdir = str(work / "tmp")
        os.environ["PRETUNED_CACHE_DIR"] = str(work / "cache")
        fuzz = Fuzz(work)
        for number, (kind, case) in zip(range(count), itertools.cycle(KINDS.items()), strict=False):
            (fuzz.case / "here").mkdir(parents=True)
            os.chdir(fuzz.case / "here")  # a relative folder that a variable names is made here
            seed = rng.getrandbits(32)
            failures = failures_of(case, fuzz, random.Random(seed))
            os.chdir(work)
            if left := left_behind(work):
                failures.append((LEFT, ", ".join(left)))
            yield Tried(line=kind, name=f"case {number}", failures=tuple(failures))
        os.chdir("/")


def _end(*_: object) -> None:
    raise TooLong


if __name__ == "__main__":
    main("fuzz", __doc__, run, count=10_000)
