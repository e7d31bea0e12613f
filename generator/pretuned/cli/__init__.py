"""The command line: the only place that prints and exits."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit: with the command's `ExitCode`, or that of its error."""
    from pretuned.cli.parser import parser  # noqa: PLC0415 - the package is imported by what only asks for its name
    from pretuned.cli.project import console  # noqa: PLC0415
    from pretuned.diagnostics import Diagnostic, Severity  # noqa: PLC0415
    from pretuned.errors import Error, ExitCode  # noqa: PLC0415
    from pretuned.files import storage_errors, termination_interrupts  # noqa: PLC0415

    options = parser().parse_args(arguments)
    try:
        with storage_errors(), termination_interrupts():
            status: ExitCode = options.run(options)
            sys.stdout.flush()
    except Error as error:
        _let_go_of_stdout()
        console.report(Diagnostic(severity=Severity.ERROR, text=str(error)))
        status = error.exit_code
    except KeyboardInterrupt:
        console.info("interrupted; what was measured is kept")
        status = ExitCode.INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        status = ExitCode.SUCCESS
    sys.exit(status)


def _let_go_of_stdout() -> None:
    """Drop what stdout holds back where it cannot be written: Python would fail over it once more at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
