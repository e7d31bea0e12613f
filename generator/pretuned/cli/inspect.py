"""`pretuned inspect`: what a wheel was tuned for, and whether it is as it was baked. Nothing of it is executed."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.machinery import ModuleSpec
from pathlib import Path, PurePosixPath

from pretuned.bake.literals import prose
from pretuned.build.inspection import Contents, Inspected, in_folder, inspect, open_wheel, tags_of
from pretuned.build.metadata import BakedSelection, Metadata, Share, certificate_of
from pretuned.errors import ExitCode, UsageError, counted
from pretuned.report.certificates import chosen, whole
from pretuned.report.text import columns
from pretuned.spec.space import pairs

KIB = 1024


def run(options: Namespace) -> ExitCode:
    """Print what is in a wheel, a folder or an installed package; the status is FOUND if something is off."""
    with _contents(options.source) as contents:
        tags, found = tags_of(contents), inspect(contents)
        if not found:
            raise UsageError(f"{options.source} does not hold a package that pretuned generated")
    if options.json:
        print(
            json.dumps({"source": options.source, "tags": tags, "packages": [asdict(one) for one in found]}, indent=2)
        )
    else:
        head = [f"{Path(options.source).name}: {', '.join(map(prose, tags)) or 'no tags'}"] if tags else []
        print("\n\n".join([*head, *("\n".join(_lines(one, options.source)) for one in found)]))
    return ExitCode.FOUND if any(one.wrong for one in found) else ExitCode.SUCCESS


@contextmanager
def _contents(source: str) -> Iterator[Contents]:
    path = Path(source)
    if path.is_file():
        with open_wheel(path) as contents:
            yield contents
    elif path.is_dir():
        yield in_folder(path)
    else:
        yield in_folder(_installed(source))


def _installed(name: str) -> Path:
    """Return the folder of an installed package by its dotted name, importing neither it nor its parents."""
    places: list[str] | None = None
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"there is no file or folder '{name}', and that is not the name of a package")
    for end in range(1, name.count(".") + 2):
        spec = _found(".".join(name.split(".")[:end]), places)
        if spec is None or not spec.submodule_search_locations:
            raise UsageError(f"there is no file or folder '{name}', and no installed package of that name")
        places = list(spec.submodule_search_locations)
    assert places is not None  # a name has a part
    return Path(places[0])


def _found(name: str, places: list[str] | None) -> ModuleSpec | None:
    specs = (finder.find_spec(name, places) for finder in sys.meta_path)
    return next((spec for spec in specs if spec is not None), None)


def _lines(one: Inspected, source: str) -> Iterator[str]:
    """Yield lines on a package; every text of it is made printable, since anybody may have written it."""
    between = "." if Path(source).is_file() else "/"  # a folder need not be where packages lie
    name = prose(between.join(PurePosixPath(one.folder).parts)) or source
    images = ", ".join(f"{count} {prose(kind)}" for kind, count in one.images.items()) or "no binaries"
    size = f"{counted(one.files, 'file')}, {one.size_bytes / KIB:.0f} KiB"
    yield f"{name}: {size}; {images} ({one.image_bytes / KIB:.0f} KiB)"
    if one.metadata is not None:
        yield from _summary(one.metadata)
    if one.wrong:
        yield "not as it was baked:"
        yield from (f"  {prose(line)}" for line in one.wrong)
    else:
        yield "every file is as it was baked"


def _summary(found: Metadata) -> Iterator[str]:
    compilers = ", ".join(map(prose, found.compilers))
    yield f"baked by pretuned {prose(found.pretuned)}" + (f" with NVRTC {compilers}" if compilers else ", sources only")
    if not found.rows:
        yield "tuned for no device: the defaults run"
        return
    head = ("kernel", "device", "rows", "faster", "recompiled", "noisy", "tuned", "driver", "NVRTC")
    yield from columns([head, *map(_cells, found.rows)], frozenset({2, 3, 4, 5}))
    yield from _selections(found.selections)


def _selections(rules: Sequence[BakedSelection]) -> Iterator[str]:
    """Yield what certificates say together, and how many selections have none."""
    found = [
        (prose(f"{chosen(rule.kernel, pairs(rule.specialisation))} on {rule.device}"), certificate)
        for rule in rules
        if (certificate := certificate_of(rule)) is not None
    ]
    if found:
        yield prose(whole(found))
    if bare := len(rules) - len(found):
        yield f"{counted(bare, 'selection')} not certified"


def _cells(share: Share) -> tuple[str, ...]:
    days = share.first if share.first == share.last else f"{share.first} to {share.last}"
    numbers = map(str, (share.rows, share.faster, share.recompiled, share.disturbed))
    texts = map(prose, (days, ", ".join(share.drivers), ", ".join(share.compilers)))
    return prose(share.kernel), prose(share.device), *numbers, *texts
