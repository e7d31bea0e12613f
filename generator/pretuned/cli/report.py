"""`pretuned report`: a project's lock as a page, as Markdown or as data."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from pretuned.api.reporting import gathered
from pretuned.cli.project import console
from pretuned.errors import ExitCode, UsageError
from pretuned.files import write_whole
from pretuned.report.page import PAGE
from pretuned.report.project import report_of


def run(options: Namespace) -> ExitCode:
    """Write the page, or print Markdown or JSON; with --out the page is written besides."""
    if options.json and options.markdown:
        raise UsageError("choose one of --json and --markdown")
    report = report_of(gathered(options.project, options.lock, options.against, options.on, console))
    if options.json:
        print(json.dumps(report.to_json(), indent=2))
    elif options.markdown:
        from pretuned.report.markdown import markdown  # noqa: PLC0415 - for this form alone

        print(markdown(report), end="")
    if options.out is None and (options.json or options.markdown):
        return ExitCode.SUCCESS
    from pretuned.report.page.html import page  # noqa: PLC0415 - templates are loaded for a page alone

    out, content = options.out or Path(PAGE), page(report).encode()
    write_whole(out, content)
    console.info(f"{out}: {len(content) / 1e6:.2f} MB; it needs no network and no other file")
    return ExitCode.SUCCESS
