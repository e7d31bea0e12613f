"""The public functions on projects, which the commands of the same names print: `tune`, `check` and `bake`.

They raise errors, return what was done, and print nothing: whoever calls brings listeners.
"""
