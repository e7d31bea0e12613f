"""A report as one HTML file: plots as inline SVG, tables, and nothing that a browser would have to fetch."""
