"""This project's own build hook: the one it ships, over the kernels in templates/."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "generator"))

from pretuned.frontends.hatch_hook import PretunedBuildHook


def get_build_hook() -> type[PretunedBuildHook]:
    """Return the hook for Hatch, which knows it as `custom`."""
    return PretunedBuildHook
