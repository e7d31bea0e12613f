"""The documentation's own modules can be imported, and what they take from the benchmark."""

import sys

from documents import ROOT

sys.path.insert(0, str(ROOT / "docs" / "_ext"))
sys.path.append(str(ROOT / "benchmarks" / "kernels"))
