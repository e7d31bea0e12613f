"""`pretuned check --drift`: do the winners of the lock still win on this machine?"""

from __future__ import annotations

import json
import time
from argparse import Namespace

from pretuned.api.projects import opened, specs_of
from pretuned.build.freshness import Freshness
from pretuned.cli.project import console
from pretuned.config import place_of
from pretuned.errors import DeviceError, ExitCode, LockError
from pretuned.record import lock as lockfile
from pretuned.report.drift import drift_json, drift_lines
from pretuned.report.effort import describe
from pretuned.tune.drift import Verdict
from pretuned.tune.events import Event, Waiting
from pretuned.tune.request import find_device, label
from pretuned.tune.session import remeasure


def run(options: Namespace) -> ExitCode:
    """Measure the winners and defaults of this device's rows again; the status is DRIFTED if one must go."""
    project, settings = opened(options.project, options.on)
    specs = specs_of(project, options.kernel)
    lock = lockfile.read(project.lock)
    device = find_device(place_of(project, settings.device), lock.devices)
    if device is None:
        raise DeviceError(
            "use `--on host` for the rows of this machine's processor: "
            f"there is no {label(settings.device)} here to measure on (`pretuned devices` lists what there is)"
        )
    rows = [
        row for row in Freshness(specs).status(lock).holds.rows if row.device == device.name and row.kernel in specs
    ]
    if not rows:
        raise LockError(f"{project.lock.name} has no rows for {device.name} that are not stale; run `pretuned tune`")
    begun_s = time.perf_counter()
    found = list(remeasure(rows, specs, device, cache_folder=settings.cache, listen=_report_waiting))
    if options.json:
        print(json.dumps({"device": device.name, "rows": [drift_json(drift) for drift in found]}, indent=2))
    else:
        print("\n".join(drift_lines(found)))
    console.info(f"{device.name}: measured in {time.perf_counter() - begun_s:.1f} s")
    drifted = any(drift.verdict in {Verdict.SLOWER, Verdict.FAILS} for drift in found)
    return ExitCode.DRIFTED if drifted else ExitCode.SUCCESS


def _report_waiting(event: Event) -> None:
    if isinstance(event, Waiting):
        console.info(describe(event))
