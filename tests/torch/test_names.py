"""Arguments of any name: those of variables and parameters of what is generated too."""

import pytest

from pretuned.spec.loader import load_folder

torch = pytest.importorskip("torch")
SPEC = """\
format = 1
summary = "Two outputs."
arguments = [
  { name = "made", role = "out", dtype = "float32", shape = ["n"] },
  { name = "result", role = "out", dtype = "float32", shape = ["n"] },
  { name = "kernel", role = "in", dtype = "float32", shape = ["n"] },
  { name = "n", dtype = "int64" },
]
space = { block = [128] }
default = { block = 128 }

[dims]
n = { sizes = [1024] }

[[launches]]
function = "split"
grid = ["ceil_div(n, block)"]
block = ["block"]
"""


def test_arguments_may_be_named_like_variables_of_the_functions(offered, tmp_path):
    (tmp_path / "split.toml").write_text(SPEC)
    (tmp_path / "split.cu.jinja").write_text('extern "C" __global__ void split() {}  // {{ block }}')
    tuned, _ = offered(load_folder(tmp_path))
    x, made, result = (torch.empty(16, device="meta") for _ in range(3))
    assert [one.shape for one in tuned.split(x)] == [(16,), (16,)]
    assert tuned.split(x, made=made)[0] is made
    assert tuned.split(x, result=result)[1] is result
    assert tuned.split(x, made=made, result=result) == (made, result)
    with pytest.raises(tuned.PretunedError, match=r"split: kernel: requires a gradient"):
        tuned.split(torch.empty(16, device="meta", requires_grad=True))
