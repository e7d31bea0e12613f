"""`pretuned export`: a tuning as a T4 file, the community's format of tuning results."""

from __future__ import annotations

import math
from argparse import Namespace

from pretuned.api.projects import specs_of
from pretuned.cli.project import console, here
from pretuned.config import read_settings
from pretuned.errors import Error, ExitCode, UsageError
from pretuned.record import lock as lockfile
from pretuned.record.cache import Cache
from pretuned.record.lock import Lock
from pretuned.record.rows import Row
from pretuned.runtime.text import no_such
from pretuned.spec.model import KernelSpec


def run(options: Namespace) -> ExitCode:
    """Write the file, and print how many configurations it holds."""
    from pretuned.exchange.export import results_of  # noqa: PLC0415 - it imports NumPy, which most commands do without
    from pretuned.exchange.t4 import write  # noqa: PLC0415

    project = here(options)
    path = options.lock or (project.lock if project is not None else None)
    if path is None or not path.is_file():
        raise UsageError(f"there is no lock '{path or 'pretuned.lock.json'}'; name one, or tune first")
    lock = lockfile.read(path)
    rows = _rows(lock, options.kernel, options.device)
    spec = _spec(options, rows[0].kernel) if project is not None else None
    with Cache(read_settings().cache) as cache:
        results = results_of(rows, lock.devices[rows[0].device], spec, cache)
    write(options.output, results)
    timed = sum(time_us < math.inf for time_us in results.times_us)
    count = f"{len(results.times_us)} results of {rows[0].kernel} at {len(rows)} problems"
    print(f"{options.output}: {count}, {timed} of them with a time")
    return ExitCode.SUCCESS


def _spec(options: Namespace, kernel: str) -> KernelSpec | None:
    """Return the kernel's spec, by which the cache is read; None where there is none that is sound."""
    project = here(options)
    assert project is not None  # or nobody asks
    try:
        return specs_of(project, [kernel])[kernel]
    except Error as error:
        console.warning(f"only the lock's own rows are exported: {error}")
        return None


def _rows(lock: Lock, kernel: str | None, device: str | None) -> list[Row]:
    """Return the rows of one kernel on one device, which need a name where there are several."""
    kernels = sorted({row.kernel for row in lock.rows})
    if kernel is None and len(kernels) != 1:
        raise UsageError(f"say which kernel with --kernel; the lock has {', '.join(kernels) or 'none'}")
    name = kernel or kernels[0]
    if name not in kernels:
        raise UsageError(no_such("kernel", name, kernels, of="the lock"))
    of_kernel = [row for row in lock.rows if row.kernel == name]
    devices = sorted({row.device for row in of_kernel})
    if device is None and len(devices) != 1:
        raise UsageError(f"say which device with --device; {name} was tuned on {', '.join(devices)}")
    if device is not None and device not in devices:
        raise UsageError(no_such("device", device, devices, of=name))
    return [row for row in of_kernel if row.device == (device or devices[0])]
