"""This project's own build hook: the one it ships, over the kernels in templates/."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "generator"))

from pretuned.build.hatch import PretunedBuildHook
from pretuned.config.tables import HATCH_CUSTOM


class OwnBuildHook(PretunedBuildHook):
    """The hook under the name that Hatch gives to every project's own."""

    TABLE = HATCH_CUSTOM


def get_build_hook() -> type[OwnBuildHook]:
    """Tell Hatch which of the classes above is meant."""
    return OwnBuildHook
