"""The bundled kernels at ragged sizes, on arrays that begin anywhere: every end, and nothing behind it, is written."""

import importlib.util
import itertools
from pathlib import Path

import ml_dtypes  # noqa: F401 - with it NumPy knows float8
import numpy as np
import pytest

from kernel_folders import bundled
from pretuned.compile.host import HOST, compile_source, compiler
from pretuned.compile.result import Binary
from pretuned.device.host import FACTS
from pretuned.measure.host.kernel import HostKernel, Manner
from pretuned.measure.launch import arrays, initialised, launches, scalars, scratch
from pretuned.render import source_of
from pretuned.spec import space
from pretuned.spec.space import Configuration, Problem

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler here")
TEMPLATES = Path(__file__).parents[2] / "templates"
SPECS = bundled()
SHIFTS = [{}, {"x": 1, "a": 1, "logits": 1, "weight": 3}, {"out": 3, "c": 3, "logits": 3}]
SHIFTS += [{"x": 1, "y": 1, "out": 1, "residual": 2}, {"b": 2, "y": 2, "out": 4}]
IN_PLACE = [("grad_logits", "logits")]
IN_PLACE_SUM = [("out", "x")]
CASES = {  # by kernel: an implementation with its widest vectors, and sizes with every remainder of them
    "axpby": [("main", {"block": 128, "bytes": 16, "unroll": 2}, [(n,) for n in (1, 7, 1023, 1024, 1030, 2049)])],
    "convert": [
        ("main", {"to": "float32", "block": 128, "bytes": 16, "unroll": 2}, [(n,) for n in (1, 7, 1024, 1030, 2049)])
    ],
    "cross_entropy": [
        ("blocks", {"cluster": 1, "block": 256, "items": 8}, [(5, c) for c in (1, 6, 37, 257, 1031, 5001)])
    ],
    **{
        name: [
            ("main", {"activation": "gelu", "block": 128, "bytes": 16, "unroll": 2}, [(n,) for n in (1, 7, 1030, 2049)])
        ]
        for name in ("gated", "gated_backward")
    },
    "gemv": [
        ("main", {"block": 128, "rows_each": 2, "unroll": 2}, [(r, c) for r in (1, 19) for c in (0, 5, 67, 2049, 4104)])
    ],
    "skinny_gemm": [
        (
            "blocks",
            {
                "bm": bm,
                "parts": 2,
                "warps_n": warps_n,
                "warps_k": 4 // warps_n,
                "depth": depth,
                "split": 1,
                "fetch": 128,
            },
            [(m, n, k) for m in (1, 11) for n in (3, 50) for k in (0, 5, 130, 131, 132, 264)],
        )
        for bm, warps_n, depth in ((8, 1, 2), (16, 1, 2), (32, 4, 4), (64, 1, 2))
    ]
    + [
        (
            "vectors",
            {"block": 128, "rows_each": 4, "unroll": unroll, "xs": xs},
            [(m, n, k) for m in range(xs // 2 + 1, xs + 1) for n in (3, 50) for k in (0, 5, 131, 264, 2051)],
        )
        for xs, unroll in ((1, 2), (2, 2), (4, 1))
    ],
    "rms_norm": [
        (
            "blocks",
            {"cluster": 1, "block": 1024, "items": 16, "resident": 1024, "whole": whole},
            [(3, c) for c in ((1, 6, 16, 37, 128, 257, 1031) if whole else (16391,))],
        )
        for whole in (False, True)
    ],
    **{
        name: [
            (
                "columns",
                {
                    "cluster": 1,
                    "block": 512,
                    "items": 16,
                    "whole": False,
                    "blocks": 1,
                    "strip": strip,
                    "bytes": size,
                    "unroll": 2,
                },
                [(rows, cols) for rows in (1, 5) for cols in (6, 64, 71, 257, 8201)],
            )
            for strip, size in ((128, 4), (128, 16))
        ]
        for name in ("layer_norm_backward", "rms_norm_backward")
    },
    **{
        name: [
            ("main", {"block": 256, "blocks": 1056, "items": 32, "alone": 8192}, [(n,) for n in (1, 13, 4103, 40961)])
        ]
        for name in ("reduce_argmax", "reduce_sum")
    },
    **{
        name: [
            (
                "main",
                {"block": 256, "blocks": blocks, "bytes": width, "unroll": unroll},
                [(1500, 1), (999, 7), (300, 66), (40, 300), (1, 2048), (141, 693), (2, 9), (1, 1031)],
            )
            for width, unroll, blocks in ((4, 8, 264), (8, 8, 264), (16, 4, 528))
        ]
        for name in ("column_argmax", "column_sum")
    },
    **{
        name: [
            ("main", {"block": 256, "blocks": blocks, "items": 32}, [(5, c) for c in (1, 6, 16, 37, 257, 1031, 9999)])
        ]
        for name, blocks in (("row_argmax", 1056), ("row_sum", 1))
    },
    "scan": [
        (implementation, {"block": 256, "bytes": 64, **more}, [(2, n) for n in (16385, 32768, 40007)])
        for implementation, more in (("look_back", {}), ("shared", {"resident": 2048}))
    ],
    "row_softmax": [
        (
            "blocks",
            {"cluster": 1, "block": 1024, "items": items, "resident": 1024, "whole": whole},
            [(5, c) for c in ((37, 257, 1031, 8192) if whole else (1, 6, 16, 64, 257, 8201))],
        )
        for items, whole in ((8, False), (8, True), (32, True))
    ],
    "transpose": [
        (
            "main",
            {"threads": 128, "high": 16, "wide": wide, "whole_sectors": wide == 16},
            [(batch, r, c) for batch, r in ((1, 1), (3, 66), (2, 64)) for c in (1, 3, 34, 68)],
        )
        for wide in (16, 32)
    ]
    + [
        (
            "main",
            {"threads": 256, "high": high, "wide": wide, "whole_sectors": False},
            [(batch, n, 300) if high < wide else (batch, 300, n) for batch in (1, 3) for n in (1, 7, 8)],
        )
        for high, wide in ((4, 128), (128, 4))
    ]
    + [
        (
            "narrow",
            {"T": T, "threads": threads, "high": high, "wide": wide, "whole_sectors": whole_sectors},
            [(batch, r, c) for batch, r in ((1, 1), (3, 67), (2, 64), (1, 300)) for c in (1, 3, 34, 69, 128)]
            if min(high, wide) > 4
            else [(batch, n, 300) if high < wide else (batch, 300, n) for batch in (1, 3) for n in (1, 7, 8)],
        )
        for T, threads, high, wide, whole_sectors in (
            ("uint8", 128, 16, 32, False),
            ("uint8", 256, 32, 32, True),
            ("uint8", 512, 2, 128, False),
            ("uint8", 512, 128, 2, True),
            ("float16", 128, 16, 16, True),
            ("float16", 256, 64, 32, False),
            ("float16", 256, 4, 128, False),
        )
    ]
    + [  # with one tile or several, whose rows are an odd number of elements apart, or a multiple of 2, 4, 8 or 16
        (
            "gathered",
            {"T": T, "threads": threads, "high": high, "wide": wide, "whole_sectors": whole_sectors},
            [(2, least, least), (2, 70, 69), (1, 300, 66), (3, 67, 131), (1, 131, 268), (1, 149, 152), (1, 80, 304)],
        )
        for T, threads, high, wide, whole_sectors, least in (
            ("uint8", 128, 4, 8, True, 64),
            ("float16", 128, 4, 4, False, 16),
            ("float16", 256, 8, 8, True, 32),
            ("float32", 128, 16, 8, False, 32),
            ("float32", 256, 8, 16, True, 32),
        )
    ],
    "permute": [
        (
            "main",
            {
                "order": order,
                "threads": 128,
                "items": 1 if across else 0,
                "across": across,
                "high": 0 if across else 16,
                "wide": 0 if across else 16,
                "whole_sectors": not across,
            },
            [*((a, b, c, d) for a, b, c in ((1, 1, 37), (5, 3, 2)) for d in (1, 4, 6, 8, 33)), (2, 3, 1, 1032)],
        )
        for order, across in (("acbd", 4), ("cbad", 4), ("adcb", 0), ("dcba", 0))
    ]
    + [
        (
            "main",
            {"T": "uint8", "order": order, "threads": 256, "whole_sectors": False, **shape},
            [(2, 3, 1, 77), (1, 70, 9, 33), (3, 2, 5, 300), (5, 31, 7, 4), (1, 1, 17000, 3)],
        )
        for order in ("acbd", "cbad", "adcb", "dcba")
        for shape in (
            [{"items": 1, "across": 1, "high": 0, "wide": 0}]
            if order in ("acbd", "cbad")
            else [{"items": 0, "across": 0, "high": high, "wide": wide} for high, wide in ((16, 16), (64, 4))]
        )
    ]
    + [  # elements that go there directly
        (
            "main",
            {"T": T, "order": order, "threads": 128, "items": items, "across": 0}
            | {"high": 0, "wide": 0, "whole_sectors": False},
            [(1, 1, 1, 1), (2, 3, 1, 77), (3, 2, 5, 300), (5, 31, 7, 4), (1, 1, 17000, 3)],
        )
        for T, order, items in (
            ("uint8", "acbd", 4),
            ("uint8", "cbad", 2),
            ("uint8", "adcb", 1),
            *(("uint8", "dcba", items) for items in (4, 16, 80)),
            *(("float16", "adcb", items) for items in (4, 8, 40)),
            ("float32", "dcba", 8),
            ("float32", "adcb", 40),
            ("float64", "adcb", 4),
            ("float64", "dcba", 16),
        )
    ]
    + [  # tiles with fewer rows than threads look up at once
        (
            "main",
            {"T": "uint8", "order": order, "threads": 512, "whole_sectors": False}
            | {"items": 0, "across": 0, "high": 8, "wide": 128},
            [(18, 2, 3, 5), (41, 5, 2, 7), (70, 70, 1, 9)],
        )
        for order in ("adcb", "dcba")
    ]
    + [  # rows shorter than a block's vectors and longer ones, and axes longer than numbers that a block divides
        (
            "flat",
            {"T": T, "order": order, "threads": 128, "items": items}
            | {"across": 0, "high": 0, "wide": 0, "whole_sectors": False},
            [
                (1, 1, 1, 33),
                (2, 3, 1, 77),
                (3, 2, 50, 303),
                (1, 2, 700, 17),
                (2, 3, 1, 17001),
                (17003, 2, 1, 17),
                (1, 17003, 2, 17),
            ],
        )
        for T, order, items in (
            ("uint8", "acbd", 1),
            ("uint8", "cbad", 4),
            ("float16", "acbd", 2),
            ("float16", "cbad", 1),
            ("float32", "acbd", 4),
            ("float64", "cbad", 2),
        )
    ]
    + [
        (
            "narrow",
            {"T": T, "order": order, "threads": 128, "high": 16, "wide": wide, "whole_sectors": whole_sectors}
            | {"items": 0, "across": 0},
            [
                (1, 1, 1, 1),
                (2, 3, 1, 77),
                (1, 70, 9, 33),
                (3, 2, 5, 300),
                (5, 31, 7, 4),
                (70, 70, 1, 9),
                (2, 64, 3, 128),
            ],
        )
        for order in ("adcb", "dcba")
        for T, wide, whole_sectors in (("uint8", 32, False), ("uint8", 32, True), ("float16", 16, True))
    ],
    "sgemm": [
        (
            "plain",
            {"tile_m": 32, "tile_n": 64, "depth": 16, "thread_m": 8, "thread_n": 4, "blocks_per_sm": 1},
            [(m, n, k) for m in (1, 37) for n in (8, 67) for k in (0, 5, 40)],
        )
    ]
    + [
        (
            "shallow",
            {
                "tile_m": 32,
                "tile_n": 64,
                "depth": 32,
                "thread_m": thread_m,
                "thread_n": 4,
                "blocks_per_sm": blocks,
            },
            [(m, n, k) for m in (1, 37) for n in (8, 67) for k in (20, 27, 61)],
        )
        for thread_m, blocks in ((4, 6), (8, 8))
    ],
}
IN_SHARED = [  # by kernel: how many of its arrays are in shared memory
    ("add_rms_norm", 1),
    ("add_rms_norm", 2),
    ("add_rms_norm", 3),
    ("layer_norm", 1),
    ("rms_norm", 1),
    ("rms_norm", 2),
    ("row_softmax", 1),
]
SHORT = ("add_rms_norm", "layer_norm", "rms_norm", "row_softmax")
STREAMED = [  # by kernel: arrays in shared memory, stages, whether rows are begun ahead
    ("layer_norm", 0, 2, True),
    ("layer_norm", 1, 3, False),
    ("layer_norm", 2, 2, False),
    ("rms_norm", 0, 3, True),
    ("rms_norm", 1, 2, False),
    ("add_rms_norm", 0, 3, False),
    ("add_rms_norm", 1, 2, True),
]
FIXED = [(kernel, *case) for kernel, cases in CASES.items() for case in cases]
FIXED += [
    (
        kernel,
        "short",
        {"items": 8},
        [(5, 1), (5, 37), (4, 256), (2, 257), (3, 1031), (1, 4096)],
    )
    for kernel in SHORT
]
FIXED += [  # rows that share a block with others, of which some blocks have more than one turn
    (
        kernel,
        "blocks",
        {"cluster": 1, "block": 256, "items": 8, "blocks": 128, "resident": 768, "whole": True, "ahead": ahead},
        [(1, 6), (3, 8), (9, 37), (70, 16), (301, 256), (1100, 130)],
    )
    for kernel in ("layer_norm_backward", "rms_norm_backward")
    for ahead in (False, True)
]
FIXED += [
    (
        "cross_entropy",
        "narrow",
        {"T": kind, "cluster": 1, "block": 256, "items": items, "resident": 1024},
        [(5, 1), (5, 37), (9, 256), (3, 1031), (2, 8201)],
    )
    for kind in ("float16", "bfloat16")
    for items in (8, 72)
]
FIXED += [
    (
        kernel,
        "shared",
        {"cluster": 1, "block": 256, "items": 16, "resident": 1024, "kept": kept}
        | ({} if kernel == "row_softmax" else {"whole": False}),
        [(rows, cols) for rows in (1, 3) for cols in (4104, 8201, 12288)],
    )
    for kernel, kept in IN_SHARED
]
KEPT_WORDS = {"T": "bfloat16", "cluster": 1, "block": 256, "items": 16, "resident": 1024, "kept": 1}
FIXED += [("row_softmax", "shared", KEPT_WORDS, [(1, 4104), (3, 8201)])]
FIXED += [
    (
        kernel,
        "streamed",
        {"cluster": 1, "block": 512, "items": 16, "resident": 512, "stages": stages, "ahead": ahead}
        | {"whole": True, "kept": kept},
        [(rows, cols) for rows in (1, 100) for cols in (4104, 8001, 8192)],
    )
    for kernel, kept, stages, ahead in STREAMED
]
FIXED += [  # a warp has a row
    (
        "layer_norm",
        "streamed",
        {"cluster": 1, "block": 32, "items": 16, "resident": 512, "stages": 2, "ahead": True, "whole": True, "kept": 1},
        [(100, cols) for cols in (259, 300, 512)],
    )
]
FIXED += [  # 17 rows are two or three of a cluster, which leaves steps of two or four rows incomplete
    (
        kernel,
        "streamed",
        {"cluster": 1, "block": 256, "items": items, "resident": 512, "blocks": 8, "stages": stages}
        | {"whole": True, "together": together, "T": dtype},
        [(17, 256 * items), (40, 128 * items + 1)],
    )
    for kernel in ("layer_norm_backward", "rms_norm_backward")
    for dtype, items, stages, together in (("float16", 16, 2, 2), ("float16", 8, 2, 4), ("float32", 8, 3, 1))
]


@pytest.fixture(scope="module")
def reference():
    found = importlib.util.spec_from_file_location("bundled_reference", TEMPLATES / "reference.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def sentinel(dtype):
    """What lies beside an array: no input has it, and no result."""
    return 177 if np.dtype(dtype).kind == "u" else -80.0


def run(spec, configuration, problem, image, shifts, inputs, in_place=()):
    """Run a configuration on copies of `inputs` that begin so many elements into their memory; return the outputs.

    `in_place` pairs an output with the input whose memory it gets.
    """
    memory, addresses = {}, {}
    buffers = [*arrays(spec, problem), *scratch(spec, problem, configuration, FACTS)]
    for buffer in buffers:
        begin = shifts.get(buffer.name, 0)
        whole = np.full(buffer.size + 64, sentinel(buffer.dtype), buffer.dtype)
        base = -(whole.ctypes.data // whole.itemsize) % (16 // whole.itemsize) + begin
        part = whole[base : base + buffer.size]
        if buffer.name in inputs:
            part[:] = inputs[buffer.name].ravel()
        if buffer.name in initialised(spec, configuration):
            part[:] = 0
        memory[buffer.name] = (whole, base, buffer)
        addresses[buffer.name] = whole.ctypes.data + base * whole.itemsize
    for output, given in in_place:
        memory[output], addresses[output] = memory[given], addresses[given]
    kernel = HostKernel(
        image,
        launches(spec, problem, configuration, FACTS),
        scalars(spec, problem, configuration, FACTS),
        types={buffer.name: buffer.dtype for buffer in buffers},
        manner=Manner(),
    )
    kernel.launch(addresses)
    kernel.unload()
    for whole, base, buffer in memory.values():
        assert (np.delete(whole, np.s_[base : base + buffer.size]) == sentinel(buffer.dtype)).all()
    return {name: whole[base : base + one.size].reshape(one.shape) for name, (whole, base, one) in memory.items()}


@pytest.mark.parametrize(("kernel", "implementation", "values", "sizes"), FIXED)
def test_ragged_ends_on_arrays_that_begin_anywhere(reference, kernel, implementation, values, sizes):
    spec = SPECS[kernel]
    chosen = {name: value for name, value in values.items() if name in spec.specialisations}
    parameters = {name: value for name, value in values.items() if name not in chosen}
    configuration = Configuration(implementation=implementation, values=space.pairs(parameters))
    offered = [one for one in space.specialisations(spec) if chosen.items() <= dict(one).items()]
    specialisation = next((one for one in offered if dict(one).get("T", "float16") == "float16"), offered[0])
    generator = np.random.default_rng(3)
    binary = compile_source(source_of(spec, specialisation, configuration), HOST)
    assert isinstance(binary, Binary), binary
    for size in sizes:
        problem = Problem(specialisation=specialisation, dims=tuple(sorted(zip(spec.dims, size, strict=True))))
        # Rows are streamed where a GPU has fewer blocks at once than there are rows.
        assert implementation == "streamed" or space.legal(spec, problem, configuration, FACTS)
        brought = {buffer.name: buffer for buffer in arrays(spec, problem) if buffer.role in ("in", "inout")}
        kinds = {name: np.int64 if np.dtype(one.dtype).kind == "i" else np.float64 for name, one in brought.items()}
        least = {name: 0 if np.dtype(one.dtype).kind == "u" else -8 for name, one in brought.items()}
        most = 250 if kernel in ("permute", "transpose") else 8  # what is only moved: few elements are alike by chance
        inputs = {
            name: generator.integers(least[name], most, one.shape).astype(kinds[name]) for name, one in brought.items()
        }
        given = {one.name: one.value for one in scalars(spec, problem)}
        wanted = getattr(reference, kernel)(**inputs, **given, **dict(specialisation))
        wanted = wanted if isinstance(wanted, dict) else {spec.outputs[0].name: wanted}
        pairs = [(), IN_PLACE_SUM] if kernel == "add_rms_norm" else [()]
        for shifts, in_place in itertools.product(SHIFTS, pairs):
            found = run(spec, configuration, problem, binary.image, shifts, inputs, in_place)
            for name, right in wanted.items():
                result = found[name].astype(np.float64)
                least = 1e-6 * max(1, np.abs(right).max(initial=0))  # what a sum over rows may lose that cancels
                np.testing.assert_allclose(result, right.reshape(result.shape), rtol=2e-3, atol=least)


@pytest.mark.parametrize("cols", [71, 72])
@pytest.mark.parametrize(("kernel", "case"), [("gemv", 0), ("skinny_gemm", 0), ("skinny_gemm", -1)])
def test_what_is_not_finite_stays_in_its_row(reference, kernel, case, cols):
    spec, (implementation, values, _) = SPECS[kernel], CASES[kernel][case]
    configuration = Configuration(implementation=implementation, values=space.pairs(values))
    specialisation = next(one for one in space.specialisations(spec) if dict(one)["T"] == "float16")
    dims = {"rows": 21, "cols": cols} if kernel == "gemv" else {"m": 3, "n": 21, "k": cols}
    problem = Problem(specialisation=specialisation, dims=space.pairs(dims))
    image = compile_source(source_of(spec, specialisation, configuration), HOST).image
    matrix, rows = np.ones((21, cols)), np.ones((3, cols))
    matrix[::2], matrix[6, -1], rows[1] = np.nan, np.inf, np.inf
    x = rows[0] if kernel == "gemv" else rows
    inputs = {"a" if kernel == "gemv" else "weight": matrix, "x": x}
    found = run(spec, configuration, problem, image, {"x": 1}, inputs)["out"]
    np.testing.assert_array_equal(found.astype(np.float64), getattr(reference, kernel)(**inputs))


@pytest.mark.parametrize("case", [0, 1, 2])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 2, 7), (5, 11, 13)], ids=str)
def test_infinities_meet_nothing_beside_the_matrices(reference, sizes, case):
    spec, (implementation, values, _) = SPECS["skinny_gemm"], CASES["skinny_gemm"][case]
    configuration = Configuration(implementation=implementation, values=space.pairs(values))
    specialisation = next(one for one in space.specialisations(spec) if dict(one)["T"] == "float16")
    problem = Problem(specialisation=specialisation, dims=space.pairs(dict(zip("mnk", sizes, strict=True))))
    image = compile_source(source_of(spec, specialisation, configuration), HOST).image
    m, n, k = sizes
    for place in range(k):
        inputs = {"x": np.ones((m, k)), "weight": np.ones((n, k))}
        inputs["x"][-1, place], inputs["weight"][0, -1] = -np.inf, np.inf
        for shifts in ({}, {"x": 1, "weight": 3}):
            found = run(spec, configuration, problem, image, shifts, inputs)["out"]
            with np.errstate(invalid="ignore"):  # infinities of both signs
                wanted = reference.skinny_gemm(**inputs)
            np.testing.assert_array_equal(found.astype(np.float64), wanted)


IN_TILES = {"bytes": 16, "unroll": 4}
IN_TURNS = IN_TILES | {"block": 128}  # of a range of rows, a thread has more than it holds at once


@pytest.mark.parametrize(
    ("kernel", "dtype", "length", "values"),
    [
        *(("row_argmax", dtype, length, {}) for dtype in ("float32", "float16") for length in (5, 45, 1031, 20003)),
        ("row_argmax", "float16", 2165, {"items": 64}),
        *(("row_argmax", dtype, 20003, {"blocks": 1}) for dtype in ("float32", "float16")),
        ("row_max", "float32", 5, {}),
        ("row_max", "float32", 1031, {}),
        *((kernel, "float32", 701, values) for kernel in ("column_argmax", "column_max") for values in ({}, IN_TILES)),
        *((kernel, "float32", 90001, IN_TURNS) for kernel in ("column_argmax", "column_max")),
    ],
)
def test_nan_wins_and_the_first_of_equal_elements(reference, kernel, dtype, length, values):
    spec = SPECS[kernel]
    specialisation = (("T", dtype),)
    x = np.random.default_rng(5).integers(-8, 8, (7, length)).astype(np.float64)
    x[1] = -np.inf
    x[2, [length // 2, length - 1]] = np.nan
    x[3] = np.nan
    x[4, [1, length - 2]] = np.inf
    x[5, [length // 3, length - 1]] = np.inf, np.nan
    x[6] = np.where(np.arange(length) % 2, 0.0, -0.0)
    x = x.T if kernel.startswith("column") else x
    problem = Problem(specialisation=specialisation, dims=(("cols", x.shape[1]), ("rows", x.shape[0])))
    chosen = dict(space.default_at(spec, problem).values) | values
    configuration = Configuration(implementation="main", values=space.pairs(chosen))
    assert space.legal(spec, problem, configuration, FACTS)
    binary = compile_source(source_of(spec, specialisation, configuration), HOST)
    assert isinstance(binary, Binary), binary
    for begin in range(16 // np.dtype(dtype).itemsize):
        found = run(spec, configuration, problem, binary.image, {"x": begin}, {"x": x})["out"]
        np.testing.assert_array_equal(found, getattr(reference, kernel)(x))


KEPT = {"cluster": 1, "block": 512, "items": 16, "resident": 1024, "whole": False, "kept": 1}
ALONG = {"cluster": 1, "block": 512, "items": 16, "whole": False, "blocks": 1, "strip": 128, "bytes": 8, "unroll": 2}
STREAM = {
    "cluster": 1,
    "block": 1024,
    "items": 16,
    "resident": 1024,
    "stages": 2,
    "ahead": True,
    "whole": True,
    "kept": 1,
}
STREAM_OF_GRADIENTS = {"cluster": 1, "block": 512, "items": 16, "resident": 512, "blocks": 8, "whole": True}
STREAM_OF_GRADIENTS |= {"stages": 2, "together": 1}
BESIDE = [  # the defaults
    ("layer_norm", "shared", KEPT),
    ("layer_norm", "streamed", STREAM),
    ("layer_norm", "short", {"items": 8}),
    ("layer_norm_backward", "columns", ALONG),
    ("layer_norm_backward", "streamed", STREAM_OF_GRADIENTS),
]
LONGEST = {"shared": 49000, "short": 4096}


def configured(spec, problem, implementation, values):
    """Return the configuration of an implementation with these values, or without one the default."""
    if implementation is None:
        return space.default_at(spec, problem)
    return Configuration(implementation=implementation, values=space.pairs(values))


def longest(implementation, values, cols):
    """Return `cols`, or as many as an implementation takes with these values where that is less."""
    held = values["block"] * values["items"] if implementation == "streamed" else LONGEST.get(implementation, cols)
    return min(cols, held)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("kernel", "implementation", "values", "cols"),
    [(kernel, None, {}, cols) for kernel in ("layer_norm", "layer_norm_backward") for cols in (600, 9001, 30000)]
    + [(*one, longest(*one[1:], 30000)) for one in BESIDE],
)
def test_a_row_with_an_infinity_anywhere_becomes_nan(kernel, implementation, values, cols, dtype):
    spec, specialisation = SPECS[kernel], (("T", dtype),)
    problem = Problem(specialisation=specialisation, dims=(("cols", cols), ("rows", 4)))
    configuration = configured(spec, problem, implementation, values)
    image = compile_source(source_of(spec, specialisation, configuration), HOST).image
    draw = np.random.default_rng(5)
    inputs = {one.name: draw.normal(0, 1, one.shape) for one in arrays(spec, problem) if one.role == "in"}
    inputs["x"][1, cols - 100], inputs["x"][2, 100] = np.inf, -np.inf
    found = run(spec, configuration, problem, image, {}, inputs)
    nans = np.isnan(found[spec.outputs[0].name].astype(np.float64))
    np.testing.assert_array_equal(nans.all(axis=1), [False, True, True, False])
    np.testing.assert_array_equal(nans.any(axis=1), [False, True, True, False])


@pytest.mark.parametrize("ahead", [False, True])
def test_long_rows_are_quantised_by_streams_as_by_blocks(ahead):
    spec, specialisation = SPECS["rms_norm_fp8"], (("T", "float16"),)
    problem = Problem(specialisation=specialisation, dims=(("cols", 8200), ("rows", 50)))
    draw = np.random.default_rng(2)
    inputs = {one.name: draw.normal(0, 1, one.shape) for one in arrays(spec, problem) if one.role == "in"}
    inputs["x"][7] = 0
    streamed = Configuration(
        implementation="streamed", values=space.pairs(STREAM | {"ahead": ahead, "kept": int(not ahead)})
    )
    found = []
    for configuration in (streamed, space.default_at(spec, problem)):
        image = compile_source(source_of(spec, specialisation, configuration), HOST).image
        result = run(spec, configuration, problem, image, {"scale": 1}, inputs)
        found.append({name: array.astype(np.float64) for name, array in result.items()})
    (out, scale), (wanted, wanted_scale) = ((one["out"], one["scale"]) for one in found)
    np.testing.assert_allclose(scale, wanted_scale, rtol=1e-5)
    assert (out[7] == 0).all()
    assert np.abs(out).max() == 448
    assert np.mean(out != wanted) < 1e-3  # where a scale's last bit decides how an element is rounded


BLOCKS = {"cluster": 1, "block": 1024, "items": 8, "resident": 1024, "whole": False, "early": True}


@pytest.mark.parametrize(("kernel", "implementation", "values"), [("layer_norm", "blocks", BLOCKS), *BESIDE])
def test_a_row_that_begins_far_from_its_mean_loses_no_digits(reference, kernel, implementation, values):
    spec, specialisation = SPECS[kernel], (("T", "float32"),)
    cols = longest(implementation, values, 262144)
    problem = Problem(specialisation=specialisation, dims=(("cols", cols), ("rows", 2)))
    configuration = Configuration(implementation=implementation, values=space.pairs(values))
    image = compile_source(source_of(spec, specialisation, configuration), HOST).image
    draw = np.random.default_rng(1)
    given = {one.name: draw.normal(0, 1, one.shape) for one in arrays(spec, problem) if one.role == "in"}
    given["x"][:, :16] = 300
    inputs = {name: array.astype(np.float32).astype(np.float64) for name, array in given.items()}
    found = run(spec, configuration, problem, image, {}, inputs)
    wanted = getattr(reference, kernel)(**inputs, **{one.name: one.value for one in scalars(spec, problem)})
    first = wanted["grad_x"] if isinstance(wanted, dict) else wanted
    off = np.abs(found[spec.outputs[0].name].astype(np.float64) - first)
    assert (off <= 3e-6 * (np.abs(first) + np.sqrt(np.square(first).mean()))).all()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("kernel", "implementation", "values", "cols"),
    [(kernel, None, {}, cols) for kernel in ("layer_norm", "layer_norm_backward") for cols in (5, 40, 700, 3000)]
    + [(*one, 3000) for one in BESIDE],
)
def test_a_row_that_begins_far_from_its_mean_changes_no_bit_of_others(
    reference, kernel, implementation, values, cols, dtype
):
    spec, specialisation = SPECS[kernel], (("T", dtype),)
    problem = Problem(specialisation=specialisation, dims=(("cols", cols), ("rows", 9)))
    configuration = configured(spec, problem, implementation, values)
    image = compile_source(source_of(spec, specialisation, configuration), HOST).image
    draw = np.random.default_rng(3)
    inputs = {one.name: draw.normal(0, 1, one.shape).astype(dtype) for one in arrays(spec, problem) if one.role == "in"}
    inputs = {name: array.astype(np.float64) for name, array in inputs.items()}
    name = spec.outputs[0].name
    without = run(spec, configuration, problem, image, {}, inputs)[name]
    inputs["x"][3] = 0
    inputs["x"][3, 0] = 3000
    found = run(spec, configuration, problem, image, {}, inputs)[name]
    others = [row for row in range(9) if row != 3]
    np.testing.assert_array_equal(found[others], without[others])
    wanted = getattr(reference, kernel)(**inputs, **{one.name: one.value for one in scalars(spec, problem)})
    wanted = (wanted[name] if isinstance(wanted, dict) else wanted)[3]
    off = np.abs(found[3].astype(np.float64) - wanted)
    assert (off <= (1e-5 if dtype == "float32" else 2e-3) * (np.abs(wanted) + np.abs(wanted).mean())).all()


@pytest.mark.parametrize("cols", [3, 1031])
def test_the_loss_of_large_logits_loses_no_digits(reference, cols):
    spec, specialisation = SPECS["cross_entropy"], (("T", "float32"),)
    problem = Problem(specialisation=specialisation, dims=(("cols", cols), ("rows", 64)))
    configuration = space.default_at(spec, problem)
    image = compile_source(source_of(spec, specialisation, configuration), HOST).image
    draw = np.random.default_rng(5)
    rows = draw.normal(3e4, 2, (64, cols)).astype(np.float32).astype(np.float64)
    inputs = {"logits": rows, "target": draw.integers(0, cols, 64)}
    found = run(spec, configuration, problem, image, {}, inputs)["loss"]
    wanted = reference.cross_entropy(**inputs, ignore_index=-100)["loss"]
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=1e-5, atol=1e-6)


def special_rows(cols):
    """Return rows of ordinary numbers but for one place, or none, and a target for each: ignored, outside, in it."""
    rows = np.random.default_rng(5).integers(-8, 8, (8, cols)).astype(np.float64)
    rows[1] = -np.inf
    for row, value in ((2, np.nan), (3, np.inf), (4, -np.inf)):
        rows[row, cols // 2] = value
    return rows, np.array([0, cols // 2, 0, 0, cols // 2, -100, cols, -1])


@pytest.mark.parametrize("cols", [3, 40, 1031])
@pytest.mark.parametrize("kernel", ["row_softmax", "cross_entropy"])
def test_rows_with_infinities_and_nans_and_any_target(reference, kernel, cols):
    spec = SPECS[kernel]
    specialisation = (("T", "float32"),)
    problem = Problem(specialisation=specialisation, dims=(("cols", cols), ("rows", 8)))
    configuration = space.default_at(spec, problem)
    binary = compile_source(source_of(spec, specialisation, configuration), HOST)
    assert isinstance(binary, Binary), binary
    rows, target = special_rows(cols)
    inputs = {"x": rows} if kernel == "row_softmax" else {"logits": rows, "target": target}
    wanted = getattr(reference, kernel)(**inputs, ignore_index=-100)
    found = run(spec, configuration, problem, binary.image, {}, inputs)
    for name, values in wanted.items() if isinstance(wanted, dict) else [("out", wanted)]:
        np.testing.assert_allclose(found[name].reshape(values.shape), values, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("implementation", ["flat", "blocks"])
def test_gradients_of_the_loss_over_rows_of_any_length_and_in_place(reference, implementation, dtype):
    spec, specialisation = SPECS["cross_entropy_backward"], (("T", dtype),)
    values = {"block": 128, "unroll": 2} if implementation == "flat" else {"block": 256, "cluster": 1, "items": 8}
    configuration = Configuration(implementation=implementation, values=space.pairs(values))
    image = compile_source(source_of(spec, specialisation, configuration), HOST).image
    draw = np.random.default_rng(5)
    several_waves = (2130, 300)  # of blocks, which do not read what is ignored
    for rows, cols in ((1, 1), (700, 3), (61, 7), (90, 8), (37, 100), (50, 129), (3, 1031), several_waves):
        problem = Problem(specialisation=specialisation, dims=(("cols", cols), ("rows", rows)))
        assert space.legal(spec, problem, configuration, FACTS)
        inputs = {
            "logits": draw.integers(-8, 8, (rows, cols)).astype(np.float64),
            "target": draw.integers(0, cols, rows),
            "logsumexp": draw.integers(7, 9, rows).astype(np.float64),
            "grad_loss": draw.integers(-2, 2, rows).astype(np.float64),
        }
        inputs["target"][::8] = -100
        inputs["logits"][::16] = np.nan  # in rows that are ignored
        inputs["target"][5::9] = draw.choice([-1, cols, cols + 1, 2**40, -(2**33)], len(inputs["target"][5::9]))
        wanted = reference.cross_entropy_backward(**inputs, ignore_index=-100)
        tolerance = {"float32": 1e-5, "float16": 2e-3}[dtype]
        for shifts, pairs in (({"logits": 1}, []), ({"logits": 3, "grad_logits": 3}, []), ({"logits": 1}, IN_PLACE)):
            found = run(spec, configuration, problem, image, shifts, inputs, pairs)["grad_logits"]
            np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=tolerance, atol=1e-6)
