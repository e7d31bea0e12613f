# ruff: noqa: PLC0415 - libraries are optional, and importing them is a part of what is timed
"""A fresh process's first call: `python cold.py FOLDER ours|prepared|nvrtc|triton`; prints its steps' ms as JSON."""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise
from pathlib import Path

from kernels import SIZE, source


def main():
    folder, route = Path(sys.argv[1]), sys.argv[2]
    marks = [("", time.perf_counter())]

    def mark(name):
        marks.append((name, time.perf_counter()))

    if route == "triton":
        import torch

        mark("import the array library")
        a0, a1, a2 = (torch.zeros(SIZE, device="cuda") for _ in range(3))
        torch.cuda.synchronize()
        mark("context and arrays")
        from triton_kernel import autotuned

        autotuned[(SIZE // 256,)](a0, a1, a2, 2.0, SIZE)
        torch.cuda.synchronize()
        mark("first call")
    else:
        import cupy

        mark("import the array library")
        a0, a1, a2 = (cupy.zeros(SIZE, cupy.float32) for _ in range(3))
        cupy.cuda.runtime.deviceSynchronize()
        mark("context and arrays")
        if route in {"ours", "prepared"}:
            sys.path.insert(0, str(folder))
            from baked import tuned

            mark("import the package")
            if route == "prepared":
                tuned.prepare()
                mark("prepare")
            tuned.touch3(a1, a2, 2.0, a0=a0)
            mark("first call")
            tuned.touch3(a1, a2, 2.0, a0=a0)
            mark("second call")
        else:
            salted = source("touch3", 3) + f"// {time.time_ns()}\n"  # NVRTC keeps what it compiled
            numbers = cupy.float32(2.0), cupy.int32(SIZE)
            cupy.RawKernel(salted, "touch3")((SIZE // 256,), (256,), (a0, a1, a2, *numbers))
            mark("first call")
    steps = {name: (then - before) * 1e3 for (_, before), (name, then) in pairwise(marks)}
    loaded = [name for name in sys.modules if "nvrtc" in name]
    libraries = Path("/proc/self/maps").read_text()
    print(json.dumps({"steps": steps, "nvrtc": bool(loaded) and "libnvrtc" in libraries}))


if __name__ == "__main__":
    main()
