# ruff: noqa: PLC0415 - libraries are optional, and importing them is a part of what is timed
"""Times ways to launch, in one process: `python routes.py FOLDER plain|using|usage`; prints one JSON object.

Routes take turns, so that what slows the host hits all alike: a *sample* is the mean over CALLS calls, and the device
is waited for between samples. Kernels are small and the queue never fills, so what is timed is the host.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import struct
import sys
import time
from contextlib import nullcontext, suppress
from functools import partial
from itertools import cycle
from pathlib import Path

import cupy

from kernels import COUNTS, SIZE, imported, source

ROUNDS = 31
CALLS = 300
GRID, BLOCK = SIZE // 256, 256


def bare(function: int, count: int, scalars: int, ask: str, stream: str, **names):
    """The route of our calls without their checks: packed at the call, prepacked; `ask` tells an array's address.

    Nothing is looked up, asked or compared: all that is left is addresses, the current stream, one pack, one launch.
    """
    values = count + scalars + 1
    memory = ctypes.create_string_buffer(16 * values)
    base = ctypes.addressof(memory)
    struct.pack_into(f"={values}Q", memory, 8 * values, *[base + 8 * i for i in range(values)])
    struct.pack_into("=i", memory, 8 * (values - 1), SIZE)
    pack = struct.Struct("=" + "Q" * count + "f4x" * scalars).pack_into
    arrays, numbers = [f"a{i}" for i in range(count)], ["s"] * scalars
    addresses = ", ".join(ask.format(a=a) for a in arrays)
    text = (
        f"def call({', '.join([*arrays, *numbers])}):\n"
        "    block = pool.pop()\n"
        f"    pack(block[0], 0, {', '.join([addresses, *numbers])})\n"
        f"    launch({stream}, block[1], 0)\n"
        "    pool.append(block)\n"
        "    return a0\n"
    )
    launch = partial(cupy.cuda.driver.launchKernel, function, GRID, 1, 1, BLOCK, 1, 1, 0)
    names |= {"pool": [(memory, base + 8 * values)], "pack": pack, "launch": launch}
    exec(text, names)
    return names["call"], partial(launch, 0, base + 8 * values, 0)


def ours(tuned, name, arrays, scalars):
    """Our routes, each written as a caller writes it."""
    kernel = getattr(tuned, name)
    inputs = [f"a{i}" for i in range(len(arrays))][len(arrays) > 1 :]
    names = {f"a{i}": array for i, array in enumerate(arrays)} | {"kernel": kernel}
    given = ", ".join([*inputs, *map(str, scalars)])
    out = ", a0=a0" if len(arrays) > 1 else ""
    exec(f"def checked(): kernel({given}{out})\ndef allocating(): kernel({given})", names)
    bound = eval(f"kernel.bind({given}{out})", names)
    return names["checked"], bound, names["allocating"] if out else None


def wandering(tuned, arrays, scalars):
    """A call with another output each time, of more than what calls are remembered by."""
    kernel, inputs = getattr(tuned, f"touch{len(arrays)}"), arrays[1:]
    outputs = cycle(list(cupy.empty((4096, SIZE), cupy.float32))).__next__
    return lambda: kernel(*inputs, *scalars, a0=outputs())


def packing(call, arrays, scalars):
    """A call of `bare`'s, written as a caller writes it."""
    names = {f"a{i}": array for i, array in enumerate(arrays)} | {"call": call}
    exec(f"def packed(): call({', '.join([*(f'a{i}' for i in range(len(arrays))), *map(str, scalars)])})", names)
    return names["packed"]


def of_cupy(tuned, count, peers):
    """The routes for CuPy's arrays by name."""
    name, scalars = f"touch{count}", (2.0,) if count > 1 else ()
    arrays = [cupy.zeros(SIZE, cupy.float32) for _ in range(count)]
    checked, bound, allocating = ours(tuned, name, arrays, scalars)
    raw = cupy.RawKernel(source(name, count), name)
    numbers = [cupy.float32(s) for s in scalars] + [cupy.int32(SIZE)]
    function, arguments = raw.kernel, (*arrays, *numbers)
    stream = {"stream": "current().ptr", "current": cupy.cuda.get_current_stream}
    packed, prepacked = bare(function.ptr, count, len(scalars), "{a}.data.ptr", **stream)
    routes = {"ours, checked": checked, "ours, bound": bound}
    if not peers:
        return routes
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        again = getattr(tuned, name).bind(
            *(arrays if count == 1 else arrays[1:]), *scalars, **({} if count == 1 else {"a0": arrays[0]})
        )
        stream.begin_capture()
        again()
        graph = stream.end_capture()
    routes |= {
        "ours, replayed from a graph": lambda: graph.launch(stream),
        "same route, packed, no checks": packing(packed, arrays, scalars),
        "same route, prepacked": prepacked,
        "CuPy Function": lambda: function((GRID,), (BLOCK,), arguments),
        "CuPy RawKernel": lambda: raw((GRID,), (BLOCK,), arguments),
    }
    if allocating is not None:
        routes["ours, output allocated"] = allocating
        routes["ours, addresses that never repeat"] = wandering(tuned, arrays, scalars)
    return routes | bindings(function.ptr, name, count, arrays, scalars)


def bindings(function, name, count, arrays, scalars):
    """What NVIDIA's own bindings take, where they are installed."""
    routes = {}
    try:
        from cuda.bindings import driver
    except ImportError:
        return routes
    values = count + len(scalars) + 1
    memory = ctypes.create_string_buffer(16 * values)
    base = ctypes.addressof(memory)
    codes = "Q" * count + "f4x" * len(scalars) + "i4x"
    struct.pack_into(f"={codes}", memory, 0, *(a.data.ptr for a in arrays), *scalars, SIZE)
    struct.pack_into(f"={values}Q", memory, 8 * values, *[base + 8 * i for i in range(values)])
    handle, stream, address = driver.CUfunction(function), driver.CUstream(0), base + 8 * values
    routes["cuda.bindings, prepacked"] = lambda: (
        memory and driver.cuLaunchKernel(handle, GRID, 1, 1, BLOCK, 1, 1, 0, stream, address, 0)
    )
    try:
        import numpy as np
        from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
    except ImportError:
        return routes
    device = Device()
    device.set_current()
    made, configuration = device.create_stream(), LaunchConfig(grid=GRID, block=BLOCK)
    options = ProgramOptions(arch=f"sm_{device.arch}")
    kernel = Program(source(name, count), "c++", options=options).compile("cubin").get_kernel(name)
    numbers = [np.float32(s) for s in scalars] + [np.int32(SIZE)]
    routes["cuda.core launch"] = lambda: launch(made, configuration, kernel, *(a.data.ptr for a in arrays), *numbers)
    return routes


def of_torch(tuned, count, peers):
    """The routes for PyTorch's tensors by name."""
    import torch

    name, scalars = f"touch{count}", (2.0,) if count > 1 else ()
    arrays = [torch.zeros(SIZE, device="cuda") for _ in range(count)]
    checked, bound, allocating = ours(tuned, name, arrays, scalars)
    routes = {"ours, checked (PyTorch)": checked, "ours, bound (PyTorch)": bound}
    if not peers:
        return routes
    function = cupy.RawKernel(source(name, count), name).kernel
    stream = {"stream": "raw(0)", "raw": torch._C._cuda_getCurrentRawStream}
    packed, _ = bare(function.ptr, count, len(scalars), "{a}.data_ptr()", **stream)
    routes["same route, packed, no checks (PyTorch)"] = packing(packed, arrays, scalars)
    if count == 3:
        routes["torch.add(out=)"] = lambda: torch.add(arrays[1], arrays[2], out=arrays[0])
        routes["ours, output allocated (PyTorch)"] = allocating
        routes |= triton(arrays)
    return routes


def triton(arrays):
    """Triton's launch, plain and by its autotuner with everything cached."""
    try:
        from triton_kernel import autotuned, plain
    except ImportError:
        return {}
    out, x, y = arrays
    grid = (GRID,)
    return {
        "Triton": lambda: plain[grid](out, x, y, 2.0, SIZE, BLOCK=BLOCK),
        "Triton, autotuned": lambda: autotuned[grid](out, x, y, 2.0, SIZE),
    }


def measured(routes):
    """Median and spread (tenth to ninth tenth) of each route in microseconds a call, in turns."""
    for call in routes.values():
        for _ in range(50):
            call()
    samples = {name: [] for name in routes}
    for _ in range(ROUNDS):
        for name, call in routes.items():
            cupy.cuda.runtime.deviceSynchronize()
            started = time.perf_counter()
            for _ in range(CALLS):
                call()
            samples[name].append((time.perf_counter() - started) / CALLS * 1e6)
    found = {}
    for name, taken in samples.items():
        taken.sort()
        found[name] = [statistics.median(taken), taken[ROUNDS // 10], taken[-1 - ROUNDS // 10]]
    return found


def main():
    folder, mode = Path(sys.argv[1]), sys.argv[2]
    tuned = imported(folder)
    with tuned.using(defaults=True) if mode == "using" else nullcontext():
        found = {}
        for count in COUNTS:
            routes = of_cupy(tuned, count, mode == "plain")
            with suppress(ImportError):
                routes |= of_torch(tuned, count, mode == "plain")
            found[count] = measured(routes)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
