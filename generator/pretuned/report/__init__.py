"""Reports: the table as people and programs read it. Pure text; only the CLI prints."""
