"""Elements beside their references, and whether they are right within rtol = 1e-5, for every machine that judges."""

import math

RTOL = 1e-5
CASES = [
    (1.0, 1.0, True),
    (1.000005, 1.0, True),
    (1.1, 1.0, False),
    (math.inf, math.inf, True),
    (-math.inf, math.inf, False),
    (1e30, math.inf, False),
    (0.0, -math.inf, False),
    (math.nan, math.nan, True),
    (math.nan, 1.0, False),
    (1.0, math.nan, False),
]
