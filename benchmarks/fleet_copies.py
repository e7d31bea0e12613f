"""A project of some copies of one kernel, which differ in a constant alone, so that all its units take as long."""

from __future__ import annotations

PYPROJECT = """\
[project]
name = "copies"
version = "1"

[tool.hatch.build.hooks.pretuned]
module = "src/copies/tuned"
devices = "{devices}"
effort = "{effort}"
"""

SPEC = """\
format = 1
arguments = [
  {{ name = "y", role = "out", dtype = "float32", shape = ["n"], align = "vec * 4" }},
  {{ name = "x", role = "in", dtype = "float32", shape = ["n"], align = "vec * 4" }},
  {{ name = "n", dtype = "int32" }},
]

[dims]
n = {{ sizes = [65536, 1048576, 4194304] }}

[space]
block  = [64, 128, 256, 512]
vec    = [1, 2, 4]
unroll = [1, 2]

[default]
block  = 256
vec    = 1
unroll = 1

[[launches]]
function = "{name}"
grid     = ["ceil_div(n, block * vec * unroll)"]
block    = ["block"]

[constraints]
where = ["n % vec == 0"]

[verify]
reference = "reference.py:{name}"
rtol = 1e-5
"""

TEMPLATE = """\
constexpr int block = {{{{ block }}}}, vec = {{{{ vec }}}}, unroll = {{{{ unroll }}}};

struct alignas(4 * vec) Pack {{
    float data[vec];
}};

extern "C" __global__ void {name}(float* y, const float* x, int n) {{
    const int first = blockIdx.x * block * unroll + threadIdx.x;
#pragma unroll
    for (int i = 0; i < unroll; ++i) {{
        const int at = first + i * block;
        if (at < n / vec) {{
            Pack pack = reinterpret_cast<const Pack*>(x)[at];
#pragma unroll
            for (int k = 0; k < vec; ++k) {{
                pack.data[k] = 2.0f * pack.data[k] + {salt}.0f;
            }}
            reinterpret_cast<Pack*>(y)[at] = pack;
        }}
    }}
{slow}}}
"""

# Never taken, and nothing that a compiler could know: what it says takes seconds to compile.
SLOW = """\
    if (n < 0) {{
        float sum = y[0];
#pragma unroll
        for (int i = 0; i < {steps}; ++i) {{
            sum = powf(sum, x[i]) + tanf(sum + i);
        }}
        y[0] = sum;
    }}
"""


def write_project(folder, copies, *, devices="all", effort="default", steps=0):
    """Write a project of so many copies of a kernel; with `steps` each takes long to compile."""
    kernels = folder / "kernels"
    kernels.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT.format(devices=devices, effort=effort))
    slow = SLOW.format(steps=steps) if steps else ""
    for number in range(copies):
        name = f"copy{number:02d}"
        (kernels / f"{name}.toml").write_text(SPEC.format(name=name))
        (kernels / f"{name}.cu.jinja").write_text(TEMPLATE.format(name=name, salt=number + 1, slow=slow))
    functions = [f"def copy{number:02d}(x, **_):\n    return 2 * x + {number + 1}\n" for number in range(copies)]
    (kernels / "reference.py").write_text("\n\n".join(functions))
    return folder
