"""Reports: the table as people and programs read it. Pure text; only the CLI prints."""

from pretuned.verb import be_called

be_called(__name__)
