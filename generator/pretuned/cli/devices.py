"""`pretuned devices`: the GPUs here."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import asdict

from pretuned.backends.cuda import RESTART
from pretuned.cli.project import console
from pretuned.compile.host import CPP
from pretuned.device import host, probe
from pretuned.errors import ExitCode
from pretuned.report.text import columns


def run(options: Namespace) -> ExitCode:
    """Print the driver and the GPUs that CUDA shows, by CUDA's ordinals."""
    driver, gpus, silent = probe.driver(), probe.gpus(), probe.silent_gpus()
    compiler = CPP.installed()
    if options.json:
        data = {
            "driver": asdict(driver) if driver else None,
            "gpus": [asdict(gpu) for gpu in gpus],
            "silent": [asdict(gpu) for gpu in silent],
            "host": {"processor": host.processor(), "compiler": compiler},
        }
        print(json.dumps(data, indent=2))
        return ExitCode.SUCCESS
    if driver is None:
        print("no NVIDIA driver: builds here bake the rows of the lock, or else the defaults")
        print(f"host: {host.processor()}, {compiler or 'no C++ compiler'} (`--on host`, for trying things out)")
        return ExitCode.SUCCESS
    print(f"driver {driver.version}, CUDA {driver.cuda[0]}.{driver.cuda[1]}")
    head = ("GPU", "name", "architecture", "SMs", "memory", "bandwidth", "L2", "power")
    rows = [
        (
            f"cuda:{gpu.index}",
            gpu.name,
            f"sm_{gpu.compute_capability}",
            str(gpu.sm_count),
            f"{gpu.memory_bytes / 2**30:.0f} GiB",
            f"{gpu.memory_gbps} GB/s",
            f"{gpu.l2_bytes / 2**20:.0f} MiB",
            f"{gpu.power_w} W",
        )
        for gpu in gpus
    ]
    print("\n".join(columns([head, *rows], frozenset({3, 4, 5, 6, 7}))))
    for gpu in silent:
        console.warning(f"does not answer: {gpu.reason}", place=f"cuda:{gpu.index}", remedy=RESTART)
    return ExitCode.SUCCESS
