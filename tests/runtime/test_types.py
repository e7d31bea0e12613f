"""The records of element types: they say what NumPy, ml_dtypes and struct say, and nothing else names a type."""

from __future__ import annotations

import re
import struct
from importlib.resources import files
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from pretuned.compile import host
from pretuned.runtime.types import DTYPES

PACKAGE = Path(str(files("pretuned")))
each = pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)


@each
def test_a_record_agrees_with_numpy(dtype):
    known = dtype.numpy()
    assert (known.name, known.itemsize) == (dtype.name, dtype.size_bytes)
    assert np.dtype(dtype.storage).itemsize == dtype.size_bytes
    assert dtype.parts * DTYPES[dtype.part].size_bytes == dtype.size_bytes
    assert DTYPES[dtype.wide].kind == dtype.kind
    assert not dtype.typestr or known.str[1:] == dtype.typestr
    if dtype.floating:
        facts = ml_dtypes.finfo(known)
        assert (facts.nmant, facts.nexp) == (dtype.fraction_bits, dtype.exponent_bits)
        assert float(facts.max) == dtype.largest
        rounding = 2.0 ** -(dtype.fraction_bits + 1)
        assert rounding / (1 + rounding) < dtype.rtol
    elif dtype.range is not None:
        facts = np.iinfo(known)
        assert (facts.min, facts.max) == dtype.range


@each
def test_a_scalar_is_packed_in_its_size_and_in_slots_of_8_bytes(dtype):
    packed, slot = (struct.calcsize(f"={code}") for code in (dtype.code, dtype.slot))
    assert (packed, slot) == (dtype.size_bytes, max(8, packed))


@each
def test_the_host_device_has_the_header_and_the_type(dtype):
    found = (host.FOLDER / dtype.header).read_text() if dtype.header else dtype.cuda
    assert re.search(rf"\b{re.escape(dtype.cuda)}\b", found)


def test_no_other_module_names_a_type_that_needs_a_header():
    names = re.compile(rf"\b({'|'.join(name for name, dtype in DTYPES.items() if dtype.module == 'ml_dtypes')})\b")
    folders = ("_runtime", "cuda_on_host")  # a built copy; the headers themselves
    sources = [file for kind in ("*.py", "*.cu") for file in PACKAGE.rglob(kind) if not {*folders} & {*file.parts}]
    naming = [
        file.relative_to(PACKAGE).as_posix() for file in sources if names.search(file.read_text(encoding="utf-8"))
    ]
    assert [name for name in naming if not name.startswith("kernels/")] == ["runtime/types.py"]
