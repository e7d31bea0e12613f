"""A report as one HTML file: plots as inline SVG, tables, and nothing that a browser would have to fetch."""

from typing import Final

PAGE: Final = "pretuned-report.html"  # where nobody names another file
