"""What of a source only a GPU can run: found in what the preprocessor leaves, with its place."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from pretuned.render import Source
from pretuned.runtime import prelude

GPU_ONLY: Final = "for GPUs only"  # in the errors of what only a GPU can run

# What a text may ask for that no header can give, and how to say so.
_WORDS: Final = {
    r"\basm\b|\b__asm(?:__)?\b": "inline PTX",
    r"\b(?:nvcuda|wmma)\s*::": "tensor cores (mma.h)",
    r"\b(?:this_multi_grid|multi_grid_group)\b": "a barrier of several grids (cooperative groups)",
    r"\b__cluster_dims__\b|\b__cluster\w+|\b(?:this_cluster|cluster_group)\b": "clusters",
    r"\b__nv_tex|\btex[123]D\w*\s*\(|\bsurf[123]D\w+\s*\(": "textures",
    r"\bCUtensorMap\b": "tensor maps",
}
_LIBRARY: Final = (
    rf"{'|'.join(prelude.CCCL_NAMES)}|"
    r"(?:cub|cuda|thrust|nv|nvshmem)/[^>\"\n]+|(?:[\w.-]+/)*(?:cute|cutlass)/[^>\"\n]+|cuda_pipeline\w*\.h|mma\.h|cudaTypedefs\.h|cuda\.h"
    r"|cuda_awbarrier\w*\.h|nvshmem\w*\.h|cooperative_groups/memcpy_async\.h"
)
_INCLUDE: Final = re.compile(rf"""^([ \t]*\#[ \t]*include[ \t]*[<"]({_LIBRARY})[>"])""", re.MULTILINE)
_MARK: Final = "__pretuned_for_gpus_only"
_MISSING: Final = re.compile(rf"([\w./+-]+):(\d+):\d+: fatal error: ({_LIBRARY}): No such file")
_SUSPECT: Final = re.compile("|".join([*_WORDS, _MARK]))
_STRING: Final = re.compile(r'"(?:\\.|[^"\\\n])*"')
_PLACE: Final = re.compile(r'# (\d+) "((?:\\.|[^"\\])*)"((?: \d)*)$')


def suspicious(source: Source) -> bool:
    """Return whether a source may have something for GPUs only, so that it is worth preprocessing."""
    texts = [source.text, *(header.text for header in source.headers)]
    return any(pattern.search(text) for text in texts for pattern in (_SUSPECT, _INCLUDE))


def marked(source: Source) -> Source:
    """Return a source for the preprocessor: headers of libraries that only GPUs have become marks, on their lines."""
    headers = tuple(replace(header, text=_mark(header.text)) for header in source.headers)
    return replace(source, text=_mark(source.text), headers=headers)


def _mark(text: str) -> str:
    return _INCLUDE.sub(lambda match: f"{_MARK}({match[2]})", text)


def refusal(preprocessed: str, errors: str, own: Container[str]) -> str | None:
    """Return what only a GPU can run in what the preprocessor left of a text, as `FILE:LINE: ...`; None if nothing is.

    `errors` are its own; only lines of the files that are `own` count.
    """
    for file, line, written in _lines(preprocessed):
        if file not in own or _SUSPECT.search(written) is None:
            continue
        code = _STRING.sub('""', written)
        if (mark := re.search(rf"{_MARK}\(([^()\n]*)\)", code)) is not None:
            what = "tensor cores (mma.h)" if mark[1].strip() == "mma.h" else f"<{mark[1].replace(' ', '')}>"
            return f"{file}:{line}: {GPU_ONLY}: {what}"
        for pattern, what in _WORDS.items():
            if re.search(pattern, code):
                return f"{file}:{line}: {GPU_ONLY}: {what}"
    missing = _MISSING.search(errors)
    return None if missing is None else f"{Path(missing[1]).name}:{missing[2]}: {GPU_ONLY}: <{missing[3]}>"


def _lines(preprocessed: str) -> Iterator[tuple[str, int, str]]:
    """Yield the lines, each with its file and number."""
    file, number = "", 0
    for line in preprocessed.split("\n"):
        if (place := _PLACE.match(line)) is not None:
            number, file = int(place[1]), place[2]
            continue
        yield file, number, line
        number += 1
