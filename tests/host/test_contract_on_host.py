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
PLAIN_CPP = RIGHT.removeprefix('extern "C" ')
SPACED = f"namespace my {{\n{RIGHT} {BODY}\n}}\n"
KERNELS = {
    "mangled": (SPEC, f"// axpy\n{PLAIN_CPP} {BODY}"),
    "in_a_block": (SPEC, f'extern "C" {{\n{PLAIN_CPP} {BODY}\n}}'),
    "declared": (SPEC, f"{RIGHT};\n{PLAIN_CPP} {BODY}"),
    "in_a_namespace": (SPEC, SPACED),
    "used": (SPEC, f"{SPACED}using my::axpy;\n"),
    "overloaded": (SPEC, f"{RIGHT} {BODY}\n__device__ float axpy(float x) {{ return x; }}\n"),
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


@pytest.mark.parametrize("name", ["in_a_block", "declared", "used"])
def test_a_kernel_is_a_function_of_c_however_that_is_written(found, name):
    assert found[name] == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "mangled",
            "kernel.cu:4:17: error: write `extern \"C\" __global__ void axpy(...)`: no launch finds 'axpy' without it",
        ),
        (
            "in_a_namespace",
            "kernel.cu:4:28: error: 'axpy' is in a namespace: write `using my::axpy;` behind that for the host device",
        ),
        (
            "overloaded",
            "kernel.cu:9:18: error: another function has the name of a kernel: give it its own for the host device",
        ),
    ],
)
def test_a_kernel_that_is_not_found_by_its_name_is_refused_with_what_to_write(found, name, said):
    assert {detail(failure) for failure in found[name]} == {said}


def test_swapped_scalars_of_one_value_are_a_wrong_result(found):
    assert found["swapped"]
    assert all(isinstance(failure, WrongResult) for failure in found["swapped"])


def test_a_parameter_of_another_type_is_refused(found):
    assert all(isinstance(failure, LaunchFailed) for failure in found["typed"])
    assert {detail(failure) for failure in found["typed"]} == {"axpy takes 'n' as int32; the spec has int64"}
