"""The command line: the only place that prints and exits."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from pretuned.errors import ExitCode, FaultsError


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit: with the command's `ExitCode`, or that of its error."""
    try:
        status = _status(arguments)
    except KeyboardInterrupt:  # most of a short command's time goes into imports
        from pretuned.errors import ExitCode  # noqa: PLC0415

        sys.stderr.write("interrupted; what was measured is kept\n")
        status = ExitCode.INTERRUPTED
    sys.exit(status)


def _status(arguments: Sequence[str] | None) -> ExitCode:
    from pretuned.cli.parser import parser  # noqa: PLC0415 - the package is imported by what only asks for its name
    from pretuned.cli.project import console  # noqa: PLC0415
    from pretuned.diagnostics import Diagnostic, Severity  # noqa: PLC0415
    from pretuned.errors import Error, ExitCode, FaultsError  # noqa: PLC0415
    from pretuned.files import storage_errors, termination_interrupts  # noqa: PLC0415

    options = parser().parse_args(arguments)
    try:
        with storage_errors(), termination_interrupts():
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
        return ExitCode.SUCCESS
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
