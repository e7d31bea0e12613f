"""The commands and their options."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Final, get_args

from pretuned import strategies
from pretuned.build.hub import LAYOUT
from pretuned.cli import (
    bake,
    cache,
    check,
    devices,
    drift,
    execute,
    explain,
    export,
    init,
    inspect,
    merge,
    prune,
    report,
    schema,
    show,
    tune,
)
from pretuned.cli.arguments import Parser
from pretuned.cli.texts import TEXTS
from pretuned.config.project import Effort
from pretuned.config.settings import Place
from pretuned.config.toml import INT64_MAX
from pretuned.errors import ExitCode, UsageError
from pretuned.measure.turns import MOST_PROCESSES
from pretuned.report.page import PAGE
from pretuned.schema import NAMES
from pretuned.version import __version__

DIGITS: Final = 40  # of a number that is read; Python refuses to read some thousands of them
MOST_CERTIFIED: Final = 10_000  # problems, all of which are drawn before the first one is measured


def parser() -> Parser:
    """Return the parser; each command sets `run`, a function from its options to the exit code, and `reader`."""
    root = Parser(
        prog="pretuned", description="Tune templated CUDA kernels, and bake the winners into a Python package."
    )
    root.add_argument("--version", action="version", version=f"pretuned {__version__}")
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    project, json, kernel, on, lock_of = (Parser(add_help=False) for _ in range(5))
    text = "the project's folder (default: this one)"
    project.add_argument("--project", type=Path, default=Path(), metavar="FOLDER", help=text)
    json.add_argument("--json", action="store_true", help="print JSON instead of text")
    kernel.add_argument("--kernel", action="append", metavar="NAME", help="only this kernel (may be repeated)")
    text = "cuda, cuda:1, or host: the processor, with a lock of its own"
    lock_of.add_argument("--on", type=_place, metavar="DEVICE", help=text)
    text += " (default: PRETUNED_TUNE_ON, or the GPUs here)"
    on.add_argument("--on", type=_place, metavar="DEVICE", help=text)

    def command(name: str, *parents: Parser) -> Parser:
        text = TEXTS[name]
        example = f"example: {text.example}"
        made = commands.add_parser(
            name, parents=list(parents), help=text.summary, description=text.description, epilog=example
        )
        made.set_defaults(reader=made)
        return made

    _add_tune(command("tune", project, json, kernel, on))
    _add_bake(command("bake", project, on))
    _add_show(command("show", project, json, kernel, lock_of))
    _add_explain(command("explain", project))
    _add_report(command("report", project, json, lock_of))
    _add_check(command("check", project, json, kernel, lock_of))
    _add_merge(command("merge", project, json))
    _add_prune(command("prune", project, kernel, lock_of))
    _add_inspect(command("inspect", json))
    _add_cache(command("cache", json, kernel))
    _add_export(command("export", project))
    _add_init(command("init", project))
    _add_schema(command("schema"))
    command("devices", json).set_defaults(run=devices.run)
    return root


def _place(text: str) -> Place:
    try:
        return Place.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _add_tune(command: argparse.ArgumentParser) -> None:
    text = (
        "stop after so many seconds of tuning, or `none` for no limit; 0 takes what past measurements settle (default: "
        "PRETUNED_BUDGET, or none)"
    )
    command.add_argument("--budget", type=_seconds, metavar="SECONDS", help=text)
    command.add_argument(
        "--force", action="store_true", help="tune everything anew, fresh rows too, and ignore past measurements"
    )
    text = (
        "tune only this kernel's rows, or those that have these values, anew: past measurements do not count (may be "
        "repeated)"
    )
    command.add_argument("--again", action="append", metavar="KERNEL[:NAME=VALUE,...]", help=text)
    calls = command.add_mutually_exclusive_group()
    text = "tune only what programs called, the most called first; PRETUNED_USAGE has them write the file"
    calls.add_argument("--from-usage", type=Path, metavar="FILE", help=text)
    text = "have problems weigh by how often programs called them (default: the table's usage)"
    calls.add_argument("--usage", type=Path, metavar="FILE", help=text)
    text = (
        "renew the certificates of what the lock has, at N fresh problems of each specialisation, and tune nothing else"
    )
    command.add_argument("--certify", type=_count_of("problems", MOST_CERTIFIED), metavar="N", help=text)
    text = "the seed that draws the problems of certificates (default: one more than the last certificate's)"
    command.add_argument("--seed", type=_seed, metavar="S", help=text)
    text = (
        "refine until certificates say X or less on average, as in 0.02 for 2%%, or the budget ends (default: the "
        "table's max-loss)"
    )
    command.add_argument("--max-loss", type=_share, metavar="X", help=text)
    text = "have the workers of this Dask cluster tune, each for the kind of GPU that it has (pretuned[dask])"
    command.add_argument("--dask", metavar="ADDRESS", help=text)
    text = "have N processes tune on each device of this machine, which take turns at it (default: 1)"
    command.add_argument("--processes", type=_count_of("processes", MOST_PROCESSES), metavar="N", help=text)
    text = f"how large spaces are searched: {', '.join(strategies.names())}, or PACKAGE.MODULE:CLASS (default: auto)"
    command.add_argument("--strategy", default=strategies.AUTO, metavar="NAME", help=text)
    text = "how much is tried: fast, default or thorough (default: the table's effort)"
    command.add_argument("--effort", choices=get_args(Effort), help=text)
    command.add_argument(
        "-v", "--verbose", action="store_true", help="print a line for each step and each failed candidate"
    )
    command.set_defaults(run=tune.run)


def _add_check(command: argparse.ArgumentParser) -> None:
    text = (
        "measure this device's winners and defaults again (status 9 if a winner is slower than its default, or fails)"
    )
    command.add_argument("--drift", action="store_true", help=text)
    text = "execute every configuration on the host device and verify it (status 8 if something is wrong)"
    command.add_argument("--execute", action="store_true", help=text)
    text = "the same under AddressSanitizer, UBSan and a detector of races in shared memory"
    command.add_argument("--sanitize", action="store_true", help=text)
    text = (
        "with --execute or --sanitize: N configurations of each specialisation, the defaults among them (default: all)"
    )
    command.add_argument("--sample", type=_count_of("configurations"), metavar="N", help=text)
    text = "with --execute or --sanitize: stop after so many seconds, or `none` for no limit (default: 50)"
    command.add_argument("--budget", type=_some_seconds, metavar="SECONDS", help=text)
    text = "with --execute or --sanitize: at this problem, as in rows=7,cols=50257, instead of others (may be repeated)"
    command.add_argument("--at", action="append", metavar="NAME=VALUE,...", help=text)
    command.add_argument("--quiet", action="store_true", help="show no progress")
    command.add_argument("-v", "--verbose", action="store_true", help="print a line for each row that is not fresh")
    command.set_defaults(run=_check)


def _check(options: argparse.Namespace) -> ExitCode:
    """Execute, measure or look; raises UsageError for options that nothing would read."""
    executes = options.execute or options.sanitize
    unread = {"--sample": options.sample, "--budget": options.budget, "--at": options.at}
    if not executes and (given := [name for name, value in unread.items() if value is not None]):
        raise UsageError(f"{given[0]} says what to execute; add --execute, or --sanitize")
    if executes and options.drift:
        raise UsageError("`--drift` measures this device's rows; leave out --execute and --sanitize")
    if executes:
        return execute.run(options)
    return drift.run(options) if options.drift else check.run(options)


def _seconds(text: str) -> float:
    """Return a budget in seconds: 0 is no time at all, `none` is math.inf."""
    try:
        seconds = math.inf if text == "none" else float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0 or (seconds == math.inf and text != "none"):
        message = f"'{text:.{DIGITS}}' is not a number of seconds; write `--budget 60`, or `--budget none` for no limit"
        raise argparse.ArgumentTypeError(message)
    return seconds


def _some_seconds(text: str) -> float:
    """Return a budget of something that nothing is known of before it is done."""
    if (seconds := _seconds(text)) == 0:
        raise argparse.ArgumentTypeError("0 seconds execute nothing; write `--budget none` for no limit")
    return seconds


def _count_of(things: str, most: int = INT64_MAX) -> Callable[[str], int]:
    def count(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < DIGITS) or not 0 < int(text) <= most:
            wanted = "1 or more" if most == INT64_MAX else f"1 to {most}"
            raise argparse.ArgumentTypeError(f"'{text:.{DIGITS}}' is not a number of {things}; write {wanted}")
        return int(text)

    return count


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < DIGITS) or int(text) > INT64_MAX:
        raise argparse.ArgumentTypeError(f"'{text:.{DIGITS}}' is not a seed; write a whole number, 0 to {INT64_MAX}")
    return int(text)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a share between 0 and 1; write 0.02 for 2%")
    return share


def _add_bake(command: argparse.ArgumentParser) -> None:
    command.add_argument("--output", type=Path, metavar="FOLDER", help="write below FOLDER, not into the source tree")
    command.add_argument(
        "--with",
        dest="extra",
        action="append",
        default=[],
        metavar="KERNEL:k=v,...",
        help="ship this configuration as well (may be repeated)",
    )
    text = f"write a kernel repository, as Hugging Face's kernels loads it ({LAYOUT}), below --output"
    command.add_argument("--layout", metavar="LAYOUT", help=text)
    text = "write nothing; list what differs from what the lock gives (status 8 if something does)"
    command.add_argument("--check", action="store_true", help=text)
    command.set_defaults(run=bake.run)


def _add_merge(command: argparse.ArgumentParser) -> None:
    command.add_argument("locks", nargs="+", type=Path, metavar="LOCK", help="a lock file")
    text = "write this file, from the named locks alone (default: the project's lock, which then takes part)"
    command.add_argument("-o", "--output", type=Path, metavar="FILE", help=text)
    command.set_defaults(run=merge.run)


def _add_prune(command: argparse.ArgumentParser) -> None:
    text = "only rows of this device, by its whole name (may be repeated)"
    command.add_argument("--device", action="append", metavar="NAME", help=text)
    command.add_argument("--stale", action="store_true", help="only rows that are stale")
    command.set_defaults(run=prune.run)


def _add_show(command: argparse.ArgumentParser) -> None:
    text = "a lock file, or an importable generated package (default: this project's)"
    command.add_argument("source", nargs="?", help=text)
    command.add_argument("--device", metavar="NAME", help="only devices whose name contains this")
    command.set_defaults(run=show.run)


def _add_explain(command: argparse.ArgumentParser) -> None:
    command.add_argument("kernel", help="a kernel of the package")
    text = "every dim and specialisation, as in n=4096 T=float32"
    command.add_argument("problem", nargs="*", metavar="NAME=VALUE", help=text)
    command.add_argument("--package", metavar="NAME", help="the generated package to ask (default: this project's)")
    command.add_argument(
        "--device",
        metavar="NAME",
        help="a tuned device, by the name that `pretuned show` prints (default: the GPU here)",
    )
    command.set_defaults(run=explain.run)


def _add_report(command: argparse.ArgumentParser) -> None:
    command.add_argument("lock", nargs="?", type=Path, help="a lock file (default: this project's)")
    text = f"the file to write (default: {PAGE}; with --markdown or --json, the standard output)"
    command.add_argument("--out", type=Path, metavar="FILE", help=text)
    form = "print the summary and what changed as Markdown, for a pull request"
    command.add_argument("--markdown", action="store_true", help=form)
    text = "the lock to compare with (default: the same file in Git's last commit)"
    command.add_argument("--against", type=Path, metavar="FILE", help=text)
    command.set_defaults(run=report.run)


def _add_inspect(command: argparse.ArgumentParser) -> None:
    command.add_argument("source", help="a wheel, a folder, or an installed package by its name")
    command.set_defaults(run=inspect.run)


def _add_init(command: argparse.ArgumentParser) -> None:
    text = "where the generated package goes, as in src/mypkg/tuned (default: `tuned` in the project's package)"
    command.add_argument("--module", metavar="PATH", help=text)
    text = "add the kernel that a T1 file describes (Kernel Tuner's and other tuners' input) instead of an example"
    command.add_argument("--from-t1", type=Path, metavar="FILE", help=text)
    command.set_defaults(run=init.run)


def _add_cache(command: argparse.ArgumentParser) -> None:
    text = "print what is there (the default), print the file's path, or remove"
    command.add_argument("action", nargs="?", choices=cache.ACTIONS, default="list", help=text)
    text = "only of this device, by its whole name, or of this architecture (may be repeated)"
    command.add_argument("--device", action="append", metavar="NAME", help=text)
    text = "only what is older than so many days"
    command.add_argument("--older-than", type=_count_of("days", 36500), metavar="DAYS", help=text)
    command.set_defaults(run=cache.run)


def _add_export(command: argparse.ArgumentParser) -> None:
    command.add_argument("lock", nargs="?", type=Path, help="a lock file (default: this project's)")
    command.add_argument("--kernel", metavar="NAME", help="the kernel, where the lock has several")
    command.add_argument("--device", metavar="NAME", help="the device by its whole name, where the lock has several")
    text = "the file to write, gzipped if it ends in .gz"
    command.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help=text)
    command.set_defaults(run=export.run)


def _add_schema(command: argparse.ArgumentParser) -> None:
    text = "spec: of a kernel spec; project: of a pyproject.toml with pretuned's tables"
    command.add_argument("schema", choices=NAMES, help=text)
    command.set_defaults(run=schema.run)
