"""The files of a generated package, as a function of the plan and the binaries alone.

__init__.py     functions, the table, the kernels' declarations
torch.py        the kernels as operators of PyTorch, if the table asks for them
jax.py          the functions for JAX, where they were asked for
_runtime/       the dispatcher, as it stands in `pretuned.runtime`
kernels/        cubins, PTX and the rendered sources, with the headers of the project that these include
py.typed
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib.resources import files as resources
from importlib.resources.abc import Traversable
from typing import Final

from pretuned.bake import operators
from pretuned.bake.declarations import declaration_lines
from pretuned.bake.functions import check_names, function_lines
from pretuned.bake.jax_functions import jax_module
from pretuned.bake.literals import literal, wrapped
from pretuned.bake.plan import BakePlan, Compiled, by_source
from pretuned.bake.tables import (
    binary_lines,
    device_lines,
    header_files,
    selection_lines,
    shipped_lines,
    sources_of,
    table_lines,
)
from pretuned.errors import BakeError

# Names, texts and expressions are the specs', and are neither renamed nor reworded to please a linter.
_WAIVED: Final = (
    ("E501", "a row of the table is one line"),
    ("A001, A002, A006, E741, N802, N803, N816, PLR0913", "functions and arguments are named by the kernel specs"),
    ("D301, D402, D403, D415, RUF001, RUF002, RUF003", "texts stand as the specs have them"),
    ("E712, FURB110, FURB136, PLR0124, PLR0133, PLR1714, PLR2004, PLW0108", "expressions stand as the specs have them"),
    ("SIM201, SIM202, SIM208, SIM210, SIM211, SIM212, SIM220, SIM221, SIM222, SIM223, SIM300", "as above"),
    ("RUF100", "not every package needs all of these"),
)
COLUMNS: Final = 120  # of a line
_TORCH: Final = "torch_ops"
_JAX: Final = "jax"
_FRAMEWORKS: Final = {_JAX, _TORCH}  # folders of the dispatcher that ship where they are asked for
_OFFERED: Final = ("explain", "prepare", "use", "using")  # besides the kernels
_BODY: Final = """from __future__ import annotations

from ._runtime import (
{imports}
)

TYPE_CHECKING = False
if TYPE_CHECKING:
{typing}    from ._runtime import Binaries, Devices, GpuArray, Selections, Shipped, Stream, Table

{exported}
"""
_TYPES: Final = """
# Type checkers read these types in place of the data, whose expressions could take them minutes.
if TYPE_CHECKING:
    DEVICES: Devices
    TABLE: Table
    SELECTIONS: Selections
    _SHIPPED: dict[str, Shipped]
    _BINARIES: Binaries
"""


def files(
    plan: BakePlan, binaries: Compiled, *, version: str = "", torch: str | None = None, jax: bool = False
) -> dict[str, bytes]:
    """Return the content of every file of the generated package by its relative path, with `/`, in sorted order.

    `binaries` holds a Binary for each of `plan.jobs`, by (source key, architecture); others are ignored. `version` is
    pretuned's, for the head of the module; `torch` the namespace of operators of PyTorch, None for none. With `jax` the
    functions for JAX are written as well. Raises BakeError for a missing binary, or a name that cannot be used.
    """
    wanted = [(source.key, architecture) for source, architecture in plan.jobs]
    if missing := [key for key in wanted if key not in binaries]:
        raise BakeError(f"no binary of the source {missing[0][0]} for {missing[0][1]}")
    for kernel in plan.kernels:
        check_names(kernel.spec)
    used = {key: binaries[key] for key in sorted(wanted)}
    content = {"__init__.py": _source(plan, used, version).encode(), "py.typed": b""}
    parts = ({_TORCH} if torch is not None else set()) | ({_JAX} if jax else set())
    content |= {f"_runtime/{name}": data for name, data in runtime().items() if _belongs(name, parts)}
    if torch is not None:
        content[operators.FILE] = operators.source(plan.kernels, torch, _writer(version)).encode()
    if jax:
        content["jax.py"] = jax_module(plan, waived()).encode()
    found = by_source(used)
    for kernel in plan.kernels:
        for name, source in sources_of(kernel).items():
            content[f"kernels/{name}.cu"] = source.text.encode()
            named = header_files(source)
            content |= {f"kernels/{named[header.name]}": header.text.encode() for header in source.headers}
            for architecture, binary in found.get(source.key, ()):
                kind = "ptx" if architecture.startswith("compute_") else "cubin"
                content[f"kernels/{name}.{architecture}.{kind}"] = binary.image
    return dict(sorted(content.items()))


def _belongs(name: str, parts: Collection[str]) -> bool:
    """Return whether a module of the dispatcher ships: those for a framework do where the table asks for them."""
    folder = name.partition("/")[0]
    return folder not in _FRAMEWORKS or folder in parts


def runtime() -> dict[str, bytes]:
    """Return the modules of the dispatcher by their path, with `/`, in sorted order."""
    return dict(sorted(_modules(resources("pretuned.runtime"), "")))


def _modules(folder: Traversable, within: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.name.endswith(".py"):
            yield within + entry.name, entry.read_bytes()
        elif entry.is_dir() and entry.name != "__pycache__":
            yield from _modules(entry, f"{within}{entry.name}/")


def _source(plan: BakePlan, binaries: Compiled, version: str) -> str:
    """Return the text of `__init__.py`."""
    declared = [line for kernel in plan.kernels for line in ("", *declaration_lines(kernel))]
    imports = _imports("\n".join(declared))
    names = ["DEVICES", "SELECTIONS", "TABLE", "PretunedError", *_OFFERED]
    exported = _exported([*names, *(kernel.spec.name for kernel in plan.kernels)])
    functions = [list(function_lines(kernel)) for kernel in plan.kernels]
    text = "\n".join(line for lines in functions for line in lines)
    typing = "    from collections.abc import Sequence\n" if ": Sequence[" in text else ""
    typing += "    from typing import Literal\n" if ": Literal[" in text else ""
    typing += "\n" if typing else ""
    body = _BODY.format(imports="\n".join(f"    {name}," for name in imports), typing=typing, exported=exported)
    lines = [*_head(plan, version), "", *waived(), ""]
    lines += body.splitlines()
    for function in functions:
        lines += ["", "", *function]
    tables = table_lines(plan, binaries), selection_lines(plan, binaries)
    sections = device_lines(plan), *tables, shipped_lines(plan), binary_lines(plan, binaries)
    data = [line for section in sections for line in (*section, "")]
    data += ["# The kernels as their specs describe them.", *declared[1:]]
    lines += ["", "", "# fmt: off", *_TYPES.splitlines()]
    lines += [f"    _{kernel.spec.name}: Kernel" for kernel in plan.kernels]
    lines += ["else:", *(f"    {line}" if line else "" for line in data)]
    return "\n".join(lines) + "\n"


def waived() -> list[str]:
    """Return the comments that waive rules in a generated module."""
    return [f"# ruff: noqa: {codes} - {reason}" for codes, reason in _WAIVED]


def _imports(text: str) -> list[str]:
    """Return what the declarations use of the runtime, in the order that import sorting wants."""
    optional = (
        "Array",
        "ArrayList",
        "Backward",
        "Buffer",
        "Implementation",
        "Integer",
        "Launch",
        "LibraryFunction",
        "Scalar",
        "TensorMap",
        "ceil_div",
        "sizeof",
    )
    used = {name for name in optional if f"{name}(" in text}
    used |= {"listed"} if "ArrayList" in used else set()
    return _all_order([*used, *_OFFERED, "Kernel", "PretunedError", "launcher"])


def _exported(names: list[str]) -> str:
    """Return `__all__`, a name a line where they do not fit into one."""
    listed = list(map(literal, _all_order(names)))
    line = f"__all__ = [{', '.join(listed)}]"
    return line if len(line) <= COLUMNS else "\n".join(("__all__ = [", *(f"    {name}," for name in listed), "]"))


def _all_order(names: list[str]) -> list[str]:
    """Sort as import sorters do: constants, classes, then the rest."""
    return sorted(names, key=lambda name: (0 if name.isupper() else 1 if name[0].isupper() else 2, name))


def _head(plan: BakePlan, version: str) -> Iterator[str]:
    """Yield the module's docstring."""
    devices = ", ".join(device.name for device in plan.devices) or "no device: only defaults are here"
    yield f'"""GPU kernels, tuned when the package was built. Written by {_writer(version)}; do not edit.'
    yield ""
    yield from wrapped(f"The rows of the table were measured on {devices}.", "")
    yield "To change what stands here, change the kernel specs and build again; `pretuned tune` measures anew."
    yield '"""'


def _writer(version: str) -> str:
    return f"pretuned {version}" if version else "pretuned"
