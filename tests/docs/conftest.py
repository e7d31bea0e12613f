"""The documentation's own modules can be imported."""

import sys

from documents import ROOT

sys.path.insert(0, str(ROOT / "docs" / "_ext"))
