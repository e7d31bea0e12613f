"""What the help of each command says."""

from __future__ import annotations

from typing import Final, NamedTuple


class Text(NamedTuple):
    """What the help of a command says: in the list of commands, above its options, and below them."""

    summary: str
    description: str
    example: str


TEXTS: Final = {
    "tune": Text(
        "tune kernels on this machine's GPU, and write the lock",
        "Tune what the lock lacks and what has changed since, on this machine's GPU or on the host device, and write "
        "the lock. What was measured is kept: the same command goes on where an earlier one ended.",
        "pretuned tune --kernel softmax --budget 600",
    ),
    "bake": Text(
        "write the generated packages without building the project",
        "Write the generated packages into the source tree, as an editable install does: from the lock, and from what "
        "is tuned here.",
        "pretuned bake --check",
    ),
    "show": Text(
        "print the table of tuned configurations",
        "Print for each problem the winner, its time and how much faster than the default it is: of what is baked "
        "where the project is installed, else of its lock.",
        "pretuned show pretuned.lock.json --device H100",
    ),
    "explain": Text(
        "print which configuration a call would run, and why",
        "Print which configuration a call of this problem would run, on which evidence, and what it was chosen over.",
        "pretuned explain softmax rows=4096 cols=1024 T=float32 --device 'NVIDIA H200'",
    ),
    "report": Text(
        "write a page about what tuning found",
        "Write one HTML file about the lock that needs no network: winners beside defaults, losses between the sizes, "
        "bandwidth, parameters, devices beside each other and the lock's history; or print it as Markdown or JSON. It "
        "needs no GPU.",
        "pretuned report --out report.html",
    ),
    "check": Text(
        "check the specs and the lock; or run the kernels",
        "Check that the specs are sound, that the kernels take what their specs pass (where NVRTC is installed), that "
        "no device of the project is too old for them (a warning), and that every row of the lock is fresh (status 4 "
        "if not). That needs no GPU. With --execute, --sanitize or --drift, run the kernels instead.",
        "pretuned check --execute --sample 8",
    ),
    "merge": Text(
        "merge the locks of several machines",
        "Merge locks into the project's own, or into the file that --output names, and print what had to be decided "
        "between them.",
        "pretuned merge h100.json h200.json",
    ),
    "prune": Text(
        "remove rows from the lock",
        "Remove the rows that fit all the options given.",
        "pretuned prune --device 'NVIDIA L4'",
    ),
    "inspect": Text(
        "print what a wheel was tuned for, and check its digests",
        "Print what a wheel, a folder or an installed package was tuned for, and check that its files are what "
        "was baked (status 8 if not). Nothing of it is imported or executed.",
        "pretuned inspect mypkg-1.0-py3-none-any.whl",
    ),
    "cache": Text(
        "list or clear what this user's earlier tunings measured",
        "Print what the user cache holds, its path, or remove what fits all the options given. It may always be "
        "removed: what is needed is measured and compiled anew.",
        "pretuned cache clear --older-than 30",
    ),
    "export": Text(
        "write a tuning as a T4 file for other tools",
        "Write what was measured of a kernel on a device as T4, the format of results that auto-tuners share: all that "
        "this machine's cache remembers of the lock's rows, and otherwise what the rows themselves list.",
        "pretuned export --kernel softmax -o softmax_T4.json",
    ),
    "init": Text(
        "add a first kernel and pretuned's table to this project",
        "Add a first kernel and pretuned's table to this project, and pretuned to what its build requires. Nothing "
        "that exists is overwritten.",
        "pretuned init --module src/mypkg/tuned",
    ),
    "schema": Text(
        "print a JSON schema for editors",
        "Print the JSON schema of a kernel spec, or of a pyproject.toml with pretuned's tables, for an editor.",
        "pretuned schema spec > pretuned.schema.json",
    ),
    "devices": Text(
        "list the GPUs of this machine",
        "List the driver and the GPUs of this machine, by the names that rows have and by CUDA's ordinals.",
        "pretuned devices --json",
    ),
}
