"""Sums, maxima and their places: of whole arrays, along rows, along columns."""

from __future__ import annotations

import torch

from ceiling import on_torchs_stream
from contest import MATRICES, Contest, Peer

ARRAYS = ({"n": 1 << 26}, {"n": 1 << 28})
TORCHS = {"sum": torch.sum, "max": torch.amax, "argmax": torch.argmax}


def contest(kernel, operation, axis, large):
    """Return the contest of a reduction along an axis, or of the whole array without one."""

    def spread(x, out=None):
        """Return the array and the output with the axis in place 0 or 1, where the whole array has one axis."""
        return (x.reshape(-1), 0, out.view(()) if out is not None else None) if axis is None else (x, axis, out)

    def exact(x, **_):
        wide, along, _ = spread(x.double() if x.is_floating_point() else x.long())
        return TORCHS[operation](wide, along)

    def eager(x, out, **_):
        flat, along, into = spread(x, out)
        if operation == "sum":
            torch.sum(flat, along, dtype=out.dtype, out=into)
        elif out.dtype == (x.dtype if operation == "max" else torch.int64):
            TORCHS[operation](flat, along, out=into)
        else:
            return TORCHS[operation](flat, along)  # in the type that it has there
        return out

    def compiled(x, out, **_):
        flat, along, into = spread(x, out)
        given = {"dtype": out.dtype} if operation == "sum" else {}
        into.copy_(TORCHS[operation](flat, along, **given))
        return out

    def cub(x, out, **_):
        import cupy  # noqa: PLC0415 - only on a GPU

        _, _, into = spread(x, out)
        given = {"dtype": cupy.asarray(out).dtype} if operation == "sum" else {}
        on_torchs_stream(getattr(cupy, operation))(cupy.asarray(x), axis=axis, out=cupy.asarray(into), **given)
        return out

    return Contest(
        kernel=kernel,
        bound="read",
        exact=exact,
        peers=(
            Peer(name="torch", call=eager),
            Peer(name="torch.compile", call=compiled, compiled=True),
            Peer(name="CuPy", call=cub, takes=lambda v: v.get("T") != "bfloat16"),
        ),
        large=large,
        aim=0.98 if operation == "sum" else 0.93,
        rows=axis == 1,
    )


FORMS = {"reduce": (None, ARRAYS), "row": (1, MATRICES), "column": (0, MATRICES)}
CONTESTS = tuple(
    contest(f"{form}_{operation}", operation, axis, large)
    for form, (axis, large) in FORMS.items()
    for operation in TORCHS
)
