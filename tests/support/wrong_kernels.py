"""Kernels that do not take what their spec passes, each with the whole message, for `axpy(out, x, a, n)` of float32."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SPEC = """\
format = 1
summary = "out = a * x."
arguments = [
  { name = "out", role = "out", dtype = "float32", shape = ["n"] },
  { name = "x", role = "in", dtype = "float32", shape = ["n"] },
  { name = "a", dtype = "float32", value = 2.0 },
  { name = "n", dtype = "int64" },
]

[dims]
n = { sizes = [1024] }

[space]
block = [128, 256]

[default]
block = 256

[[launches]]
function = "axpy"
grid     = ["ceil_div(n, block)"]
block    = ["block"]

[verify]
reference = "reference.py:axpy"
"""
REFERENCE = "def axpy(x, a, **_):\n    return a * x\n"
RIGHT = 'extern "C" __global__ void axpy(float* out, const float* x, float a, long long n)'
BODY = """{
    constexpr int block = {{ block }};
    const long long i = blockIdx.x * (long long)block + threadIdx.x;
    if (i < n) out[i] = a * x[i];
}
"""
EMPTY = "{\n    constexpr int block = {{ block }};\n}\n"
HEAD = "// axpy()\n\n"  # so that kernels begin in line 3


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """A kernel's text without its includes, what is wrong with it, and what the C++ types alone show."""

    text: str
    message: str
    typed: bool = False  # neither PTX nor a cubin shows it: it takes a look at the types


def _wrong(head, message, *, body=EMPTY, typed=False):
    return Wrong(text=f"{head} {body}", message=f"axpy.cu.jinja:3: {message}", typed=typed)


def _takes(parameters, message, *, typed=False):
    head = f'extern "C" __global__ void axpy({parameters})'
    return _wrong(head, f"axpy {message}: write `{RIGHT}`", typed=typed)


WRONG = {
    "parameter missing": _takes("float* out, const float* x, float a", "takes 3 arguments; the launch passes 4"),
    "parameter extra": _takes(
        "float* out, const float* x, float a, long long n, int m", "takes 5 arguments; the launch passes 4"
    ),
    "array and scalar swapped": _takes(
        "float* out, float a, const float* x, long long n", "takes 'x' as float32; the spec has *float32"
    ),
    "scalars swapped": _takes(
        "float* out, const float* x, long long n, float a", "takes 'a' as int64; the spec has float32"
    ),
    "int for int64": _takes("float* out, const float* x, float a, int n", "takes 'n' as int32; the spec has int64"),
    "double for float": _takes(
        "float* out, const float* x, double a, long long n", "takes 'a' as float64; the spec has float32"
    ),
    "int for float": _takes(
        "float* out, const float* x, int a, long long n", "takes 'a' as int32; the spec has float32", typed=True
    ),
    "pointer and size swapped": _takes(
        "float* out, long long n, float a, const float* x", "takes 'x' as int64; the spec has *float32", typed=True
    ),
    "pointer to double": _takes(
        "double* out, const float* x, float a, long long n",
        "takes 'out' as *float64; the spec has *float32",
        typed=True,
    ),
    "pointer to int": _takes(
        "float* out, const int* x, float a, long long n", "takes 'x' as *int32; the spec has *float32", typed=True
    ),
    "pointer to half": _takes(
        "float* out, const struct __half* x, float a, long long n",
        "takes 'x' as *float16; the spec has *float32",
        typed=True,
    ),
    "pointer to a pointer": _takes(
        "float** out, const float* x, float a, long long n", "takes 'out' as *void*; the spec has *float32", typed=True
    ),
    'no extern "C"': _wrong(
        "__global__ void axpy(float* out, const float* x, float a, long long n)",
        f"write `{RIGHT}`: without `extern \"C\"` the binary calls it _Z4axpyPfPKffx, and no launch finds 'axpy'",
        body=BODY,
    ),
    "a device function": _wrong(
        'extern "C" __device__ void axpy(float* out, const float* x, float a, long long n)',
        f"the binary has no entry point 'axpy' (it has none): write `{RIGHT}`",
    ),
    "another name by a macro": Wrong(
        text=f"#define axpy axpi\n{RIGHT} {BODY}",
        message=f"axpy.cu.jinja:4: the binary has no entry point 'axpy' (it has axpi): write `{RIGHT}`",
    ),
    "80,000 bytes of static shared memory": _wrong(
        RIGHT,
        "axpy has 80000 bytes of static shared memory, of which CUDA allows 49152: declare it as `extern __shared__`, "
        'and give the launch `shared = "80000"`',
        body=BODY.replace("{\n", "{\n    __shared__ float tile[20000];\n    tile[threadIdx.x] = a;\n", 1).replace(
            "if (i < n)", "__syncthreads();\n    if (tile[threadIdx.x ^ 1] > 0)"
        ),
    ),
}

# A whole-grid barrier: its headers take a second to compile.
GRID_BARRIER = Wrong(
    text="#include <cooperative_groups.h>\n"
    + RIGHT
    + BODY.replace("{\n", "{\n    cooperative_groups::this_grid().sync();\n", 1),
    message="axpy.cu.jinja:4: give the launch of axpy `cooperative = true`: it waits for the whole grid, and "
    "`grid.sync()` stops the kernel in any other launch",
)

# Kernels that C++ programmers write on purpose.
SOUND = {
    "as the spec": RIGHT,
    "const and restrict": 'extern "C" __global__ void axpy(float* __restrict__ out, const float* __restrict__ const x, '
    "const float a, const long long n)",
    "typedefs": "typedef const float* In; using Size = long long;\n"
    'extern "C" __global__ void axpy(float* out, In x, float a, Size n)',
    "size_t": 'extern "C" __global__ void axpy(float* out, const float* x, float a, size_t n)',
    "unsigned long long": 'extern "C" __global__ void axpy(float* out, const float* x, float a, unsigned long long n)',
    "an enumeration": "enum class Size : long long { none };\n"
    'extern "C" __global__ void axpy(float* out, const float* x, float a, Size n)',
    "void pointers": 'extern "C" __global__ void axpy(void* out, const void* x, float a, long long n)',
    "bytes": 'extern "C" __global__ void axpy(unsigned char* out, const char* x, float a, long long n)',
    "bits": 'extern "C" __global__ void axpy(unsigned* out, const unsigned* x, float a, long n)',
    "vectors": 'extern "C" __global__ void axpy(float2* out, const float4* x, float a, long long n)',
    "classes of one member": "struct Scale { float value; }; struct View { const float* data; };\n"
    'extern "C" __global__ void axpy(float* out, View x, Scale a, long long n)',
    "launch bounds": 'extern "C" __global__ void __launch_bounds__(256) axpy(float* out, const float* x, float a, '
    "const __grid_constant__ long long n)",
    "in a block": 'extern "C" {\n__global__ void axpy(float* out, const float* x, float a, long long n) {}\n}\n'
    "__device__ void block()",
    "beside an overload": "template <typename T> __device__ void axpy(T) {}\n" + RIGHT,
    "in a namespace": f"namespace mine {{\n{RIGHT} {{}}\n}}\n__device__ void block()",
}


def write(folder: Path, text: str, kernel: str = "axpy", spec: str = SPEC) -> Path:
    """Write spec, template and reference of a kernel to `folder`, and return the spec's path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{kernel}.toml").write_text(spec)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / f"{kernel}.cu.jinja").write_text(HEAD + text)
    return folder / f"{kernel}.toml"
