"""A call as XLA keeps it: one text, the call's only attribute, which says all that is fixed when it is traced.

The text is JSON, so that an exported program says in words what it calls, in any process. Memory is not in it: XLA
hands over addresses alone, of operands (the arrays that are read, in launch order) and of results (those that are
written, then scratch).
"""

from __future__ import annotations

import json
import math

from ..types import DTYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..records import Value
    from ..table import Kernel

    Form = tuple[str, tuple[int, ...]]  # dtype and shape

ATTRIBUTE = "call"


class Signature:
    """What is fixed of a call: dtype and shape of each array (None: left out), numbers, keywords, bytes of scratch."""

    __slots__ = ("arrays", "keywords", "scalars", "scratch_bytes")

    def __init__(
        self,
        arrays: tuple[Form | None, ...],
        scalars: tuple[Any, ...],
        keywords: tuple[Value, ...],
        scratch_bytes: int,
    ) -> None:
        self.arrays, self.scalars, self.keywords, self.scratch_bytes = arrays, scalars, keywords, scratch_bytes

    @property
    def text(self) -> str:
        """The attribute that XLA keeps."""
        content = {
            "arrays": self.arrays,
            "scalars": [_spelled(value) for value in self.scalars],
            "keywords": self.keywords,
            "scratch": self.scratch_bytes,
        }
        return json.dumps(content, separators=(",", ":"))

    def places(self, kernel: Kernel) -> list[int | None]:
        """Return where each array stands among operands and then results; None for one that is left out."""
        present = [(array, form) for array, form in zip(kernel.arrays, self.arrays, strict=True) if form is not None]
        operands = [array.name for array, _ in present if array.role != "out"]
        results = [array.name for array, _ in present if array.role != "in"]
        return [
            None
            if form is None
            else operands.index(array.name)
            if array.role == "in"
            else len(operands) + results.index(array.name)
            for array, form in zip(kernel.arrays, self.arrays, strict=True)
        ]

    def buffers(self, kernel: Kernel) -> list[Form]:
        """Return dtype and shape of the operands, then of the results."""
        present = [(array, form) for array, form in zip(kernel.arrays, self.arrays, strict=True) if form is not None]
        operands = [form for array, form in present if array.role != "out"]
        results = [form for array, form in present if array.role != "in"]
        scratch: list[Form] = [("uint8", (self.scratch_bytes,))] if self.scratch_bytes else []
        return [*operands, *results, *scratch]


def read(text: bytes) -> Signature:
    """Return the signature that a text says."""
    content = json.loads(text)
    return Signature(
        tuple(form and (form[0], tuple(form[1])) for form in content["arrays"]),
        tuple(_value(one) for one in content["scalars"]),
        tuple(content["keywords"]),
        content["scratch"],
    )


def _spelled(value: Any) -> object:  # noqa: ANN401 - a number, or the bytes of a struct
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    return {"complex": [value.real, value.imag]} if isinstance(value, complex) else value


def _value(spelled: Any) -> Any:  # noqa: ANN401 - as above
    if not isinstance(spelled, dict):
        return spelled
    return bytes.fromhex(spelled["bytes"]) if "bytes" in spelled else complex(*spelled["complex"])


def nbytes(form: Form) -> int:
    """Return the bytes of an array."""
    dtype, shape = form
    return math.prod(shape) * DTYPES[dtype].size_bytes
