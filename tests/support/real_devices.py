"""Real GPUs and slices of them, and whose rows each takes from which table.

Facts are those of NVIDIA's data sheets and of the MIG user guide: SMs, compute capability, GB/s, MiB of L2. A slice has
its share of all of them. `python tests/support/real_devices.py`, with `generator` on PYTHONPATH, rewrites the table.
"""

from __future__ import annotations

from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "runtime" / "golden" / "devices.txt"
H100, H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"
A100, A100_80 = "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB"
RTX_4090, SLICE = "NVIDIA GeForce RTX 4090", f"{H100} MIG 1g.10gb"
DEVICES = {
    H100: (132, 90, 3352, 50),
    "NVIDIA H100 PCIe": (114, 90, 2039, 50),
    "NVIDIA H100 NVL": (132, 90, 3938, 50),
    H200: (132, 90, 4814, 50),
    "NVIDIA GH200 480GB": (132, 90, 4023, 50),
    "NVIDIA H20": (78, 90, 4023, 60),
    SLICE: (16, 90, 419, 6),
    f"{H100} MIG 2g.20gb": (32, 90, 838, 12),
    f"{H100} MIG 3g.40gb": (60, 90, 1676, 25),
    f"{H100} MIG 7g.80gb": (132, 90, 3352, 50),
    A100: (108, 80, 1555, 40),
    A100_80: (108, 80, 2039, 40),
    "NVIDIA A100 80GB PCIe": (108, 80, 1935, 40),
    f"{A100} MIG 1g.5gb": (14, 80, 194, 5),
    f"{A100} MIG 2g.10gb": (28, 80, 389, 10),
    f"{A100} MIG 3g.20gb": (42, 80, 778, 20),
    f"{A100} MIG 7g.40gb": (98, 80, 1555, 40),
    "NVIDIA A30": (56, 80, 933, 24),
    "NVIDIA A10": (72, 86, 600, 6),
    "NVIDIA GeForce RTX 3090": (82, 86, 936, 6),
    RTX_4090: (128, 89, 1008, 72),
    "NVIDIA L40S": (142, 89, 864, 96),
    "NVIDIA L4": (58, 89, 300, 48),
    "Tesla T4": (40, 75, 320, 4),
    "Tesla V100-SXM2-16GB": (80, 70, 898, 6),
    "NVIDIA B200": (148, 100, 7672, 126),
}
# How every warning ends: the table leaves it out.
TAIL = (
    "; tune on such a device with `pretuned tune`, choose rows with PRETUNED_DEVICE, or silence this with "
    "PRETUNED_WARN=0"
)
TABLES = [(H100,), (H200,), (A100,), (H100, H200), (H200, A100_80), (H100, SLICE), (RTX_4090, A100)]


def facts(name):
    """What the runtime asks of a device."""
    sms, capability, gbps, l2_mib = DEVICES[name]
    return {
        "sm_count": sms,
        "compute_capability": capability,
        "memory_gbps": gbps,
        "l2_bytes": l2_mib << 20,
        "shared_bytes": 98304,
    }


class Chooser:
    """The sample package's `affine`, with a table of any devices: all have the rows that the sample has of the H100."""

    def __init__(self, runtime):
        """Take the `_runtime` of the sample package, imported, as a function from a module's name."""
        self._devices, self._lookup, self._calls = (runtime(name) for name in ("devices", "lookup", "calls"))
        self._overrides, self.kernel = runtime("overrides"), runtime("table").KERNELS["affine"]
        self._answers, self._problem = runtime("answers"), runtime("problem")
        self.rows = self.kernel.literals[1][H100]

    def decide(self, device, table, cols=1024, selected=()):
        """Return the decision for a call on `device`, with the rows by device of `table`; `selected` have a selection.

        It is the one that the sample has of the H100 where relu is set.
        """
        ((_, *selection),) = self.kernel.literals[2][H100]
        selections = {"affine": dict.fromkeys(selected, (({"T": "float32", "relu": False}, *selection),))}
        overrides = self._overrides.Overrides()
        overrides.table = self._answers.LockTable({name: facts(name) for name in table}, {"affine": table}, selections)
        specialisation = {"T": "float32", "relu": False}
        values = {"rows": 16, "cols": cols, **specialisation}
        here = self._devices.Device(device, facts(device))
        called = self._problem.CalledProblem(self.kernel, here, specialisation, values)
        return self._lookup.decide(self.kernel, called, lambda _name, _size: True, overrides)

    def text(self):
        """Return whose rows every device takes from every table, and the warning."""
        head, tail = "pkg.tuned.affine: ", TAIL
        lines = []
        for names in TABLES:
            lines += ["", f"A table of {' and '.join(names)}"]
            for device in DEVICES:
                decision = self.decide(device, dict.fromkeys(names, self.rows))
                lines.append(f"  {device}: {decision.device or 'the default'}")
                if decision.warning:
                    text = self._calls.caution(self.kernel, decision)
                    assert text.startswith(head)
                    assert text.endswith(tail)
                    lines.append(f"    {text.removeprefix(head).removesuffix(tail)}")
        return "\n".join([*lines[1:], ""])


if __name__ == "__main__":
    import importlib
    import sys
    import tempfile

    import sample

    with tempfile.TemporaryDirectory() as folder:
        sample.write({"__init__.py": b""}, Path(folder) / "pkg")
        sample.write(sample.package(), Path(folder) / "pkg" / "tuned")
        sys.path.insert(0, folder)
        importlib.import_module("pkg.tuned")
        GOLDEN.write_text(Chooser(lambda name: importlib.import_module(f"pkg.tuned._runtime.{name}")).text())
