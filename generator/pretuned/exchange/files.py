"""Reading and writing JSON files, plain or gzipped, with errors that name the file."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any, Final

from pretuned.errors import Error, ExitCode

_GZIP: Final = b"\x1f\x8b"  # the first bytes of every gzip file


class FormatError(Error):
    """A file is not what it should be; the message begins with its name."""

    exit_code = ExitCode.INPUT

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path}: {message}")


def read_text(path: Path) -> str:
    """Return the text of a file, unpacked where it is gzipped whatever its name; raise FormatError if it has none."""
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if data.startswith(_GZIP) else data).decode()
    except UnicodeDecodeError:
        raise FormatError(path, "is not UTF-8 text") from None
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


def read_json(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds; raise FormatError if it holds none."""
    return parse(path, read_text(path))


def parse(path: Path, text: str) -> dict[str, Any]:
    """Return the object in `text`, which was read from `path`; raise FormatError if there is none."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(path, f"is not JSON: {error}") from None
    except RecursionError:
        raise FormatError(path, "is nested too deep to be read") from None
    if not isinstance(data, dict):
        raise FormatError(path, f"holds a JSON {type(data).__name__}, not an object")
    return data


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write `data`, gzipped if the name ends in .gz; the same data gives the same bytes."""
    text = json.dumps(data, allow_nan=False, indent=None, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
