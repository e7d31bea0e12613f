"""Two small kernels with made-up rows and binaries, baked: what the tests of the bake and of its runtime stand on.

`python tests/support/sample.py`, with `generator` on PYTHONPATH, rewrites the golden files.
"""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

from kernel_folders import specs_in
from pretuned.bake.package import files
from pretuned.bake.plan import BakePlan, plan
from pretuned.compile.result import Binary, Resources
from pretuned.record.rows import Choice, Row, TunedDevice
from pretuned.record.selections import Certificate, Losses, PredictedChoice, Selection
from pretuned.spec.model import KernelSpec
from pretuned.spec.space import Configuration, Problem, pairs

GOLDEN = Path(__file__).parents[1] / "bake" / "golden"
H100 = TunedDevice(
    name="NVIDIA H100 80GB HBM3",
    sm_count=132,
    compute_capability=90,
    l2_bytes=50 * 2**20,
    shared_bytes=232448,
    memory_bytes=80 * 2**30,
    memory_gbps=3352,
    power_w=700,
)
H200 = dataclasses.replace(H100, name="NVIDIA H200", memory_gbps=4814, memory_bytes=141 * 2**30)
A100 = TunedDevice(
    name="NVIDIA A100-SXM4-40GB",
    sm_count=108,
    compute_capability=80,
    l2_bytes=40 * 2**20,
    shared_bytes=166912,
    memory_bytes=40 * 2**30,
    memory_gbps=1555,
    power_w=400,
)
DEVICES = {device.name: device for device in (H100, A100)}


def specs() -> dict[str, KernelSpec]:
    return specs_in(GOLDEN / "specs")


def choice(time_us: float, *, ratio=(1.0, 1.0), implementation="main", spread_us=None, **values: int) -> Choice:
    configuration = Configuration(implementation=implementation, values=pairs(values))
    return Choice(
        configuration=configuration, candidate="", cubin="", time_us=time_us, ratio=ratio, spread_us=spread_us
    )


def row(kernel: str, device: TunedDevice, specialisation: dict, dims: dict, *choices: Choice) -> Row:
    return Row(
        kernel=kernel,
        device=device.name,
        problem=Problem(specialisation=pairs(specialisation), dims=pairs(dims)),
        choices=choices,
        space="",
        verification="",
        compiler="13.0.88",
        driver="580.65.06",
        date="2026-11-20",
    )


def rows() -> list[Row]:
    """Winners of every kind: with guards, several ranked, the default; and sizes without a row."""
    affine = {"T": "float32", "relu": False}
    default = choice(8.0, block=128, vec=1)
    atomic = choice(9.0, implementation="atomic", block=256)
    return [
        row(
            "affine",
            H100,
            affine,
            {"rows": 16, "cols": 64},
            choice(2.0, ratio=(0.4, 0.5), block=64, vec=2),
            default,
        ),
        row(
            *("affine", H100, affine, {"rows": 16, "cols": 1024}),
            *(
                choice(4.0, ratio=(0.5, 0.6), spread_us=(3.9, 4.0, 4.25), block=128, vec=4),
                choice(5.0, ratio=(0.6, 0.7), block=64, vec=1),
                default,
            ),
        ),
        row(
            "affine", H100, affine, {"rows": 16, "cols": 16384}, choice(6.0, ratio=(0.7, 0.8), block=64, vec=4), default
        ),
        row("affine", H100, affine | {"relu": True}, {"rows": 16, "cols": 64}, default),
        row(
            "affine",
            A100,
            affine,
            {"rows": 16, "cols": 1024},
            choice(7.0, ratio=(0.8, 0.9), block=1024, vec=1),
            default,
        ),
        row(
            "accumulate",
            H100,
            {"lanes": 2},
            {"n": 256},
            choice(3.0, ratio=(0.3, 0.4), implementation="atomic", block=128),
            atomic,
        ),
        row(
            *("accumulate", H100, {"lanes": 2}, {"n": 65536}),
            *(choice(3.5, ratio=(0.3, 0.4), implementation="staged", blocks=64), atomic),
        ),
    ]


SELECTED = {"T": "float32", "relu": True}
COSTS = (  # of affine where relu is set: the more columns, the further up is what is fastest
    ({"1": 9_000_000_000, "rows * ceil_div(cols, 256)": 4_000_000}, {"block": 64, "vec": 4}),
    ({"1": 5_400_000_000, "cols % 64 != 0": 700_000_000, "rows * cols": 120_000}, {"block": 64, "vec": 1}),
    ({"1": 2_000_000_000, "rows * ceil_div(cols, 128)": 40_000_000}, {"block": 128, "vec": 1}),
)


def selections(device: str = H100.name) -> list[Selection]:
    """One, of affine on an H100, or another device, where relu is set; its default is the fastest at few columns."""
    inside = Losses(
        problems=32, mean=0.0061, p95=0.0212, worst=0.0405, slower=0.0, worst_at=pairs({"cols": 1037, "rows": 16})
    )
    outside = Losses(
        problems=8, mean=0.012, p95=0.031, worst=0.0502, slower=0.125, worst_at=pairs({"cols": 31999, "rows": 16})
    )
    choices = [
        PredictedChoice(
            configuration=Configuration(implementation="main", values=pairs(values)),
            candidate="",
            cubin="",
            cost=tuple(sorted(cost.items())),
        )
        for cost, values in COSTS
    ]
    return [
        Selection(
            kernel="affine",
            device=device,
            specialisation=pairs(SELECTED),
            choices=tuple(choices),
            margins=(20, 100),
            reach=(("cols", (64, 16384)), ("rows", (16, 16))),
            problems=96,
            space="",
            verification="",
            compiler="13.0.88",
            driver="580.65.06",
            date="2026-11-20",
            certificate=Certificate(seed=14, inside=inside, outside=outside),
        )
    ]


def binaries(of: BakePlan) -> dict[tuple[str, str], Binary]:
    """Images that say what they are, and resources that no compiler has measured."""
    found = {}
    for module, architecture in of.jobs:
        image = f"image of {module.key} for {architecture}".encode()
        found[module.key, architecture] = Binary(
            module=module.key,
            architecture=architecture,
            image=image,
            digest=hashlib.sha256(image).hexdigest(),
            flags=(),
            compiler="13.0.88",
            resources={name: Resources(registers=32, spill_bytes=0, shared_bytes=0) for name in module.functions},
        )
    return found


def measured(found: list[Row | Selection], of: BakePlan, built: dict[tuple[str, str], Binary]) -> list[Row | Selection]:
    """Return them with the digests of what was built, but for accumulate's, which count as measured elsewhere."""
    kernels = {kernel.spec.name: kernel for kernel in of.kernels}

    def with_digest(entry, choice):
        module = kernels[entry.kernel].source(entry.specialisation, choice.configuration)
        return dataclasses.replace(choice, cubin=built[module.key, DEVICES[entry.device].architecture].digest)

    return [
        dataclasses.replace(entry, choices=tuple(with_digest(entry, c) for c in entry.choices))
        if entry.kernel == "affine"
        else entry
        for entry in found
    ]


def package(*, jax: bool = False, **options) -> dict[str, bytes]:
    """Return the files of the sample package."""
    first = plan(specs(), rows(), DEVICES, selections=selections(), **options)
    built = binaries(first)
    if not built:
        return files(first, built, version="0.0.0", jax=jax)
    found = (measured(entries, first, built) for entries in (rows(), selections()))
    planned = plan(specs(), next(found), DEVICES, selections=next(found), **options)
    return files(planned, built, version="0.0.0", jax=jax)


def write(content: dict[str, bytes], folder: Path) -> Path:
    """Write a package's files below `folder`."""
    for name, data in content.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return folder


def golden_part(content: dict[str, bytes]) -> dict[str, bytes]:
    """Return what is compared byte for byte: all but the runtime, which is a copy, and the made-up binaries."""
    return {
        name: data for name, data in content.items() if name.endswith((".cu", "__init__.py")) and "_runtime" not in name
    }


if __name__ == "__main__":
    for old in (GOLDEN / "expected").rglob("*.*"):
        old.unlink()
    write(golden_part(package()), GOLDEN / "expected")
