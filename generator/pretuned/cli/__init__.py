"""The command line: the only place that prints and exits."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from pretuned.errors import ExitCode, FaultsError

_MEASURING: Final = frozenset({"tune", "bake"})


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit: with the command's `ExitCode`, or that of its error."""
    try:
        status = _status(arguments)
    except KeyboardInterrupt:  # most of a short command's time goes into imports
        from pretuned.errors import ExitCode  # noqa: PLC0415

        measures = _MEASURING.intersection(sys.argv[1:2] if arguments is None else arguments[:1])
        sys.stderr.write("interrupted; what was measured is kept\n" if measures else "interrupted\n")
        status = ExitCode.INTERRUPTED
    sys.exit(status)


def _status(arguments: Sequence[str] | None) -> ExitCode:
    from pretuned.cli.arguments import read  # noqa: PLC0415
    from pretuned.cli.parser import parser  # noqa: PLC0415 - the package is imported by what only asks for its name
    from pretuned.cli.project import console  # noqa: PLC0415
    from pretuned.diagnostics import Diagnostic, Severity  # noqa: PLC0415
    from pretuned.errors import Error, ExitCode, FaultsError  # noqa: PLC0415
    from pretuned.files import storage_errors, termination_interrupts  # noqa: PLC0415

    options = None
    try:
        with storage_errors(), termination_interrupts():
            options = read(parser(), arguments)
            status: ExitCode = options.run(options)
            sys.stdout.flush()
    except Error as error:
        if isinstance(error, FaultsError) and getattr(options, "json", False):
            _print_faults(error)
        _let_go_of_stdout()
        console.report(Diagnostic(severity=Severity.ERROR, text=str(error)))
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        return ExitCode.UNREAD  # what was to be said may have been a failure
    return status


def _print_faults(error: FaultsError) -> None:
    """Print faults as JSON: file, path and message of each."""
    import json  # noqa: PLC0415 - needed for an error alone
    from dataclasses import asdict  # noqa: PLC0415

    print(json.dumps({"faults": [asdict(fault) for fault in error.faults]}, indent=2))


def _let_go_of_stdout() -> None:
    """Drop what stdout holds back where it cannot be written: Python would fail over it once more at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
