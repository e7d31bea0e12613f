"""What `pretuned init` adds to an existing project: a first kernel, the table, and pretuned among the requirements.

Nothing that exists is overwritten. `layout` finds out how the project is built and where its package lies, `edits`
plans what to write, `kernel/` holds the first kernel.
"""
