"""What people do wrong, from tests/messages/messages.toml: made in a project, and what is printed about it.

As a program it writes what is printed now into the table: `python tests/support/mistakes.py [PATTERN]`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import bad_calls

FOLDER: Final = Path(__file__).parents[1] / "messages"
FILE: Final = FOLDER / "messages.toml"
# What depends on the inputs that were drawn.
DRAWN: Final = re.compile(r"[\d,]+ of [\d,]+ elements are off by up to [^;]+; allowed: [\d.]+|index -?\d+ is out")
CALLS: Final = {name: message for name, _, _, message in (*bad_calls.CUPY, *bad_calls.TORCH, *bad_calls.BOTH)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """An edit of the project and the command that reports it, or the name of a wrong call; what was and is printed."""

    what: str
    edit: tuple[tuple[str, ...], ...] = ()
    run: str = ""
    call: str = ""
    before: str
    now: str = ""

    @property
    def compiles(self) -> bool:
        """Whether its command compiles, which takes seconds."""
        return bool(re.search(r"--execute| bake| tune", self.run)) and "=" not in self.run


def mistakes() -> Iterator[Mistake]:
    """Yield the mistakes of the table."""
    for part in tomllib.loads(FILE.read_text(encoding="utf-8"))["parts"]:
        for entry in part["mistakes"]:
            yield Mistake(**entry | {"edit": tuple(map(tuple, entry.get("edit", ())))})


def make(mistake: Mistake, root: Path) -> None:
    """Write the project with the mistake into `root`."""
    shutil.copytree(FOLDER / "axpy", root, dirs_exist_ok=True)
    for name, *texts in mistake.edit:
        file = root / name if name == "pyproject.toml" or "/" in name else root / "kernels" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if len(texts) == 1:
            file.write_text(texts[0], encoding="utf-8")
            continue
        old, new = texts
        text = file.read_text(encoding="utf-8")
        assert old in text, f"{mistake.what}: {name} has no {old!r}"
        file.write_text(text.replace(old, new), encoding="utf-8")


def command(mistake: Mistake) -> tuple[dict[str, str], list[str]]:
    """Return the environment and the arguments of a mistake's command, `pretuned` itself left out."""
    words = shlex.split(mistake.run)
    place = words.index("pretuned")
    return dict(tuple(word.split("=", 1)) for word in words[:place]), words[place + 1 :]


def steady(text: str, root: Path) -> str:
    """Return what is printed without what differs between runs, machines and compilers.

    That is: the project's place, the times in tables and summaries, whether there is a GPU, and a compiler's quotes.
    """
    text = text.replace(str(root), "PROJECT").replace("\u2018", "'").replace("\u2019", "'")
    text = re.sub(r"^kernel +mode .*\n(?:.+\n)*", "", text, flags=re.MULTILINE)
    text = re.sub(r"^warning: no GPU here.*\n", "", text, flags=re.MULTILINE)
    if "\nerror: " in text:  # which comes last, after what was done
        text = text[text.index("\nerror: ") + 1 :]
    return text


def undrawn(text: str) -> str:
    """Return a message without the numbers that other inputs would change."""
    return DRAWN.sub(lambda found: re.sub(r"-?\d[\d.,]*", "#", found[0]), text)


def printed(mistake: Mistake, root: Path) -> str:
    """Make the mistake in `root`, run its command there in a process of its own, and return what it prints."""
    make(mistake, root)
    environment, arguments = command(mistake)
    done = subprocess.run(
        [sys.executable, "-m", "pretuned", *arguments],
        cwd=root,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return steady(done.stdout + done.stderr, root)


def _write(pattern: str) -> None:
    text = FILE.read_text(encoding="utf-8")
    for mistake in mistakes():
        if not re.search(pattern, f"{mistake.what} {mistake.run}"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            said = CALLS[mistake.call] + "\n" if mistake.call else printed(mistake, Path(folder))
        print(f"{mistake.what}\n{said}")
        before = text.index("\nbefore = ", text.index(f"\nwhat = {_quoted(mistake.what)}\n"))
        begin = text.index("\n", before + 1) + 1
        end = text.find("\n[[parts", begin)
        text = f"{text[:begin]}now = '''\n{said}'''\n{text[end:] if end > 0 else ''}"
    FILE.write_text(text, encoding="utf-8")


def _quoted(text: str) -> str:
    return f"'{text}'" if '"' in text else f'"{text}"'


if __name__ == "__main__":
    _write(sys.argv[1] if len(sys.argv) > 1 else "")
