"""A right, slow default beside a faster candidate that also writes far from an array: 40 places to write to."""

from __future__ import annotations

from pathlib import Path

from host_tuning import kernel
from pretuned.spec.model import KernelSpec

# (array, distance in elements): past the end of the array, or before its start where negative.
KNOWN = [(array, sign * far) for array, sign, far in (
    *(("y", sign, far) for sign in (1, -1) for far in (1500, 9000, 70_000, 100_000_000)),
)]  # fmt: skip
PLACES = [
    *KNOWN,
    *(("y", far) for far in (1, 2, 31, 100, 513, 4000, 30_000, 300_000, 1_000_000, 10_000_000, 2**30, 2**31, 2**33)),
    *(("y", -far) for far in (1, 2, 31, 513, 4000, 300_000, 1_000_000, 2**30, 2**31, 2**33)),
    *(("x", far) for far in (1, 1500, 70_000, 1_000_000, 100_000_000)),
    *(("x", -far) for far in (1, 9000, 1_000_000, 100_000_000)),
]


TEMPLATE = """\
constexpr int passes = {{{{ 1 if case else 500 }}}};

extern "C" __global__ void far(float* y, const float* x, int n{parameters}) {{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    volatile float value = x[i];
    for (int k = 0; k < passes; ++k) value = value + 0.0f;  // the default takes its time
    y[i] = 2.0f * value;
{place}    if ({{{{ case }}}} && i == n / 2) {{
        float* array = into ? const_cast<float*>(x) : y;
        array[distance > 0 ? n - 1 + distance : distance] = 1.0f;
    }}
}}
"""


def several(folder: Path, places: list[tuple[str, int]]) -> KernelSpec:
    """A spec of which each configuration but the default writes to one of `places`, case 1 to the first."""
    distances = ", ".join(str(distance) for _, distance in places)
    into = ", ".join(str(int(array == "x")) for array, _ in places)
    place = (
        f"    constexpr long long distances[] = {{0, {distances}}}, arrays[] = {{0, {into}}};\n"
        "    constexpr long long distance = distances[{{ case }}], into = arrays[{{ case }}];\n"
    )
    return _written(folder, arguments="", cases=list(range(len(places) + 1)), parameters="", place=place)


def one(folder: Path, array: str, distance: int) -> KernelSpec:
    """A spec whose case 1 writes to one place, which is not in its text: all such specs share two binaries."""
    arguments = (
        f'  {{ name = "distance", dtype = "int64", value = {distance} }},\n'
        f'  {{ name = "into", dtype = "int32", value = {int(array == "x")} }},\n'
    )
    return _written(folder, arguments=arguments, cases=[0, 1], parameters=", long long distance, int into", place="")


def _written(folder: Path, *, arguments: str, cases: list[int], parameters: str, place: str) -> KernelSpec:
    return kernel(folder, "far", TEMPLATE.format(parameters=parameters, place=place), cases, arguments=arguments)
