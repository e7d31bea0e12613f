"""What is known of a call before it runs: the shapes and dtypes of what it writes, the scratch that it may need.

The same expressions say it that say it at a call: arrays stand for themselves by dtype and shape, at the address 0.
"""

from __future__ import annotations

from ..adapters import ArrayView
from ..arrays import collapse
from ..checks import keyword_values, output_shape, problem
from ..devices import Device, in_hand
from ..driver import DriverError
from ..driver import driver as find_driver
from ..errors import UnavailableError, qualified
from ..lists import BEYOND
from ..problem import sizes_of
from ..scalars import type_of, wrong_scalar
from .signature import Signature, nbytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..problem import CalledProblem
    from ..records import Value
    from ..table import Foreign, Kernel
    from .signature import Form

ALIGNMENT = 256  # of each scratch buffer, in bytes, as far as XLA aligns the block that holds them


def trace(
    kernel: Kernel, forms: Sequence[Form | None], scalars: Sequence[Foreign], keywords: tuple[Value, ...]
) -> Signature:
    """Return the signature of a call; raises what is wrong with it.

    `forms` has dtype and shape of each array, in launch order; None for one that is left out or to be made.
    """
    device = device_at_hand(kernel)
    words = tuple(keyword_values(kernel, keywords).values()) if keywords else ()
    views = [form and ArrayView(0, *form, device.ordinal, 0, None) for form in forms]
    leading, flat = collapse(kernel, views)
    found = problem(kernel, flat, dict(zip(kernel.keywords, words, strict=True)), device)
    made = tuple(
        form or (None if array.role != "out" else _form(kernel, place, found, leading))
        for place, (array, form) in enumerate(zip(kernel.arrays, forms, strict=True))
    )
    return Signature(made, _numbers(kernel, found, scalars), words, _scratch_bytes(kernel, found))


def device_at_hand(kernel: Kernel) -> Device:
    """Return the first GPU, whose facts expressions may read; where there is none, the first device of the table."""
    try:
        return in_hand(find_driver(qualified(kernel.name)), 0)
    except (DriverError, UnavailableError):
        return Device(*next(iter(kernel.devices.items()), ("", {})))


def _form(kernel: Kernel, place: int, found: CalledProblem, leading: tuple[int, ...] | None) -> Form | None:
    """Return dtype and shape of an output; None for one that a list does not have."""
    array = kernel.arrays[place]
    shape = output_shape(kernel, array, found.operands)
    if shape is BEYOND:
        return None
    if leading is not None and array.trailing is not None:
        shape = (*leading, *shape[1:])
    return str(found.values.get(array.dtype, array.dtype)), shape


def _numbers(kernel: Kernel, found: CalledProblem, scalars: Sequence[Foreign]) -> tuple[Foreign, ...]:
    """Return the numbers as plain ones, a struct as its bytes; raises what is wrong with one."""
    dtypes = tuple(str(found.values.get(scalar.dtype, scalar.dtype)) for scalar in kernel.scalars)
    types = [type_of(kernel, dtype) for dtype in dtypes]
    if not all(one.packs(value) for one, value in zip(types, scalars, strict=True)):
        raise wrong_scalar(kernel, dtypes, scalars)
    return tuple(
        one.packed(value) if one.kind == "struct" else value.item() if hasattr(value, "item") else value
        for one, value in zip(types, scalars, strict=True)
    )


def _scratch_bytes(kernel: Kernel, found: CalledProblem) -> int:
    """Return the bytes of scratch that suffice for every configuration that may run: which one, a GPU decides."""
    needs = [0]
    for one in kernel.shipments[found.key].listed:
        implementation = kernel.implementations[one.implementation]
        operands = {**found.operands, **one.operands}
        try:
            forms = [
                (str(found.values.get(buffer.dtype, buffer.dtype)), sizes_of(buffer.shape, operands))
                for buffer in implementation.scratch
            ]
        except ArithmeticError:  # a configuration that is not legal here
            continue
        needs.append(rooms([max(0, nbytes(form)) for form in forms])[-1])
    return max(needs)


def rooms(sizes: Sequence[int]) -> list[int]:
    """Return where scratch buffers of so many bytes begin in one block, and how long that is."""
    found = [0]
    for size in sizes:
        found.append(found[-1] + size + -size % ALIGNMENT)
    return found
