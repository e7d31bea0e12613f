"""Record what a tuning shows: `python tools/record_progress.py` tunes the quickstart on the host device four times.

It does so on terminals of 80 and 40 columns, without a terminal, and in a build by pip, with sizes that suit a
processor. It writes docs/recordings/progress_*.txt, which the guide shows. What a terminal shows is what pyte, a
terminal in memory, makes of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from screens import TerminalScreen, run_on_terminal

ROOT: Final = Path(__file__).parents[1]
RECORDINGS: Final = ROOT / "docs" / "recordings"
BUDGET_S: Final = 40
SMALL: Final = {"[256, 4096]": "[16, 64]", "[1024, 4096, 8192]": "[256, 512, 1024]"}  # in place of the spec's sizes
COMMAND: Final = f"pretuned tune --on host --budget {BUDGET_S}"
PIP: Final = "pip wheel -v --no-build-isolation --no-deps ."
EVERY_S: Final = 5.0


@contextmanager
def _project() -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield a copy of the quickstart, and an environment with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "quickstart")
        shutil.copytree(ROOT / "examples" / "quickstart", project, ignore=shutil.ignore_patterns("tuned", "dist"))
        spec = project / "kernels" / "rms_norm.toml"
        text = spec.read_text()
        for theirs, small in SMALL.items():
            text = text.replace(theirs, small)
        spec.write_text(text)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PRETUNED_")}
        yield project, {**kept, "PRETUNED_CACHE_DIR": str(Path(folder, "cache")), "TERM": "xterm-256color"}


def on_terminal(columns: int) -> str:
    """Return a recording of what a terminal showed every few seconds, and at the end."""
    screen, shown, last_s = TerminalScreen(columns), [f"$ {COMMAND}"], 0.0

    def look(seconds: float) -> None:
        nonlocal last_s
        lines = screen.lines()
        if seconds - last_s >= EVERY_S and lines and lines[-1].startswith("best"):
            last_s = seconds
            shown.extend([f"--- {columns} columns, after {seconds:.0f} s", *lines])

    with _project() as (project, environment):
        run_on_terminal(COMMAND.split(), screen, environment=environment, folder=project, look=look)
    return "\n".join([*shown, "--- at the end", *screen.lines()]) + "\n"


def in_a_log() -> str:
    """Return what stands in a log where there is no terminal."""
    with _project() as (project, environment):
        done = subprocess.run(  # noqa: S603 - the command above
            COMMAND.split(), cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
        )
    return f"$ {COMMAND} 2>&1 | cat\n{done.stdout.decode()}"


def in_pip() -> str:
    """Return what `pip -v` shows of a build that tunes: of all its lines, those of the build."""
    with _project() as (project, environment):
        done = subprocess.run(  # noqa: S603 - the command above
            PIP.split(),
            cwd=project,
            env=environment | {"PRETUNED_TUNE_ON": "host", "PRETUNED_BUDGET": str(BUDGET_S)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=True,
        )
    lines = [line for line in done.stdout.decode().splitlines() if line.startswith("  ")]
    own = [line for line in lines if not line.lstrip().startswith(("Created wheel", "Stored in"))]
    return "\n".join([f"$ PRETUNED_TUNE_ON=host {PIP}", *own]) + "\n"


def main() -> None:
    """Write the recordings."""
    RECORDINGS.mkdir(exist_ok=True)
    (RECORDINGS / "progress_pip.txt").write_text(in_pip())
    for columns in (80, 40):
        (RECORDINGS / f"progress_{columns}.txt").write_text(on_terminal(columns))
    (RECORDINGS / "progress_log.txt").write_text(in_a_log())


if __name__ == "__main__":
    main()
