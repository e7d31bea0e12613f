"""`pretuned cache`: where the user cache is, what it holds, and how to make it smaller."""

from __future__ import annotations

import json
import time
from argparse import Namespace
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pretuned.cli.project import console
from pretuned.config.settings import read_settings
from pretuned.errors import ExitCode, StorageError, UsageError, counted
from pretuned.record.cache import FILE, Cache, Holding
from pretuned.report.text import columns
from pretuned.runtime.text import no_such

ACTIONS: Final = ("list", "path", "clear")
_DAY_S: Final = 86400


def run(options: Namespace) -> ExitCode:
    """Print the path, or list or remove what fits all options given."""
    folder = read_settings().cache
    if folder is None:
        raise UsageError("name a folder for the cache with PRETUNED_CACHE_DIR; this user has none")
    file = folder / FILE
    if options.action == "path":
        print(json.dumps({"path": str(file)}) if options.json else file)
        return ExitCode.SUCCESS
    if not file.is_file():
        if options.json:
            print(json.dumps([]))
        else:
            console.info(f"{file}: nothing there yet")
        return ExitCode.SUCCESS
    with Cache(folder) as cache:
        if cache.trouble:
            raise StorageError(f"{file} cannot be used: {cache.trouble}")
        found = _fitting(cache.holdings(), options)
        if options.action == "list":
            _print(found, file, as_json=options.json)
        else:
            _clear(cache, found, file, options)
    return ExitCode.SUCCESS


def _fitting(holdings: tuple[Holding, ...], options: Namespace) -> list[Holding]:
    """Return what is of the named kernels and devices; raises UsageError for a name that the cache has nothing of."""
    kernels = {one.subject.kernel for one in holdings} - {""}
    devices = {one.subject.device for one in holdings}
    for what, asked, known in (("kernel", options.kernel, kernels), ("device", options.device, devices)):
        for name in asked or ():
            if name not in known:
                raise UsageError(no_such(what, name, known, of="the cache"))
    return [
        one
        for one in holdings
        if (not options.kernel or one.subject.kernel in options.kernel)
        and (not options.device or one.subject.device in options.device)
        and (options.older_than is None or one.oldest < _before(options))
    ]


def _before(options: Namespace) -> float:
    return time.time() - (options.older_than or 0) * _DAY_S


def _clear(cache: Cache, found: Iterable[Holding], file: Path, options: Namespace) -> None:
    removed = cache.remove([one.subject for one in found], before=_before(options))
    if options.json:
        print(json.dumps({"removed": removed}))
    else:
        console.info(f"{file}: {counted(removed, 'value')} removed")


def _print(found: list[Holding], file: Path, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([_as_data(one) for one in found], indent=2))
        return
    head = ("kernel", "device", "values", "size", "oldest", "newest")
    rows = [
        (
            one.subject.kernel or "(binaries)",
            one.subject.device,
            f"{one.values:,}",
            _size(one.nbytes),
            _day(one.oldest),
            _day(one.newest),
        )
        for one in found
    ]
    print("\n".join(columns([head, *rows], frozenset({2, 3}))))
    console.info(f"{file}: {_size(file.stat().st_size)}")


def _as_data(one: Holding) -> dict[str, object]:
    return {
        "kernel": one.subject.kernel or None,
        "device": one.subject.device,
        "values": one.values,
        "bytes": one.nbytes,
        "oldest": _day(one.oldest),
        "newest": _day(one.newest),
    }


def _size(nbytes: float) -> str:
    return f"{nbytes / 2**20:.1f} MiB"


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).date().isoformat()
