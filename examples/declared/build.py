"""Tune, check and bake this project from Python, with the public names alone; then call what was baked.

`python build.py host` takes the processor in place of a GPU: its times say nothing about one.
"""

import sys
from pathlib import Path

import pretuned

HERE = Path(__file__).parent


def main(on: str, budget_s: float = 60.0) -> None:
    """Tune on a device within `budget_s` seconds, and write what is found to the lock and the package."""
    tuned = pretuned.tune(HERE, on=on, budget_s=budget_s, listen=lambda event: print(pretuned.describe(event)))
    for row in tuned.rows:
        print(f"{row.kernel} {row.specialisation} {row.problem}: {row.configuration}, {row.speedup:.2f}x the default")
    print(f"{tuned.lock.name}: {'written' if tuned.changed else 'as it was'}; {tuned.left} rows left")

    checked = pretuned.check(HERE, on=on, report=print)
    print("fresh" if checked.fresh else "\n".join(map(str, checked.found)))

    for package in pretuned.bake(HERE, on=on, report=print):
        print(f"{package.folder.relative_to(HERE)}: {len(package.files)} files")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "cuda")
