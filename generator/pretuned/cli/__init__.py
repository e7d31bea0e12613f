"""The command line: the only place that prints and exits."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

INTERRUPTED = 130  # the shell's status for a process ended by Ctrl-C


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit: 0, an error's own status (see `pretuned.errors`), or 130 after Ctrl-C."""
    from pretuned.cli.parser import parser  # noqa: PLC0415 - the package is imported by what only asks for its name
    from pretuned.errors import Error  # noqa: PLC0415

    options = parser().parse_args(arguments)
    try:
        status = options.run(options)
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        status = error.exit_code
    except KeyboardInterrupt:
        print("interrupted; what was measured is kept", file=sys.stderr)
        status = INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        status = 0
    sys.exit(status)
