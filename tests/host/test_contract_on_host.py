"""What kernels take on the host device, by the same rules as on a GPU; and two scalars that a kernel swaps."""

from __future__ import annotations

import pytest

from pretuned.compile.host import compiler
from pretuned.outcome import LaunchFailed, WrongResult, detail
from pretuned.spec.loader import load
from pretuned.tune.execute import execute
from pretuned.tune.modes import PLAIN
from wrong_kernels import BODY, REFERENCE, RIGHT, SPEC, write

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")

SCALAR = '  { name = "a", dtype = "float32", value = 2.0 },\n'
TWO = SPEC.replace(SCALAR, SCALAR + SCALAR.replace('"a"', '"b"'))
SUM = BODY.replace("a * x[i]", "a * x[i] + b")
VIEWS = """\
struct View { const float* data; };
struct Scale { float value; };
enum class Size : unsigned long long {};
extern "C" __global__ void axpy(void* to, View x, Scale a, Size size) {
    const size_t n = static_cast<size_t>(size);
    float* const out = static_cast<float*>(to);
"""
KERNELS = {
    "viewed": (SPEC, VIEWS + BODY.replace("a * x[i]", "a.value * x.data[i]").removeprefix("{\n")),
    "swapped": (TWO, f"{RIGHT.replace('float a', 'float b, float a')} {SUM}"),
    "typed": (SPEC, f"{RIGHT.replace('long long n', 'int n')} {BODY}"),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    specs = {name: load(write(folder, text, kernel=name, spec=spec)) for name, (spec, text) in KERNELS.items()}
    reference = REFERENCE.replace("x, a,", "x, a, b=0,").replace("a * x", "a * x + b")
    (folder / "reference.py").write_text(reference)
    reports = execute(specs, [PLAIN], cache_folder=folder / "cache", sample=1)
    return {report.kernel: [finding.failure for finding in report.findings] for report in reports}


def test_what_takes_the_same_bytes_is_accepted_and_right(found):
    assert found["viewed"] == []


def test_swapped_scalars_of_one_value_are_a_wrong_result(found):
    assert found["swapped"]
    assert all(isinstance(failure, WrongResult) for failure in found["swapped"])


def test_a_parameter_of_another_type_is_refused(found):
    assert all(isinstance(failure, LaunchFailed) for failure in found["typed"])
    assert {detail(failure) for failure in found["typed"]} == {"axpy takes 'n' as int32; the spec has int64"}
