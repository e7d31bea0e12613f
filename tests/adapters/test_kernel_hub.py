"""A kernel repository of `pretuned bake --layout hf-kernel`, loaded by Hugging Face's own `kernels`, offline."""

from __future__ import annotations

import importlib
import os
import sys

import pytest
from packaging.version import Version

from project_home import TABLE, Home

torch = pytest.importorskip("torch")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when it is imported
kernels = pytest.importorskip("kernels", minversion="0.17")

PROJECT = '[project]\nname = "scaling"\nversion = "1.0"\nlicense = "MIT"\n\n'


@pytest.fixture
def variant(tmp_path, monkeypatch, capsys, compiled):
    """The folder of the variant of a repository, with operators of PyTorch."""
    home = Home(tmp_path, monkeypatch, capsys)
    monkeypatch.setenv("PRETUNED_CACHE_DIR", str(compiled))
    monkeypatch.setenv("PRETUNED_MODE", "off")
    (home.root / "pyproject.toml").write_text(PROJECT + TABLE + 'torch = "demo"\n')
    assert home.run("bake", "--layout", "hf-kernel", "--output", "hub")[0] == 0
    return home.root / "hub" / "scaling" / "build" / "torch-cuda"


def test_its_metadata_is_read_and_its_files_are_what_it_says(variant):
    rust = importlib.import_module("kernels._rust")
    found = rust.Metadata.read_from_file(variant / "metadata.json")
    assert (str(found.name), found.version, found.license) == ("scaling", 1, "MIT")
    assert found.backend.backend_type == rust.Backend.CUDA
    assert found.digest.algorithm == rust.DigestAlgorithm.SHA256
    found.digest.validate(rust.Digest.hash_variant(rust.DigestAlgorithm.SHA256, variant))
    for validator in importlib.import_module("kernels.validate").default_metadata_validators():
        validator.validate_metadata(metadata=found, variant=variant.name)


def test_its_variant_is_taken_wherever_there_is_a_gpu(variant):
    """Whatever the version of PyTorch and the CUDA version are, and not on the CPU."""
    backends, variants = (importlib.import_module(f"kernels.{name}") for name in ("backends", "variants"))

    def taken(backend, torch):
        found, _ = variants._resolve_variant_for_system(
            variants=variants.get_variants_local(variant.parent),
            selected_backend=backend,
            cpu="x86_64",
            os="linux",
            torch_version=Version(torch),
            torch_cxx11_abi=True,
            tvm_ffi_version=None,
        )
        return [one.variant_str for one in found]

    assert (
        taken(backends.CUDA(Version("12.6")), "2.9") == taken(backends.CUDA(Version("13.0")), "2.13") == ["torch-cuda"]
    )
    assert taken(backends.CPU(), "2.13") == []


def test_it_is_loaded_and_its_operators_are_those_of_its_id(variant):
    module = kernels.get_local_kernel(variant)
    loaded = next(one for one in kernels.get_loaded_kernels() if one.module is module)
    assert module.__name__ == loaded.metadata.id
    assert sys.modules[module.__name__] is module
    assert hasattr(getattr(torch.ops, loaded.metadata.id), "scale")
    with pytest.raises((TypeError, RuntimeError), match=loaded.metadata.id):
        module.scale(torch.zeros(4), 2.0)
