"""The layout that Hugging Face's `kernels` loads, in place of a package in the source tree.

A kernel repository has a folder `build` with a folder for each variant. Generated packages are pure Python with machine
code as data, so one variant does for every version of PyTorch, Python and CUDA: `torch-cuda`.

    NAME/build/torch-cuda/__init__.py     the generated package, as everywhere
    NAME/build/torch-cuda/torch.py        operators, in `torch.ops.ID`, where the table asks for them; imported at once
    NAME/build/torch-cuda/metadata.json   name, ID, version, license, architectures, the SHA-256 of every file
    NAME/build/torch-cuda/NAME/           the same kernels, for versions of `kernels` that look for them there

ID is unique to what the files hold, since several versions may be loaded into one process. The rules are those of
huggingface.co/docs/kernels, "Kernel requirements".
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from pretuned.bake.operators import FILE as OPERATORS
from pretuned.config import Project
from pretuned.config.toml import read_toml, table_at
from pretuned.errors import BakeError, ConfigError, Fault

LAYOUT: Final = "hf-kernel"
VARIANT: Final = "torch-cuda"
METADATA: Final = "metadata.json"
_NAME: Final = re.compile(r"[a-z][-a-z0-9]*[a-z0-9]")
_IDENTITY_DIGITS: Final = 12
_OPERATORS: Final = b"\nfrom . import torch  # noqa: E402, F401 - defines the operators\n"
_AGAIN: Final = '''"""The kernels of the folder above, for loaders that look for them here."""

import importlib.util
import sys
from pathlib import Path

_NAME = "{identity}"

if _NAME not in sys.modules:
    _spec = importlib.util.spec_from_file_location(_NAME, Path(__file__).parent.parent / "__init__.py")
    sys.modules[_NAME] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[_NAME])
__all__ = sys.modules[_NAME].__all__
globals().update({{name: getattr(sys.modules[_NAME], name) for name in __all__}})
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """What a kernel repository says of itself: its name, its major version, and the SPDX identifier of its license."""

    name: str
    version: int
    license: str

    @property
    def module(self) -> str:
        """The path of the variant below the folder that holds the repository."""
        return f"{self.name}/build/{VARIANT}"


def repository(project: Project, module: str) -> Repository:
    """Return the repository of a module, by the table `[project]`; raises ConfigError where that says too little.

    It is named as the project is, and where that has several modules, as the project and the module's last folder are.
    """
    said = table_at(read_toml(project.root / "pyproject.toml"), "project") or {}
    name = re.sub(r"[-_.]+", "-", str(said.get("name", ""))).lower()
    if len(project.modules) > 1:
        name += f"-{PurePosixPath(module).name.replace('_', '-')}"
    wrong: dict[str, str] = {}
    if not _NAME.fullmatch(name):
        wrong["project.name"] = (
            "a kernel repository is named by lower-case letters, digits and -, beginning with a letter, "
            f"found '{name}'; write such a name"
        )
    license_text = said.get("license")
    if not isinstance(license_text, str):
        wrong["project.license"] = (
            'a kernel repository says its license; write an identifier of SPDX, such as license = "Apache-2.0"'
        )
    if wrong:
        raise ConfigError([Fault(file="pyproject.toml", path=path, message=text) for path, text in wrong.items()])
    major = re.match(r"\d+", str(said.get("version", "")))
    return Repository(name=name, version=int(major[0]) if major else 0, license=str(license_text))


def lay_out(
    found: Repository,
    make: Callable[..., Mapping[str, bytes]],
    describe: Callable[[Mapping[str, bytes]], Mapping[str, bytes]],
    architectures: Iterable[str],
    *,
    operators: bool,
) -> dict[str, bytes]:
    """Return the files of the variant by their paths in it.

    `make` gives the files of the package, with operators in the namespace `torch` if that is given; `describe` the file
    that records what was baked. `architectures` are those of the binaries, as in `sm_90a` and `compute_80`. Raises
    BakeError for a repository whose name is one of a file of the package.
    """
    plain, inner = make(), found.name.replace("-", "_")
    identity = f"_{inner}_cuda_{_digest(plain, operators=operators)}"
    content = dict(make(torch=identity) if operators else plain)
    if taken := next((name for name in content if name.partition("/")[0].removesuffix(".py") == inner), None):
        raise BakeError(f"a kernel repository cannot be named '{found.name}', as {taken} of the package is; rename it")
    content["__init__.py"] += _OPERATORS if OPERATORS in content else b""
    content[f"{inner}/__init__.py"] = _AGAIN.format(identity=identity).encode()
    content |= describe(content)
    content[METADATA] = _metadata(found, identity, content, architectures)
    return dict(sorted(content.items()))


def _digest(content: Mapping[str, bytes], *, operators: bool) -> str:
    """Return what is unique to the content of files, and to whether operators come besides."""
    whole = hashlib.sha256(str(operators).encode())
    for name, data in sorted(content.items()):
        whole.update(f"{name} {len(data)}\n".encode())
        whole.update(data)
    return whole.hexdigest()[:_IDENTITY_DIGITS]


def _metadata(found: Repository, identity: str, content: Mapping[str, bytes], architectures: Iterable[str]) -> bytes:
    """Return `metadata.json`: digests are in base64, as `kernels` compares them."""
    backend: dict[str, Any] = {"type": "cuda"}
    if named := sorted({_capability(one) for one in architectures}, key=_by_number):
        backend["archs"] = named
    digests = {name: base64.b64encode(hashlib.sha256(data).digest()).decode() for name, data in sorted(content.items())}
    said = {
        "name": found.name,
        "id": identity,
        "version": found.version,
        "license": found.license,
        "python-depends": [],
        "backend": backend,
        "digest": {"algorithm": "sha256", "files": digests},
    }
    return (json.dumps(said, indent=2) + "\n").encode()


def _capability(architecture: str) -> str:
    """Return an architecture as metadata has it: `sm_90a` is 9.0a, and `compute_80`, which is PTX, 8.0+PTX."""
    kind, _, number = architecture.partition("_")
    digits = number.rstrip("af")
    return f"{digits[:-1]}.{digits[-1]}{number[len(digits) :]}{'+PTX' if kind == 'compute' else ''}"


def _by_number(capability: str) -> tuple[int, int, str]:
    major, _, rest = capability.partition(".")
    return int(major), int(rest[0]), rest[1:]
