"""What to do about a failure, from what is known of the kernel: what compilers and checks do not say themselves."""

from __future__ import annotations

import re
from typing import Final

from pretuned.outcome import CompileError, Crashed, Failure, LaunchFailed, WrongResult
from pretuned.runtime.cuda_majors import NEWEST, OLDEST
from pretuned.runtime.prelude import is_of_cccl
from pretuned.runtime.types import DTYPES
from pretuned.spec.model import KernelSpec
from pretuned.spec.parts import FillRange

# A name that a compiler does not know, as g++, clang and NVRTC say it.
_UNDECLARED: Final = re.compile(
    r"""['"\u2018](?P<name>\w+)['"\u2019]\ (?:does\ not\ name\ a\ type|was\ not\ declared|has\ not\ been\ declared)
      | (?:unknown\ type\ name|undeclared\ identifier|identifier)\ ['"](?P<other>\w+)['"]""",
    re.VERBOSE,
)
# A header that a compiler does not find, as NVRTC, g++ and clang say it.
_MISSING: Final = re.compile(
    r"""cannot open source file "([^"]+)"|error: ([^\s:]+): No such file or directory|'([^']+)' file not found"""
)
_PACKAGES: Final = {"crt/": "nvidia-cuda-crt", "curand": "nvidia-curand", "cuda": "nvidia-cuda-runtime"}
_CLUSTERS: Final = re.compile(r'__cluster_dims__ is not|no member "\w*cluster\w*"|identifier "__cluster\w+" is undef')
_NEWER_GPU: Final = re.compile(r"not supported for this GPU architecture|requires \.target sm_(?P<number>\d+[af]?)")
_ALL_BUT: Final = 0.5  # more of the elements are wrong than any slip at an edge explains
_OFF: Final = re.compile(r"([\d,]+) of ([\d,]+) elements are off")
_OUT_OF_BOUNDS: Final = re.compile(
    r"illegal (?:memory )?a(?:ddress|ccess)|SIGSEGV|segmentation|out of bounds", re.IGNORECASE
)
_NO_MEMORY: Final = re.compile(r"out.of.memory", re.IGNORECASE)  # as CUDA's two interfaces and CuPy say it
FULL: Final = "end other programs that hold the GPU's memory (`nvidia-smi` lists them), or wait for their end"
_ILLEGAL_INSTRUCTION: Final = re.compile(r"illegal.?instruction", re.IGNORECASE)
BOX: Final = (
    "TMA stops at a box that does not begin at a multiple of 16 bytes along the last dim: begin boxes there, and take "
    "one that is wide enough"
)
INDICES: Final = (
    "integer inputs are small random numbers, some below 0: give an input of indices its range, as in "
    '`fill = { from = 0, to = "n - 1" }`, or draw them in a function `inputs`'
)


def remedy(failure: Failure, spec: KernelSpec) -> str:
    """Return what to do about a failure of a kernel, or an empty text where its message says it."""
    match failure:
        case LaunchFailed(message=message) | Crashed(message=message) if full := of_memory(message):
            return full
        case CompileError(line=line):
            return _header(line) or _architecture(line)
        case WrongResult(argument=argument, message=message):
            return _of_layout(message) or _of_result(message) or _of_rounding(spec, argument, message)
        case Crashed(message=message) if _OUT_OF_BOUNDS.search(message) and reads_indices(spec):
            return INDICES
        case Crashed(message=message) if _ILLEGAL_INSTRUCTION.search(message) and _maps(spec):
            return BOX
    return ""


def of_default(failure: Failure, spec: KernelSpec) -> str:
    """Return what to do about a failure of a kernel's default, which has to serve every call."""
    if found := remedy(failure, spec):
        return found
    if isinstance(failure, LaunchFailed):
        return "choose a default that can be launched there, or demand in `requires` what it needs"
    return "mend the kernel, or the reference if that is wrong"


def of_memory(message: str) -> str:
    """Return what to do where CUDA has said that memory is short; an empty text about anything else."""
    return FULL if _NO_MEMORY.search(message) else ""


def reads_indices(spec: KernelSpec) -> bool:
    """Whether integers that nobody has drawn on purpose may be read as indices."""
    integers = {name for name, dtype in DTYPES.items() if dtype.kind in {"int", "uint"}}
    drawn = [argument for argument in spec.inputs if not isinstance(argument.fill, FillRange)]
    types = {dtype for argument in drawn for dtype in _types(spec, argument.dtype)}
    return spec.verify.inputs is None and not types.isdisjoint(integers)


def _maps(spec: KernelSpec) -> bool:
    return any(one.tensor_maps for one in spec.all_implementations.values())


def _types(spec: KernelSpec, dtype: str) -> tuple[str, ...]:
    choice = spec.specialisations.get(dtype)
    return (dtype,) if choice is None else choice.dtypes or ()


def _header(line: str) -> str:
    """Return which header declares the type that a compiler does not know, or where a missing header comes from."""
    if (missing := _MISSING.search(line)) is not None:
        return _where(next(filter(None, missing.groups())))
    match = _UNDECLARED.search(line)
    name = (match["name"] or match["other"]) if match else ""
    for dtype in DTYPES.values():
        if dtype.header and dtype.cuda.strip("_").removeprefix("nv_") in name:
            return f"write `#include <{dtype.header}>` in the template"
    return ""


def _where(name: str) -> str:
    """Return where a header comes from that a compiler has not found."""
    if is_of_cccl(name.removeprefix("cccl/")):  # as CUTLASS names them
        return (
            f"it comes with CUDA's C++ library: install {NEWEST.cccl} of NVRTC's release, as in "
            f'`pip install "{NEWEST.cccl}=={NEWEST.number}.0.*"` ({OLDEST.cccl} for CUDA {OLDEST.number})'
        )
    if name.startswith(("cutlass/", "cute/")):
        return (
            "`pip install nvidia-cutlass`, and name its folder in the spec: [compile] include = "
            '["package:nvidia-cutlass/cutlass_library/source/include"]'
        )
    for begin, package in _PACKAGES.items():
        if name.startswith(begin):
            return f"it comes with {package}: `pip install {package}` of NVRTC's release"
    if "." not in name.rpartition("/")[2]:
        return "it is of the host's C++ library, which device code cannot use: remove the `#include`"
    return (
        f"put it beside the template, or name its folder in the spec: [compile] include = "
        f'["../include"]; a header that reads parameters comes in by `{{% include "{name}" %}}`'
    )


def _architecture(line: str) -> str:
    """Return what to write where a kernel uses what the architecture that it is compiled for does not have."""
    if _CLUSTERS.search(line):
        return (
            "give its launch `cluster = [...]`, not `__cluster_dims__`: it is then compiled for sm_90 and newer alone"
        )
    if match := _NEWER_GPU.search(line):
        number = match["number"] or "90"
        table = f'write `architectures = ["sm_{number.rstrip("af")}"]` in the project\'s table'
        return table if number.isdigit() else f"{table}, and `arch-specific = true` into [compile] of the spec"
    return ""


def _of_layout(message: str) -> str:
    """Return what to do about a result that is wrong in one layout of the arrays alone."""
    if not message.endswith("and right without"):
        return ""
    if "in place of" in message:
        return "read what is needed of the input before it is written, or leave `in-place` out"
    return "the kernel takes more of an address than `requires` demands: demand it there, or read narrower"


def _of_result(message: str) -> str:
    if "an input was changed" in message:
        return (
            "compare the order of the kernel's parameters with the spec's `arguments`; an array that it changes on "
            'purpose has `role = "inout"`'
        )
    if "past its end" in message or "before its start" in message:
        return "check the index before it is written to, as in `if (i < n)`, or correct it"
    if "held NaN before the call" in message:
        return (
            "an output or scratch is read before it is written: write it first, or give it `init = 0`; or the kernel "
            "keeps something from one launch to the next, in a `__device__` variable"
        )
    if "nan instead of" in message:
        return (
            "an output is NaN until it is written: the grid is too small, a bounds check is too strict, or NaN was "
            "computed"
        )
    counts = [int(count.replace(",", "")) for count in match.groups()] if (match := _OFF.search(message)) else [0, 1]
    if counts[0] > _ALL_BUT * counts[1]:
        return "most elements are wrong: two parameters may be swapped, or the reference is wrong"
    return ""


def _of_rounding(spec: KernelSpec, name: str, message: str) -> str:
    """Return how integers that differ by one rounding are let through."""
    if "off by up to 1, " not in message or not message.endswith("allowed: 0"):
        return ""
    (output,) = (argument for argument in spec.outputs if argument.name == name)
    (dtype, *_) = _types(spec, output.dtype)
    return f"integers are compared exactly: where a rounding may differ, write `atol = {{ {dtype} = 1 }}` into [verify]"
