"""The documentation as data: its pages, and the fenced blocks in them with the comments that stand before."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = {
    str(file.relative_to(ROOT)): file
    for file in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted(ROOT.glob("docs/**/*.md")))
    if "_build" not in file.parts
}

_FENCE = re.compile(r"^(?P<fence>```+)(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=fence)[ ]*$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!-- ([a-z]+): (\S+) -->\s*\Z")


@dataclass(frozen=True)
class Block:
    """A fenced block: what it says it is, its text, and the (key, value) of a comment right before it."""

    page: str
    line: int
    language: str
    text: str
    note: tuple[str, str] | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass
class Command:
    """A command of a console block with the output that the page shows."""

    line: str
    output: list[str] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        """The command without its comment, as the shell splits it."""
        return shlex.split(self.line, comments=True)

    @property
    def text(self) -> str:
        """The command without its comment."""
        return re.sub(r"\s+#\s.*", "", self.line)


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = PAGES[page].read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        note = _COMMENT.search(text[: match.start()])
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, match["language"].strip(), match["text"], note and (note[1], note[2])))
    return found


def in_language(language: str) -> list[Block]:
    """Return the blocks of all pages in a language."""
    return [block for page in PAGES for block in blocks(page) if block.language == language]


def commands(block: Block) -> list[Command]:
    """Return the commands of a console block."""
    found: list[Command] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:]))
        else:
            assert found, f"{block}: a console block begins with a command"
            found[-1].output.append(line)
    return found


def matches(expected: list[str], output: str) -> bool:
    """Return whether `output` is what a page shows, where `...` stands for any text, alone on a line for any lines."""
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += r"[^\n]*?".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ ]*\n"
    text = "".join(f"{line.rstrip()}\n" for line in output.splitlines())
    return re.fullmatch(pattern, text) is not None
