"""`pretuned report`: a project's lock as a page, as Markdown or as data."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from pretuned.api.reporting import gathered
from pretuned.cli.project import console
from pretuned.errors import ExitCode, UsageError, counted
from pretuned.files import storage_errors, write_whole
from pretuned.report.page import PAGE
from pretuned.report.project import report_of


def run(options: Namespace) -> ExitCode:
    """Write the page; or print Markdown or data, or write that to the file of --out."""
    if options.json and options.markdown:
        raise UsageError("choose one of --json and --markdown")
    report = report_of(gathered(options.project, options.lock, options.against, options.on, console))
    if options.json:
        text = json.dumps(report.to_json(), indent=2) + "\n"
    elif options.markdown:
        from pretuned.report.markdown import markdown  # noqa: PLC0415 - for this form alone

        text = markdown(report)
    else:
        from pretuned.report.page.html import page  # noqa: PLC0415 - templates are loaded for a page alone

        text = page(report)
    printed = options.json or options.markdown
    if options.out is None and printed:
        print(text, end="")
        return ExitCode.SUCCESS
    out, content = options.out or Path(PAGE), text.encode()
    with storage_errors("the report cannot be written", out):
        write_whole(out, content)
    size = f"{len(content) / 1e6:.2f} MB; it needs no network and no other file"
    console.info(f"{out}: {counted(len(text.splitlines()), 'line') if printed else size}")
    return ExitCode.SUCCESS
