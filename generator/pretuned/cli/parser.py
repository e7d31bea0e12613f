"""The commands and their options."""

from __future__ import annotations

import argparse
from pathlib import Path

from pretuned import __version__
from pretuned.cli import bake, check, devices, execute, explain, show, tune
from pretuned.config.settings import Where, where


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
    on.add_argument("--on", type=_where, metavar="DEVICE", help=text)

    text = "tune on this machine's GPU, or on the host; writes the lock"
    _add_tune(commands.add_parser("tune", parents=[project, json, kernel, on], help=text))
    _add_bake(commands.add_parser("bake", parents=[project, on], help="write the generated packages from the lock"))
    _add_show(commands.add_parser("show", parents=[project, json, kernel], help="show the table"))
    _add_explain(commands.add_parser("explain", parents=[project], help="say which configuration would run, and why"))
    text = "check the specs, and whether the lock is fresh (status 4 if not); or execute the templates on the host"
    _add_check(commands.add_parser("check", parents=[project, json, kernel], help=text))
    text = "list the GPUs here, as rows would name them"
    commands.add_parser("devices", parents=[json], help=text).set_defaults(run=devices.run)
    return root


def _where(text: str) -> Where:
    try:
        return where(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _add_tune(command: argparse.ArgumentParser) -> None:
    command.add_argument("--budget", type=float, metavar="SECONDS", help="stop after so long (default: no limit)")
    command.add_argument("--force", action="store_true", help="tune everything anew: fresh rows, and past measurements")
    command.add_argument("--verbose", action="store_true", help="a line for each step and each failed candidate")
    command.set_defaults(run=tune.run)


def _add_check(command: argparse.ArgumentParser) -> None:
    text = "instead: execute every configuration on the host device and verify it (status 8 if something is wrong)"
    command.add_argument("--execute", action="store_true", help=text)
    text = "instead: execute under AddressSanitizer, UBSan and a detector of races in shared memory (status 8)"
    command.add_argument("--sanitize", action="store_true", help=text)
    text = "execute N configurations of each specialisation, the defaults among them (default: all)"
    command.add_argument("--sample", type=_count, metavar="N", help=text)
    command.set_defaults(run=_check)


def _check(options: argparse.Namespace) -> int:
    return execute.run(options) if options.execute or options.sanitize else check.run(options)


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
    command.set_defaults(run=bake.run)


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
