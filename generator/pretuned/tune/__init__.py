"""Tuning: which configuration is fastest for each row, and whether that is certain. Imports no CUDA."""

from pretuned.verb import be_called

be_called(__name__)
