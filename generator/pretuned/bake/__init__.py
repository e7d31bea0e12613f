"""Baking: from specs, rows and binaries to the files of a generated package. Pure: no GPU, no clock, no environment."""

from pretuned.verb import be_called

be_called(__name__)
