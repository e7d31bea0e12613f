"""GPU kernels, tuned when the package was built. Written by pretuned 0.0.0; do not edit.

The rows of the table were measured on NVIDIA A100-SXM4-40GB, NVIDIA H100 80GB HBM3.
To change what stands here, change the kernel specs and build again; `pretuned tune` measures anew.
"""

# ruff: noqa: E501 - a row of the table is one line
# ruff: noqa: A001, A002, A006, E741, N802, N803, N816, PLR0913 - functions and arguments are named by the kernel specs
# ruff: noqa: D301, D402, D403, D415, RUF001, RUF002, RUF003 - texts stand as the specs have them
# ruff: noqa: E712, FURB110, FURB136, PLR0124, PLR0133, PLR1714, PLR2004, PLW0108 - expressions stand as the specs have them
# ruff: noqa: SIM201, SIM202, SIM208, SIM210, SIM211, SIM212, SIM220, SIM221, SIM222, SIM223, SIM300 - as above
# ruff: noqa: RUF100 - not every package needs all of these

from __future__ import annotations

from ._runtime import (
    Array,
    Buffer,
    Implementation,
    Kernel,
    Launch,
    PretunedError,
    Scalar,
    ceil_div,
    explain,
    launcher,
    prepare,
    use,
    using,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._runtime import Binaries, Devices, GpuArray, Selections, Shipped, Stream, Table

__all__ = [
    "DEVICES",
    "SELECTIONS",
    "TABLE",
    "PretunedError",
    "accumulate",
    "affine",
    "explain",
    "prepare",
    "use",
    "using",
]


@launcher
def accumulate(
    total: GpuArray,
    x: GpuArray,
    *,
    last: GpuArray | None = None,
    stream: Stream | None = None,
) -> tuple[GpuArray, GpuArray]:
    """total[lane] += sum over i of x[i, lane]; `last` is what was added to lane 0.

    lanes is 2 or 4, as the arrays have it.
    n was measured at 256, 65536.
    Tuned for NVIDIA H100 80GB HBM3.

    Args:
        total: Array of float32 with shape (lanes,); changed in place.
        x: Array of float32 with shape (n, lanes).
        last: Array of float32 with shape (1,) to write; allocated if None.
        stream: Stream to launch on; the current one of the arrays' library if None.

    Returns:
        total, last.

    Raises:
        PretunedError: Something cannot be used as it is; also a TypeError, ValueError or RuntimeError.
    """
    result: tuple[GpuArray, GpuArray] = _accumulate.run(total, last, x, stream)
    return result


@launcher
def affine(
    x: GpuArray,
    alpha: float,
    *,
    relu: bool,
    y: GpuArray | None = None,
    stream: Stream | None = None,
) -> GpuArray:
    """y[i, j] = alpha * x[i, j], or its positive part.

    T is float16 or float32, as the arrays have it.
    cols was measured at 64, 1024, 16384.
    rows was measured at 16.
    Requires cols >= 1.
    Tuned for NVIDIA A100-SXM4-40GB, NVIDIA H100 80GB HBM3.

    Args:
        x: Array of T with shape (rows, cols).
        alpha: Number, passed as float32.
        relu: False or True.
        y: Array of T with shape (rows, cols) to write; allocated if None.
        stream: Stream to launch on; the current one of the arrays' library if None.

    Returns:
        y.

    Raises:
        PretunedError: Something cannot be used as it is; also a TypeError, ValueError or RuntimeError.
    """
    return _affine.run(y, x, alpha, relu, stream)


# fmt: off

# Type checkers read these types in place of the data, whose expressions could take them minutes.
if TYPE_CHECKING:
    DEVICES: Devices
    TABLE: Table
    SELECTIONS: Selections
    _SHIPPED: dict[str, Shipped]
    _BINARIES: Binaries
    _accumulate: Kernel
    _affine: Kernel
else:
    # What the rows were measured on, one device per line. memory_gbps is in GB/s, power_w in W.
    DEVICES = {
        "NVIDIA A100-SXM4-40GB": {"sm_count": 108, "compute_capability": 80, "memory_gbps": 1555, "l2_bytes": 41943040, "shared_bytes": 166912, "memory_bytes": 42949672960, "power_w": 400},
        "NVIDIA H100 80GB HBM3": {"sm_count": 132, "compute_capability": 90, "memory_gbps": 3352, "l2_bytes": 52428800, "shared_bytes": 232448, "memory_bytes": 85899345920, "power_w": 700},
    }

    # The table, one row per line, by kernel and device: the specialisation, the sizes that were measured, what to run
    # there from the fastest on, and the evidence: date, driver, NVRTC. A choice gives implementation, configuration,
    # time in us, and the interval of its time over the default's. Where they say more: the library whose function it
    # calls, True where the binary is not the one that was measured, and the times below which 10, 50 and 90% of the
    # samples lie, in us.
    TABLE = {
        "accumulate": {
            "NVIDIA H100 80GB HBM3": (
                ({"lanes": 2}, {"n": 256}, (("atomic", {"block": 128}, 3.0, (0.3, 0.4), "", True), ("atomic", {"block": 256}, 9.0, (1.0, 1.0), "", True)), ("2026-11-20", "580.65.06", "13.0.88")),
                ({"lanes": 2}, {"n": 65536}, (("staged", {"blocks": 64}, 3.5, (0.3, 0.4), "", True), ("atomic", {"block": 256}, 9.0, (1.0, 1.0), "", True)), ("2026-11-20", "580.65.06", "13.0.88")),
            ),
        },
        "affine": {
            "NVIDIA A100-SXM4-40GB": (
                ({"T": "float32", "relu": False}, {"cols": 1024, "rows": 16}, (("main", {"block": 1024, "vec": 1}, 7.0, (0.8, 0.9)), ("main", {"block": 128, "vec": 1}, 8.0, (1.0, 1.0))), ("2026-11-20", "580.65.06", "13.0.88")),
            ),
            "NVIDIA H100 80GB HBM3": (
                ({"T": "float32", "relu": False}, {"cols": 64, "rows": 16}, (("main", {"block": 64, "vec": 2}, 2.0, (0.4, 0.5)), ("main", {"block": 128, "vec": 1}, 8.0, (1.0, 1.0))), ("2026-11-20", "580.65.06", "13.0.88")),
                ({"T": "float32", "relu": False}, {"cols": 1024, "rows": 16}, (("main", {"block": 128, "vec": 4}, 4.0, (0.5, 0.6), "", False, (3.9, 4.0, 4.25)), ("main", {"block": 64, "vec": 1}, 5.0, (0.6, 0.7)), ("main", {"block": 128, "vec": 1}, 8.0, (1.0, 1.0))), ("2026-11-20", "580.65.06", "13.0.88")),
                ({"T": "float32", "relu": False}, {"cols": 16384, "rows": 16}, (("main", {"block": 64, "vec": 4}, 6.0, (0.7, 0.8)), ("main", {"block": 128, "vec": 1}, 8.0, (1.0, 1.0))), ("2026-11-20", "580.65.06", "13.0.88")),
                ({"T": "float32", "relu": True}, {"cols": 64, "rows": 16}, (("main", {"block": 128, "vec": 1}, 8.0, (1.0, 1.0)),), ("2026-11-20", "580.65.06", "13.0.88")),
            ),
        },
    }

    # The selections decide at problems that have no row, by kernel and device: the specialisation; the configurations,
    # the default last; their costs, one a line, which predict the time of a call in femtoseconds: the lowest runs, if
    # it is below the default's by a margin; the margins in per mille, inside the sizes that the costs were fitted to,
    # and outside; these sizes; at how many problems; the certificate; the evidence. The certificate has the seed of
    # problems that were drawn after the costs were made, and what the choices lose there, inside these sizes and
    # outside: number of problems, mean, 95th percentile, worst, the share slower than the default, the worst problem.
    SELECTIONS = {
        "affine": {
            "NVIDIA H100 80GB HBM3": (
                ({"T": "float32", "relu": True},
                 (("main", {"block": 64, "vec": 4}), ("main", {"block": 64, "vec": 1}), ("main", {"block": 128, "vec": 1})),
                 lambda cols, rows: (
                     9000000000 + 4000000 * (rows * -(-cols // 256)),  # block=64, vec=4
                     5400000000 + 700000000 * (cols % 64 != 0) + 120000 * (rows * cols),  # block=64, vec=1
                     2000000000 + 40000000 * (rows * -(-cols // 128)),  # block=128, vec=1
                 ),
                 (20, 100), {"cols": (64, 16384), "rows": (16, 16)}, 96, (14, (32, 0.0061, 0.0212, 0.0405, 0.0, {"cols": 1037, "rows": 16}), (8, 0.012, 0.031, 0.0502, 0.125, {"cols": 31999, "rows": 16})), ("2026-11-20", "580.65.06", "13.0.88")),
            ),
        },
    }

    # What ships, by kernel: specialisation, implementation, configuration, source (none for a library's function), and
    # the bytes of alignment that the configuration asks of arguments. The first of each specialisation is the default.
    _SHIPPED = {
        "accumulate": (
            ({"lanes": 2}, "atomic", {"block": 256}, "accumulate-443b7eaec9b0", {}),
            ({"lanes": 2}, "atomic", {"block": 128}, "accumulate-4cf0ce9cf021", {}),
            ({"lanes": 2}, "staged", {"blocks": 64}, "accumulate-3a6296403f6c", {}),
            ({"lanes": 4}, "atomic", {"block": 256}, "accumulate-bd23e25ef7c3", {}),
        ),
        "affine": (
            ({"T": "float16", "relu": False}, "main", {"block": 128, "vec": 1}, "affine-b9af4ff57182", {}),
            ({"T": "float16", "relu": True}, "main", {"block": 128, "vec": 1}, "affine-8daec7b59b1e", {}),
            ({"T": "float32", "relu": False}, "main", {"block": 128, "vec": 1}, "affine-ae3685d87933", {}),
            ({"T": "float32", "relu": False}, "main", {"block": 64, "vec": 1}, "affine-029469bdb41e", {}),
            ({"T": "float32", "relu": False}, "main", {"block": 64, "vec": 2}, "affine-9f65b2c5ec4a", {"y": 8, "x": 8}),
            ({"T": "float32", "relu": False}, "main", {"block": 64, "vec": 4}, "affine-77e79ec68244", {"y": 16, "x": 16}),
            ({"T": "float32", "relu": False}, "main", {"block": 128, "vec": 4}, "affine-ca90f06b21f0", {"y": 16, "x": 16}),
            ({"T": "float32", "relu": False}, "main", {"block": 1024, "vec": 1}, "affine-515390b2d602", {}),
            ({"T": "float32", "relu": True}, "main", {"block": 128, "vec": 1}, "affine-3717247d3352", {}),
            ({"T": "float32", "relu": True}, "main", {"block": 64, "vec": 1}, "affine-e4d5b41d9fb6", {}),
            ({"T": "float32", "relu": True}, "main", {"block": 64, "vec": 4}, "affine-0518d32d32ed", {"y": 16, "x": 16}),
        ),
    }

    # The sources in kernels/ with their binaries: compile options, whether for one architecture only, and for each
    # binary architecture, NVRTC, and by entry point the registers per thread and static shared bytes per block. Then,
    # if it includes any, the project's own headers by name, with their files.
    _BINARIES = {
        "accumulate-3a6296403f6c": ((), False, (("sm_90", "13.0.88", {"finish": (32, 0), "partials": (32, 0)}),)),
        "accumulate-443b7eaec9b0": ((), False, (("compute_80", "13.0.88", {"accumulate": (32, 0)}), ("sm_80", "13.0.88", {"accumulate": (32, 0)}), ("sm_90", "13.0.88", {"accumulate": (32, 0)}))),
        "accumulate-4cf0ce9cf021": ((), False, (("sm_90", "13.0.88", {"accumulate": (32, 0)}),)),
        "accumulate-bd23e25ef7c3": ((), False, (("compute_80", "13.0.88", {"accumulate": (32, 0)}), ("sm_80", "13.0.88", {"accumulate": (32, 0)}), ("sm_90", "13.0.88", {"accumulate": (32, 0)}))),
        "affine-029469bdb41e": ((), False, (("sm_90", "13.0.88", {"affine": (32, 0)}),)),
        "affine-0518d32d32ed": ((), False, (("sm_90", "13.0.88", {"affine": (32, 0)}),)),
        "affine-3717247d3352": ((), False, (("compute_80", "13.0.88", {"affine": (32, 0)}), ("sm_80", "13.0.88", {"affine": (32, 0)}), ("sm_90", "13.0.88", {"affine": (32, 0)}))),
        "affine-515390b2d602": ((), False, (("sm_80", "13.0.88", {"affine": (32, 0)}),)),
        "affine-77e79ec68244": ((), False, (("sm_90", "13.0.88", {"affine": (32, 0)}),)),
        "affine-8daec7b59b1e": ((), False, (("compute_80", "13.0.88", {"affine": (32, 0)}), ("sm_80", "13.0.88", {"affine": (32, 0)}), ("sm_90", "13.0.88", {"affine": (32, 0)}))),
        "affine-9f65b2c5ec4a": ((), False, (("sm_90", "13.0.88", {"affine": (32, 0)}),)),
        "affine-ae3685d87933": ((), False, (("compute_80", "13.0.88", {"affine": (32, 0)}), ("sm_80", "13.0.88", {"affine": (32, 0)}), ("sm_90", "13.0.88", {"affine": (32, 0)}))),
        "affine-b9af4ff57182": ((), False, (("compute_80", "13.0.88", {"affine": (32, 0)}), ("sm_80", "13.0.88", {"affine": (32, 0)}), ("sm_90", "13.0.88", {"affine": (32, 0)}))),
        "affine-ca90f06b21f0": ((), False, (("sm_90", "13.0.88", {"affine": (32, 0)}),)),
        "affine-e4d5b41d9fb6": ((), False, (("sm_90", "13.0.88", {"affine": (32, 0)}),)),
    }

    # The kernels as their specs describe them.
    _accumulate = Kernel(
        "accumulate",
        arguments=(
            Array("total", "inout", "float32", "(lanes,)", lambda lanes: (lanes,)),
            Array("last", "out", "float32", "(1,)", lambda: (1,), init=True),
            Array("x", "in", "float32", "(n, lanes)", lambda lanes, n: (n, lanes)),
            Scalar("n", "int32"),
        ),
        implementations={
            "atomic": Implementation(
                launches=(
                    Launch("accumulate", grid=lambda block, device, n: (min(ceil_div(n, block), 4 * device.sm_count), 1, 1), block=lambda block: (block, 1, 1), shared=lambda: 0, arguments=("total", "last", "x", "n")),
                ),
            ),
            "staged": Implementation(
                launches=(
                    Launch("partials", grid=lambda blocks, n: (blocks if n > 0 else 0, 1, 1), block=lambda lanes: (lanes, 32, 1), shared=lambda: 0, arguments=("partial", "x", "n")),
                    Launch("finish", grid=lambda: (1, 1, 1), block=lambda lanes: (lanes, 1, 1), shared=lambda: 0, arguments=("total", "last", "partial")),
                ),
                where=(
                    ("n >= blocks * 2 ** 5", lambda blocks, n: n >= blocks * 2 ** 5),
                ),
                scratch=(
                    Buffer("partial", "float32", lambda blocks, lanes: (blocks, lanes), init=True),
                ),
            ),
        },
        dims={"lanes": ("total", 0), "n": ("x", 0)},
        shipped=_SHIPPED["accumulate"],
        rows=TABLE["accumulate"],
        devices=DEVICES,
        binaries=_BINARIES,
    )

    _affine = Kernel(
        "affine",
        arguments=(
            Array("y", "out", "T", "(rows, cols)", lambda cols, rows: (rows, cols)),
            Array("x", "in", "T", "(rows, cols)", lambda cols, rows: (rows, cols)),
            Scalar("alpha", "float32"),
            Scalar("rows", "int32"),
            Scalar("cols", "int32"),
        ),
        implementations={
            "main": Implementation(
                launches=(
                    Launch("affine", grid=lambda block, cols, rows, vec: (rows, ceil_div(cols, block * vec), 1), block=lambda block: (block, 1, 1), shared=lambda block: block * 4, arguments=("y", "x", "alpha", "rows", "cols")),
                ),
                where=(
                    ("cols % vec == 0", lambda cols, vec: cols % vec == 0),
                ),
            ),
        },
        dims={"cols": ("x", 1), "rows": ("x", 0)},
        types=("T",),
        keywords={"relu": (False, True)},
        requires=(
            ("cols >= 1", lambda cols: cols >= 1),
        ),
        shipped=_SHIPPED["affine"],
        rows=TABLE["affine"],
        selections=SELECTIONS["affine"],
        devices=DEVICES,
        binaries=_BINARIES,
    )
