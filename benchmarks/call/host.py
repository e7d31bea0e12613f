# ruff: noqa: PLC0415 - libraries are optional, and importing them is a part of what is timed
"""Times whole calls beside those of libraries: `python host.py FOLDER`; prints one JSON object.

Each table holds calls that do alike: an output that is allocated, a sum of two launches with scratch, lists of arrays,
arrays that are read by protocols. Routes take turns as in `routes.py`.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

import cupy
from routes import measured

from kernels import SIZE, imported

LIST = 4  # arrays


def rows(names):
    """Return what makes routes of calls as their callers write them, each by what a table calls it."""
    return lambda texts: {title: eval(f"lambda: {text}", dict(names)) for title, text in texts.items()}


class Interface:
    """An array that has nothing but `__cuda_array_interface__`, made anew at every question as libraries do."""

    def __init__(self, array):
        self._array = array

    @property
    def __cuda_array_interface__(self):
        return self._array.__cuda_array_interface__


class DLPack:
    """An array that has nothing but DLPack."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def of_cupy(tuned):
    x, y, out = (cupy.zeros(SIZE, cupy.float32) for _ in range(3))
    one, several = cupy.zeros(1, cupy.float32), [cupy.zeros(SIZE, cupy.float32) for _ in range(LIST)]
    names = {
        "tuned": tuned,
        "cupy": cupy,
        "scalar": cupy.zeros((), cupy.float32),
        "x": x,
        "y": y,
        "out": out,
        "one": one,
        "several": several,
    }
    names |= {f"i{name}": Interface(array) for name, array in (("x", x), ("y", y), ("out", out), ("one", one))}
    names |= {f"d{name}": DLPack(array) for name, array in (("x", x), ("y", y), ("out", out))}
    names |= {"bound": tuned.total.bind(x, out=one), "bound_list": tuned.gather.bind(several, out=out)}
    of = rows(names)
    return {
        "an output that is allocated": of(
            {"ours (CuPy)": "tuned.touch3(x, y, 2.0)", "cupy.add": "cupy.add(x, y)"},
        ),
        "a sum by two launches with scratch": of(
            {
                "ours, bound": "bound()",
                "ours, out given (CuPy)": "tuned.total(x, out=one)",
                "ours, allocating (CuPy)": "tuned.total(x)",
                "cupy.sum(out=)": "cupy.sum(x, out=scalar)",
            },
        ),
        f"a list of {LIST} arrays": of(
            {
                "ours, bound": "bound_list()",
                "ours, out given (CuPy)": "tuned.gather(several, out=out)",
                "cupy.concatenate": "cupy.concatenate(several)",
            },
        ),
        "arrays of other libraries (3 arrays)": of(
            {
                "CuPy's own": "tuned.touch3(x, y, 2.0, a0=out)",
                "__cuda_array_interface__ alone": "tuned.touch3(ix, iy, 2.0, a0=iout)",
                "DLPack alone": "tuned.touch3(dx, dy, 2.0, a0=dout)",
                "one of the three by its interface": "tuned.touch3(x, y, 2.0, a0=iout)",
            },
        ),
    }


def of_torch(tuned):
    import torch

    x, y, out = (torch.zeros(SIZE, device="cuda") for _ in range(3))
    wide, narrow = torch.zeros(64, 128, device="cuda"), torch.zeros(64, 128, device="cuda")
    one, several = torch.zeros(1, device="cuda"), [torch.zeros(SIZE, device="cuda") for _ in range(LIST)]
    leaf = torch.zeros(SIZE, device="cuda", requires_grad=True)
    names = {"tuned": tuned, "torch": torch, "x": x, "y": y, "out": out, "one": one, "several": several}
    names |= {"wide": wide, "narrow": narrow, "leaf": leaf, "ix": Interface(x), "iy": Interface(y)}
    of = rows(names)

    def ungraded(call):
        def run():
            with torch.no_grad():
                call()

        return run

    graded = of({"in": "tuned.touch3(leaf, y, 2.0, a0=out)"})["in"]
    return {
        "an output that is allocated": of(
            {
                "ours (PyTorch)": "tuned.touch3(x, y, 2.0)",
                "ours, 2 arrays (PyTorch)": "tuned.touch2(x, 2.0)",
                "torch.add": "torch.add(x, y)",
                "torch.softmax": "torch.softmax(wide, 1)",
                "torch.empty_like": "torch.empty_like(x)",
            },
        ),
        "an output that is given": of(
            {
                "ours, 2 arrays (PyTorch)": "tuned.touch2(x, 2.0, a0=out)",
                "ours, 3 arrays (PyTorch)": "tuned.touch3(x, y, 2.0, a0=out)",
                "torch.add(out=)": "torch.add(x, y, out=out)",
                "torch.softmax(out=)": "torch.softmax(wide, 1, out=narrow)",
            },
        )
        | {
            "with torch.no_grad(): a tensor that requires grad": ungraded(graded),
            "with torch.no_grad(): none that does": ungraded(of({"in": "tuned.touch3(x, y, 2.0, a0=out)"})["in"]),
        },
        "a sum by two launches with scratch": of(
            {
                "ours, out given (PyTorch)": "tuned.total(x, out=one)",
                "ours, allocating (PyTorch)": "tuned.total(x)",
                "torch.sum(out=)": "torch.sum(x, 0, keepdim=True, out=one)",
                "torch.sum": "torch.sum(x)",
            },
        ),
        f"a list of {LIST} arrays": of(
            {
                "ours, out given (PyTorch)": "tuned.gather(several, out=out)",
                "torch.cat": "torch.cat(several)",
                "torch._foreach_add": "torch._foreach_add(several, 1.0)",
            },
        ),
    }


def main():
    tuned = imported(Path(sys.argv[1]))
    found = of_cupy(tuned)
    with suppress(ImportError):
        for title, routes in of_torch(tuned).items():
            found[title] = found.get(title, {}) | routes
    print(json.dumps({title: measured(routes) for title, routes in found.items()}))


if __name__ == "__main__":
    main()
