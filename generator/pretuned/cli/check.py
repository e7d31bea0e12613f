"""`pretuned check`: are the specs sound and the lock fresh?"""

from __future__ import annotations

import json
from argparse import Namespace

from pretuned.build.table import findings
from pretuned.cli.project import project_of, specs_of
from pretuned.errors import LockError
from pretuned.record import lock as lockfile


def run(options: Namespace) -> int:
    """Print what of the lock is not fresh, and why; the status is 0, or LockError's."""
    project = project_of(options)
    specs = specs_of(project, options.kernel)
    lock = lockfile.read(project.lock)
    found = list(findings(specs, lock, lock.devices))
    fresh = bool(lock.rows) and not found
    if options.json:
        entries = [
            {
                "kernel": finding.kernel,
                "device": finding.device,
                "specialisation": dict(finding.problem.specialisation),
                "problem": dict(finding.problem.dims),
                "state": str(finding.state or "missing"),
                "reason": finding.reason,
            }
            for finding in found
        ]
        print(json.dumps({"fresh": fresh, "rows": len(lock.rows), "findings": entries}, indent=2))
    elif fresh:
        print(f"{project.lock.name}: {len(lock.rows)} rows for {', '.join(lock.devices)}, all fresh")
    elif not lock.rows:
        print(f"{project.lock.name}: no rows; run `pretuned tune` on a machine with a GPU")
    else:
        for finding in found:
            print(finding)
        print(f"{project.lock.name}: {len(found)} of {len(lock.rows)} rows are not fresh; run `pretuned tune`")
    return 0 if fresh else LockError.exit_code
