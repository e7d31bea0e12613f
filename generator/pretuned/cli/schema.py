"""`pretuned schema`: the JSON schemas for editors."""

from __future__ import annotations

from argparse import Namespace

from pretuned.errors import ExitCode
from pretuned.schema import read


def run(options: Namespace) -> ExitCode:
    """Print a schema."""
    print(read(options.schema), end="")
    return ExitCode.SUCCESS
