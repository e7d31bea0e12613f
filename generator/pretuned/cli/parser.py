"""The commands and their options."""

from __future__ import annotations

import argparse
from pathlib import Path

from pretuned import __version__, strategies
from pretuned.cli import (
    bake,
    check,
    devices,
    drift,
    execute,
    explain,
    init,
    inspect,
    merge,
    prune,
    schema,
    show,
    tune,
)
from pretuned.config.settings import Place
from pretuned.errors import ExitCode
from pretuned.schema import NAMES


def parser() -> argparse.ArgumentParser:
    """Return the parser; each command sets `run`, a function from its options to the exit status."""
    root = argparse.ArgumentParser(
        prog="pretuned", description="Tune templated CUDA kernels, and bake the winners into a Python package."
    )
    root.add_argument("--version", action="version", version=f"pretuned {__version__}")
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    project = argparse.ArgumentParser(add_help=False)
    project.add_argument(
        "--project", type=Path, default=Path(), metavar="FOLDER", help="the project's folder (default: this one)"
    )
    json = argparse.ArgumentParser(add_help=False)
    json.add_argument("--json", action="store_true", help="print JSON instead of text")
    kernel = argparse.ArgumentParser(add_help=False)
    kernel.add_argument("--kernel", action="append", metavar="NAME", help="only this kernel (may be repeated)")

    on = argparse.ArgumentParser(add_help=False)
    text = "cuda, cuda:1, or host: the processor, with a lock of its own (default: PRETUNED_TUNE_ON, or cuda)"
    on.add_argument("--on", type=_place, metavar="DEVICE", help=text)

    text = "tune on this machine's GPU, or on the host; writes the lock"
    _add_tune(commands.add_parser("tune", parents=[project, json, kernel, on], help=text))
    _add_bake(commands.add_parser("bake", parents=[project, on], help="write the generated packages from the lock"))
    _add_show(commands.add_parser("show", parents=[project, json, kernel], help="show the table"))
    _add_explain(commands.add_parser("explain", parents=[project], help="say which configuration would run, and why"))
    text = "check the specs, and whether the lock is fresh (status 4 if not); or measure again, or execute on the host"
    _add_check(commands.add_parser("check", parents=[project, json, kernel, on], help=text))
    text = "merge the locks of several machines, into the project's own unless --output names a file"
    _add_merge(commands.add_parser("merge", parents=[project, json], help=text))
    _add_prune(commands.add_parser("prune", parents=[project, kernel], help="take rows out of the lock"))
    text = "say what a wheel, folder or installed package was tuned for, and check its digests, executing nothing of it"
    _add_inspect(commands.add_parser("inspect", parents=[json], help=text))
    text = "add a first kernel and the tables to this project; overwrites nothing"
    _add_init(commands.add_parser("init", parents=[project], help=text))
    _add_schema(commands.add_parser("schema", help="print a JSON schema for editors"))
    text = "list the GPUs here, as rows would name them"
    commands.add_parser("devices", parents=[json], help=text).set_defaults(run=devices.run)
    return root


def _place(text: str) -> Place:
    try:
        return Place.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _add_tune(command: argparse.ArgumentParser) -> None:
    command.add_argument("--budget", type=float, metavar="SECONDS", help="stop after so long (default: no limit)")
    command.add_argument("--force", action="store_true", help="tune everything anew: fresh rows, and past measurements")
    text = "only what programs called, the most called first: a file that PRETUNED_USAGE had them write"
    command.add_argument("--from-usage", type=Path, metavar="FILE", help=text)
    text = f"how large spaces are searched: {', '.join(strategies.names())}, or PACKAGE.MODULE:CLASS (default: auto)"
    command.add_argument("--strategy", default=strategies.AUTO, metavar="NAME", help=text)
    command.add_argument("--verbose", action="store_true", help="a line for each step and each failed candidate")
    command.set_defaults(run=tune.run)


def _add_check(command: argparse.ArgumentParser) -> None:
    text = "instead: measure this device's winners and defaults again (status 9 if a winner is slower than its default)"
    command.add_argument("--drift", action="store_true", help=text)
    text = "instead: execute every configuration on the host device and verify it (status 8 if something is wrong)"
    command.add_argument("--execute", action="store_true", help=text)
    text = "instead: execute under AddressSanitizer, UBSan and a detector of races in shared memory (status 8)"
    command.add_argument("--sanitize", action="store_true", help=text)
    text = "execute N configurations of each specialisation, the defaults among them (default: all)"
    command.add_argument("--sample", type=_count, metavar="N", help=text)
    command.add_argument("--verbose", action="store_true", help="a line for each row that is not fresh")
    command.set_defaults(run=_check)


def _check(options: argparse.Namespace) -> ExitCode:
    if options.execute or options.sanitize:
        return execute.run(options)
    return drift.run(options) if options.drift else check.run(options)


def _count(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of configurations; write 1 or more")
    return int(text)


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
    text = "write nothing: list what differs from what the lock gives (status 8)"
    command.add_argument("--check", action="store_true", help=text)
    command.set_defaults(run=bake.run)


def _add_merge(command: argparse.ArgumentParser) -> None:
    command.add_argument("locks", nargs="+", type=Path, metavar="LOCK", help="a lock file")
    text = "write this file, from the locks named alone (default: the project's lock, which then takes part)"
    command.add_argument("-o", "--output", type=Path, metavar="FILE", help=text)
    command.set_defaults(run=merge.run)


def _add_prune(command: argparse.ArgumentParser) -> None:
    text = "rows of this device, by its whole name (may be repeated)"
    command.add_argument("--device", action="append", metavar="NAME", help=text)
    command.add_argument("--stale", action="store_true", help="rows that are stale")
    command.set_defaults(run=prune.run)


def _add_show(command: argparse.ArgumentParser) -> None:
    text = "a lock file, or an importable generated package (default: this project's)"
    command.add_argument("source", nargs="?", help=text)
    command.add_argument("--device", metavar="NAME", help="only devices whose name holds this")
    command.set_defaults(run=show.run)


def _add_explain(command: argparse.ArgumentParser) -> None:
    command.add_argument("kernel", help="a kernel of the package")
    text = "every dim and specialisation: n=4096 T=float32"
    command.add_argument("problem", nargs="*", metavar="NAME=VALUE", help=text)
    command.add_argument("--package", help="the generated package to ask (default: this project's)")
    command.add_argument("--device", metavar="NAME", help="a tuned device (default: the GPU here)")
    command.set_defaults(run=explain.run)


def _add_inspect(command: argparse.ArgumentParser) -> None:
    command.add_argument("source", help="a wheel, a folder, or an installed package by its name")
    command.set_defaults(run=inspect.run)


def _add_init(command: argparse.ArgumentParser) -> None:
    text = "where the generated package goes, as in src/mypkg/tuned (default: `tuned` in the project's package)"
    command.add_argument("--module", metavar="PATH", help=text)
    text = "add the kernel that a T1 file describes (Kernel Tuner's and other tuners' input) instead of an example"
    command.add_argument("--from-t1", type=Path, metavar="FILE", help=text)
    command.set_defaults(run=init.run)


def _add_schema(command: argparse.ArgumentParser) -> None:
    text = "of a kernel spec, or of a pyproject.toml with pretuned's tables"
    command.add_argument("name", choices=NAMES, help=text)
    command.set_defaults(run=schema.run)
