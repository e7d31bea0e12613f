"""The command line: the only place that prints and exits."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit: with the command's `ExitCode`, or that of its error."""
    from pretuned.cli.parser import parser  # noqa: PLC0415 - the package is imported by what only asks for its name
    from pretuned.cli.project import console  # noqa: PLC0415
    from pretuned.diagnostics import Diagnostic, Severity  # noqa: PLC0415
    from pretuned.errors import Error, ExitCode  # noqa: PLC0415

    options = parser().parse_args(arguments)
    try:
        status: ExitCode = options.run(options)
    except Error as error:
        console.report(Diagnostic(severity=Severity.ERROR, text=str(error)))
        status = error.exit_code
    except KeyboardInterrupt:
        console.info("interrupted; what was measured is kept")
        status = ExitCode.INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        status = ExitCode.SUCCESS
    sys.exit(status)
