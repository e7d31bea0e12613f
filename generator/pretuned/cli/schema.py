"""`pretuned schema`: the JSON schemas for editors."""

from __future__ import annotations

from argparse import Namespace

from pretuned.schema import read


def run(options: Namespace) -> int:
    """Print a schema."""
    print(read(options.name), end="")
    return 0
