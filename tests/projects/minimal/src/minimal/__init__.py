"""A project with one small kernel."""
