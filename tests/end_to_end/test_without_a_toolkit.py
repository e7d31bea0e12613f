"""A build of a kernel with CUB on a machine without a CUDA toolkit: what it needs comes from the index by itself."""

import shutil
import subprocess
import sys

import pytest

PYPROJECT = """\
[build-system]
requires = ["hatchling>=1.27", "pretuned @ {wheel}"]
build-backend = "hatchling.build"

[project]
name = "sums"
version = "1.0"
requires-python = ">=3.11"

[tool.hatch.build.hooks.pretuned]
module = "src/sums/tuned"
architectures = ["sm_90"]
"""
SPEC = """\
format = 1
arguments = [
  { name = "out", role = "out", dtype = "float32", shape = ["rows"] },
  { name = "x", role = "in", dtype = "float32", shape = ["rows", "cols"] },
  { name = "cols", dtype = "int64" },
]
dims = { rows = { sizes = [1024] }, cols = { sizes = [1024] } }
space = { block = [128, 256] }
default = { block = 128 }
launches = [{ function = "row_sum", grid = ["rows"], block = ["block"] }]
"""
TEMPLATE = """\
#include <cub/block/block_reduce.cuh>
constexpr int block = {{ block }};
extern "C" __global__ void row_sum(float* out, const float* x, int64_t cols) {
    using Reduce = cub::BlockReduce<float, block>;
    __shared__ typename Reduce::TempStorage storage;
    float sum = 0;
    for (int64_t i = threadIdx.x; i < cols; i += block) {
        sum += x[blockIdx.x * cols + i];
    }
    sum = Reduce(storage).Sum(sum);
    if (threadIdx.x == 0) {
        out[blockIdx.x] = sum;
    }
}
"""
# A toolkit of this machine is hidden in a file system of the command's own, where that is allowed.
HIDE = 'for it in /usr/local/cuda*; do [ -d "$it" ] && mount -t tmpfs none "$(readlink -f "$it")"; done; exec "$@"'


def hiding():
    """Return the beginning of a command that sees no CUDA toolkit."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here")
    begin = ["unshare", "--mount", "sh", "-c", HIDE, "sh"]
    seen = subprocess.run([*begin, "sh", "-c", "ls /usr/local/cuda/*"], capture_output=True, text=True, check=False)
    if seen.stdout:
        pytest.skip("a toolkit cannot be hidden here")
    return begin


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="file systems of one's own")
def test_cub_builds_where_there_is_no_toolkit(own_wheel, run, contents, tmp_path):
    project = tmp_path / "project"
    files = {"pyproject.toml": PYPROJECT.format(wheel=own_wheel.as_uri()), "src/sums/__init__.py": ""}
    files |= {"kernels/row_sum.toml": SPEC, "kernels/row_sum.cu.jinja": TEMPLATE}
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    cache = {"PRETUNED_CACHE_DIR": str(tmp_path / "cache"), "CUDA_PATH": "", "CUDA_HOME": ""}  # nothing is in it
    pip = (sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", "--wheel-dir", tmp_path, ".")
    said = run(*hiding(), *pip, cwd=project, **cache)
    assert "nvidia-cuda-cccl" in said
    (wheel,) = tmp_path.glob("*.whl")
    assert any(name.endswith(".sm_90.cubin") for name in contents(wheel))
